"""Pages that tell why a request failed: whatever the database does, and wherever in a request it does so."""

from __future__ import annotations

import logging
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.test import Client
from django.urls import reverse

from config.admin.failure_pages import handler500
from config.models import Environment
from flags.models import Flag
from tests.admin import filled, revision, sign_in, text_of
from tests.factories import ExperimentFactory, FlagFactory
from tests.outage import database_away, from_postgresql, statement_fails
from tests.transactions import undone

pytestmark = pytest.mark.django_db

AWAY = "The database cannot answer now"
LOGIN, OVERVIEW, FLAGS = "/admin/login/", "/admin/", "/admin/flags/flag/"
SWITCH = "/admin/config/environment/switch/"
PASSWORD = "a-long-Passphrase-1"
MAX_STATEMENTS = 60


def check_outage(response: Any) -> None:
    assert (response.status_code, response.headers["Retry-After"]) == (503, "1")
    assert (response.headers["Cache-Control"], response.headers["X-Frame-Options"]) == ("no-store", "DENY")
    assert AWAY in text_of(response)
    assert response.cookies.keys() <= {"halyard_csrf"}  # the session stays as it is, and nothing claims to be done


# --- where the database fails ----------------------------------------------------------------------------------------


def test_page__database_is_away__is_made_without_it(caplog: pytest.LogCaptureFixture) -> None:
    client = sign_in()
    with database_away() as tried:
        response = client.get(OVERVIEW, headers={"X-Request-Id": "trace-1"})
    check_outage(response)
    assert len(tried) == 1
    assert response.headers["X-Request-Id"] == "trace-1"
    assert "report it with the request id trace-1" in text_of(response)
    [record] = [record for record in caplog.records if record.name == "config.api.failures"]
    assert (record.levelno, "request trace-1" in record.getMessage()) == (logging.WARNING, True)
    assert client.get(OVERVIEW).status_code == 200


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("index", marks=pytest.mark.one_server("it leaves out what a worker has that is away")),
        *("flags_flag_changelist", "flags_flag_change", "results", "flags_flag_known"),
    ],
)
def test_page__database_fails_at_any_statement__asks_to_come_back(name: str) -> None:
    flag, experiment = FlagFactory(key="f", on=True), ExperimentFactory(key="e", running=True)
    page = {
        "flags_flag_change": lambda: reverse("admin:flags_flag_change", args=[flag.pk]),
        "results": lambda: reverse("admin:experiments_experiment_results", args=[experiment.pk]),
    }.get(name, lambda: reverse(f"admin:{name}"))()
    client = sign_in()
    for number in range(MAX_STATEMENTS):
        with statement_fails(number) as tried:
            response = client.get(page)
        if not tried:
            break
        check_outage(response)
        assert len(tried) == 1
    assert number > 2
    assert response.status_code == 200


def test_log_in__database_fails_at_any_statement__asks_to_come_back() -> None:
    User.objects.create_superuser("ada", password=PASSWORD)
    for number in range(MAX_STATEMENTS):
        with undone(), statement_fails(number) as tried:
            response = Client().post(LOGIN, {"username": "ada", "password": PASSWORD, "next": OVERVIEW})
        if not tried:
            break
        check_outage(response)
    assert number > 3
    assert (response.status_code, response.headers["Location"]) == (302, OVERVIEW)


def test_form__database_fails_at_any_statement__is_saved_in_whole_or_not_at_all() -> None:
    page = reverse("admin:flags_flag_change", args=[FlagFactory(key="f").pk])
    client, before = sign_in(), revision()
    sent = filled(client, page, description="New", enabled=True) | {"agreed": "f is on"}
    for number in range(MAX_STATEMENTS):
        with statement_fails(number) as tried:
            response = client.post(page, sent)
        if not tried:
            break
        check_outage(response)
        assert "Your form may not have been saved" in text_of(response)
        assert revision() == before
    assert number > 10
    assert (response.status_code, revision()) == (302, before + 1)


def test_form__database_fails_after_it_was_saved__says_no_more_than_is_known() -> None:
    flag = FlagFactory(key="f")
    client, before = sign_in(), revision()
    page = reverse("admin:flags_flag_archive", args=[flag.pk])
    for number in reversed(range(MAX_STATEMENTS)):
        with statement_fails(number) as tried:
            response = client.post(page, {"opened_in": "production"})
        if tried:
            break
        Flag.objects.update(archived_at=None)
    check_outage(response)
    assert revision() > before
    assert "Your form may not have been saved. Go back, and check before you send it again." in text_of(response)


@pytest.mark.parametrize("page", [LOGIN, SWITCH])
def test_form__database_only_reads__asks_to_come_back(page: str) -> None:
    User.objects.create_superuser("eve", password=PASSWORD)
    client = sign_in()
    with database_away(for_writes_alone=True):
        response = client.post(page, {"username": "eve", "password": PASSWORD, "environment": "staging"})
    check_outage(response)


def test_page__database_only_reads__is_shown() -> None:
    client = sign_in()
    with database_away(for_writes_alone=True):
        assert client.get(FLAGS).status_code == 200


def test_session__deleted_in_the_meantime__is_no_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    client = sign_in()
    switch = Environment.objects.all

    def log_out_elsewhere() -> Any:
        client.session.delete()
        return switch()

    monkeypatch.setattr(Environment.objects, "all", log_out_elsewhere)
    response = client.post(SWITCH, {"environment": "staging"})
    assert response.status_code == 400
    assert "This request cannot be read" in text_of(response)


@pytest.mark.parametrize("debug", [False, True])
def test_page__database_is_away_in_debug_mode__is_the_same(settings: Any, debug: bool) -> None:
    settings.DEBUG = debug
    client = sign_in()
    with database_away():
        check_outage(client.get(OVERVIEW))


def test_api__session_cannot_be_saved__answers_as_for_any_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    client = sign_in()

    def fail(*_: Any) -> None:
        raise OperationalError("the database is away")

    monkeypatch.setattr("django.contrib.sessions.middleware.SessionMiddleware.process_response", fail)
    response = client.get("/v1/flags")
    assert (response.status_code, response.json()["error"]["code"]) == (503, "unavailable")
    assert response.headers["Retry-After"] == "1"
    assert "Content-Security-Policy" not in response.headers


def test_results__postgresql_fails__are_an_outage_if_its_state_is_the_cause(
    subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = ExperimentFactory(key="e", running=True)
    client = sign_in()
    client.raise_request_exception = False
    for code, status in [("57014", 503), ("25006", 503), ("08006", 503), ("42P01", 500), ("54001", 500)]:
        with subtests.test(code=code):
            fail = Mock(side_effect=from_postgresql(code))
            monkeypatch.setattr("experiments.admin.results.pages.known_attributes", fail)
            response = client.get(reverse("admin:experiments_experiment_results", args=[experiment.pk]))
            assert response.status_code == status
            assert "PostgreSQL" not in response.content.decode()
            if status == 503:
                assert "needed too long for this page" in text_of(response)


def test_page__that_needs_no_database__is_there_while_that_is_away(subtests: pytest.Subtests) -> None:
    for page in ["/guide/", "/guide/search.json", "/docs", "/redoc", "/v1/schema", "/", "/nowhere"]:
        with subtests.test(page=page):
            with database_away() as tried:
                assert Client().get(page).status_code in (200, 302, 404)
                assert sign_in_without_asking().get(page).status_code in (200, 302, 404)
            assert tried == []


def sign_in_without_asking() -> Client:
    """Return a browser with a cookie of a session, which only the database knows."""
    client = Client()
    client.cookies["halyard_session"] = "a" * 32
    return client


# --- what the pages say ----------------------------------------------------------------------------------------------


def address_on(response: Any, label: str) -> str:
    """Return where the link with this label leads."""
    before, _, _ = response.content.decode().partition(f">{label}<")
    return before.rpartition('href="')[2].rstrip('"')


def test_link__of_a_page_that_was_read__leads_there_again() -> None:
    with database_away():
        response = sign_in_without_asking().get(f"{FLAGS}?q=a&tag=%22b%3E")
    assert "Nothing was changed. Wait a few seconds, and try again." in text_of(response)
    assert address_on(response, "Try again") == f"{FLAGS}?q=a&amp;tag=%22b%3E"


@pytest.mark.parametrize(
    ("referer", "leads_to"),
    [
        ("http://testserver/admin/flags/flag/?q=a", "http://testserver/admin/flags/flag/?q=a"),
        ("https://evil.example/", SWITCH),
        ("javascript:alert(1)", SWITCH),
        ("", SWITCH),
    ],
)
def test_link__of_a_form_that_was_sent__leads_to_the_page_with_the_form(referer: str, leads_to: str) -> None:
    with database_away():
        sent = {"environment": "staging"}
        response = sign_in_without_asking().post(SWITCH, sent, headers={"Referer": referer})
    check_outage(response)
    assert address_on(response, "Back to the form") == leads_to


def test_page__of_a_failure__has_the_headers_of_others_and_loads_no_script() -> None:
    usual = Client().get(LOGIN).headers
    with database_away():
        response = sign_in_without_asking().get(OVERVIEW)
    for name in ("X-Frame-Options", "X-Content-Type-Options", "Referrer-Policy", "Cross-Origin-Opener-Policy"):
        assert response.headers[name] == usual[name]
    assert response.headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'self'")
    assert "<script" not in response.content.decode()
    assert " style=" not in response.content.decode()


def test_page__of_a_defect__needs_no_database_and_names_the_request(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("config.guide.views._document", lambda _: 1 / 0)
    client = Client(raise_request_exception=False)
    client.cookies["halyard_session"] = "a" * 32
    with database_away() as tried:
        response = client.get("/guide/")
    assert tried == []
    assert (response.status_code, response.headers["Cache-Control"]) == (500, "no-store")
    assert "Retry-After" not in response.headers
    text = text_of(response)
    assert "The service failed This is a defect of Halyard." in text
    request_id = response.headers["X-Request-Id"]
    assert UUID(request_id)
    assert f"the request id {request_id}" in text
    [record] = [record for record in caplog.records if record.name == "config.admin.failure_pages"]
    assert (record.levelno, request_id in record.getMessage()) == (logging.ERROR, True)


def test_form__that_meets_a_defect__may_not_have_been_saved(rf: Any) -> None:
    response = handler500(rf.post(FLAGS))
    assert "Your form may not have been saved." in text_of(response)


@pytest.mark.parametrize("address", ["/nowhere", "/admin/nowhere/", "/%0a<script>"])
def test_address__without_a_page__is_not_found(address: str) -> None:
    response = sign_in().get(address)
    assert (response.status_code, response.headers["Cache-Control"]) == (404, "no-store")
    assert "Page not found" in text_of(response)
    assert address_on(response, "Open the admin") == OVERVIEW


def test_page__without_the_permission__is_forbidden() -> None:
    response = sign_in("flags.view_flag").get("/admin/config/apikey/")
    assert response.status_code == 403
    assert "You may not do this" in text_of(response)


def test_request__that_django_cannot_read__gets_a_page() -> None:
    response = Client().get("/admin/", headers={"Host": "evil.example"})
    assert response.status_code == 400
    assert "This request cannot be read" in text_of(response)
    assert "evil.example" not in response.content.decode()


def test_form__with_an_outdated_token__says_that_nothing_was_saved() -> None:
    response = Client(enforce_csrf_checks=True).post(LOGIN, {"username": "ada"})
    assert response.status_code == 403
    assert "Nothing was saved. Open the form again, and send it once more." in text_of(response)
    assert address_on(response, "Back to the form") == LOGIN


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("POST", "/guide/", "GET, HEAD"), ("DELETE", "/guide/", "GET, HEAD")],
)
def test_page__wrong_method__says_what_to_do(method: str, path: str, allowed: str) -> None:
    response = sign_in().generic(method, path)
    assert (response.status_code, response.headers["Allow"]) == (405, allowed)
    assert "This address cannot be used like this" in text_of(response)
    assert 'href="/admin/"' in response.content.decode()
