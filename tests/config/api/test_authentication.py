"""Who may do what: keys and their scopes, callers without one, and users of the admin."""

from __future__ import annotations

from datetime import timedelta

import pytest
import time_machine
from django.contrib.auth.models import User
from django.test import TestCase

from config import snapshot
from config.access.api_keys import live_keys, revoke_key
from config.models import ApiKey, Change, Scope
from config.snapshot import Lateness
from config.snapshot.tables import current
from events.models import Event
from experiments.models import Exposure
from flags.models import Flag
from tests.answers import data, error
from tests.config.api.wire import Answer, failure, send
from tests.conftest import ACTOR, NOON, CommittingClient
from tests.factories import ExperimentFactory, FlagFactory, KeyFactory, UserFactory

# --- keys ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", ["Bearer {}", "bearer {}", "BEARER  {} "])
def test_key__as_bearer__is_accepted(db, header):
    _, secret = KeyFactory()
    data(CommittingClient().get("/v1/flags", HTTP_AUTHORIZATION=header.format(secret)))


def test_key__as_its_own_header__is_accepted(db):
    _, secret = KeyFactory()
    data(CommittingClient().get("/v1/flags", HTTP_X_API_KEY=secret))


@pytest.mark.parametrize("change", [str.upper, lambda key: key[:-1], lambda key: key + "x", lambda key: key[:12]])
def test_key__that_differs_in_a_character__is_unknown(db, change):
    _, secret = KeyFactory()
    response = CommittingClient().get("/v1/flags", HTTP_AUTHORIZATION=f"Bearer {change(secret)}")
    error(response, 401, "unauthenticated")


def test_key__its_stored_hash__opens_nothing(db):
    key, _ = KeyFactory()
    error(CommittingClient().get("/v1/flags", HTTP_AUTHORIZATION=f"Bearer {key.digest}"), 401, "unauthenticated")


def test_key__secret__stands_in_no_column(db):
    _, secret = KeyFactory()
    assert all(secret not in str(value) for value in ApiKey.objects.values_list().get())


def test_key__from_its_expiry_on__is_refused(db):
    with time_machine.travel(NOON, tick=False):
        _, secret = KeyFactory(expires_at=NOON + timedelta(hours=1))
    client = CommittingClient(HTTP_AUTHORIZATION=f"Bearer {secret}")
    with time_machine.travel(NOON + timedelta(minutes=59), tick=False):
        data(client.get("/v1/flags"))
    with time_machine.travel(NOON + timedelta(hours=1), tick=False):
        assert "expired" in error(client.get("/v1/flags"), 401, "unauthenticated")["message"]


def test_key__revoked__is_refused_from_the_next_request_on(db):
    key, secret = KeyFactory()
    client = CommittingClient(HTTP_AUTHORIZATION=f"Bearer {secret}")
    data(client.get("/v1/flags"))
    with TestCase.captureOnCommitCallbacks(execute=True):
        revoke_key(key, actor=ACTOR, now=NOON)
    error(client.get("/v1/flags"), 401, "unauthenticated")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/flags", {"key": "a"}),
        ("/v1/events", {"event": "view", "userId": "u"}),
        ("/v1/experiments/e/variant", {"userId": "u"}),
        ("/v1/variants", {"userId": "u", "record": True}),
    ],
)
def test_key__revoked_before_this_process_knows__writes_nothing_once_it_does(
    db: None, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, object]
) -> None:
    ExperimentFactory(key="e", running=True)
    key, secret = KeyFactory()
    client = CommittingClient(HTTP_AUTHORIZATION=f"Bearer {secret}")
    data(client.get("/v1/flags"))
    with TestCase.captureOnCommitCallbacks(execute=True):
        revoke_key(key, actor=ACTOR, now=NOON)
    monkeypatch.setattr(current, "lateness", Lateness.LARGE_CHANGE)
    monkeypatch.setattr(snapshot, "refresh", lambda: None)
    monkeypatch.setattr(snapshot, "require_current_keys", live_keys.load)  # it waits until the keys are known
    error(client.post(path, body, format="json"), 401, "unauthenticated")
    assert not Flag.objects.exists()
    assert not Event.objects.exists()
    assert not Exposure.objects.exists()


def test_key__revoked__does_not_fall_back_to_anonymous_access(settings, db):
    settings.ANONYMOUS_SCOPE = "manage"
    error(CommittingClient().get("/v1/flags", HTTP_AUTHORIZATION="Bearer hyd_m_revoked"), 401, "unauthenticated")
    error(CommittingClient().get("/v1/flags", HTTP_X_API_KEY="hyd_m_revoked"), 401, "unauthenticated")


def test_key__of_one_environment__reads_and_writes_there_alone(api, staging_api):
    data(staging_api.post("/v1/flags", {"key": "f", "enabled": True}), 201)
    assert data(api.get("/v1/flags/f"))["enabled"] is False
    assert data(staging_api.get("/v1/flags/f"))["enabled"] is True


@pytest.mark.parametrize(("named", "status"), [("production", 200), ("staging", 400), ("nowhere", 400)])
def test_key__sent_for_another_environment__is_refused_before_it_writes_where_nobody_looks(api, named, status):
    FlagFactory(key="f")
    response = api.patch("/v1/flags/f", {"enabled": True}, HTTP_X_ENVIRONMENT=named)
    assert response.status_code == status
    if status == 400:
        assert error(response, 400, "invalid_parameter")["details"][0]["field"] == "X-Environment"
    assert data(api.get("/v1/flags/f"))["enabled"] is (status == 200)


# --- nobody in particular --------------------------------------------------------------------------------------------


def anonymous(target: str = "/v1/flags", *, address: str = "127.0.0.1", **headers: str) -> Answer:
    return send(
        "GET", target, headers={name.replace("_", "-"): text for name, text in headers.items()}, address=address
    )


def test_anonymous__by_default__is_unauthenticated(db):
    answer = anonymous()
    assert answer.status == 401
    assert "create_key" in failure(answer)["message"]


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.10", "::1"])
def test_anonymous__from_this_machine__is_answered(settings, db, address):
    settings.ANONYMOUS_SCOPE = "manage"
    assert anonymous(address=address).status == 200


def test_anonymous__from_elsewhere__is_refused(subtests, settings, db):
    settings.ANONYMOUS_SCOPE = "manage"
    for address in ["10.0.0.1", "192.168.1.7", "8.8.8.8", "fe80::1%eth0", "2001:db8::1", "0.0.0.0", "", "x"]:
        with subtests.test(address=address):
            assert "machine" in failure(anonymous(address=address))["message"]


def test_anonymous__through_a_proxy__is_refused(subtests, settings, db):
    settings.ANONYMOUS_SCOPE = "manage"
    for header in [
        "Forwarded",
        "Via",
        "X-Forwarded-For",
        "X-Forwarded-Host",
        "X-Forwarded-Port",
        "X-Forwarded-Proto",
        "X-Forwarded-Server",
        "X-Real-IP",
        "X-Client-IP",
        "True-Client-IP",
        "CF-Connecting-IP",
    ]:
        for text in ["127.0.0.1", ""]:
            with subtests.test(header=header, text=text):
                answer = send("GET", "/v1/flags", headers={header: text})
                assert answer.status == 401
                assert "proxy" in failure(answer)["message"]


def test_anonymous__from_a_page_of_another_site__is_refused(subtests, settings, db):
    settings.ANONYMOUS_SCOPE = "manage"
    for headers in [
        {"Origin": "https://evil.example"},
        {"Origin": "http://localhost"},
        {"Origin": "http://testserver:8000"},
        {"Origin": "http://testserver.evil.example"},
        {"Origin": "http://testserver@evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "testserver"},
        {"Origin": "http://["},
        {"Origin": "https://shop.example"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "same-origin", "Origin": "https://evil.example"},
        {"Sec_Fetch_Site": "anything"},
    ]:
        with subtests.test(headers=headers):
            answer = anonymous(**headers)
            assert answer.status == 401
            assert "web site" in failure(answer)["message"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://testserver"},
        {"Sec_Fetch_Site": "same-origin"},
        {"Sec_Fetch_Site": "none"},
        {"Sec_Fetch_Site": "same-origin", "Origin": "http://testserver"},
    ],
    ids=str,
)
def test_anonymous__from_its_own_pages__is_answered(settings, db, headers):
    settings.ANONYMOUS_SCOPE = "manage"
    assert anonymous(**headers).status == 200


def test_anonymous__names_its_environment(settings, db):
    settings.ANONYMOUS_SCOPE = "manage"
    FlagFactory(key="f", on=True)
    assert anonymous("/v1/flags/f").json()["data"]["enabled"] is True
    assert anonymous("/v1/flags/f", X_Environment="production").json()["data"]["enabled"] is True
    assert anonymous("/v1/flags/f", X_Environment="staging").json()["data"]["enabled"] is False
    [detail] = failure(anonymous("/v1/flags/f", X_Environment="prod"))["details"]
    assert (detail["field"], detail["code"]) == ("X-Environment", "unknown_reference")
    assert "production" in detail["message"]


# --- users of the admin ----------------------------------------------------------------------------------------------


def signed_in(user: User, *, enforce_csrf_checks: bool = False) -> CommittingClient:
    client = CommittingClient(enforce_csrf_checks=enforce_csrf_checks)
    client.force_login(user)
    return client


@pytest.mark.parametrize("trait", ["outsider", "retired"])
def test_session__of_no_user_of_the_admin__is_nobody(db, trait):
    client = signed_in(UserFactory(permissions=["flags.view_flag"], **{trait: True}))
    error(client.get("/v1/flags"), 401, "unauthenticated")


def test_session__cookie_that_is_none__is_nobody(db):
    client = CommittingClient()
    client.cookies["halyard_session"] = "forged"
    error(client.get("/v1/flags"), 401, "unauthenticated")


def test_session__write_without_a_csrf_token__is_forbidden(db):
    client = signed_in(UserFactory(is_superuser=True), enforce_csrf_checks=True)
    assert "CSRF" in error(client.post("/v1/flags", {"key": "f"}, format="json"), 403, "forbidden")["message"]
    assert not Flag.objects.exists()
    data(client.get("/v1/flags"))


def test_session__write_with_its_csrf_token__is_done_and_logged_by_name(db):
    user = UserFactory(is_superuser=True, username="ada")
    client = signed_in(user, enforce_csrf_checks=True)
    token = "a" * 32
    client.cookies["halyard_csrf"] = token
    data(client.post("/v1/flags", {"key": "f"}, format="json", HTTP_X_CSRFTOKEN=token), 201)
    error(client.post("/v1/flags", {"key": "g"}, format="json", HTTP_X_CSRFTOKEN="b" * 32), 403, "forbidden")
    assert Change.objects.first().actor == "user ada"


def test_session__form_instead_of_json__is_refused_whatever_is_in_it(subtests, db):
    client = signed_in(UserFactory(is_superuser=True), enforce_csrf_checks=True)
    client.raise_request_exception = False
    client.cookies["halyard_csrf"] = "a" * 32
    for body in [b"--x\r\nbroken", b"csrfmiddlewaretoken=" + b"a" * 32, b"a=1&" * 2000, b"\xff"]:
        for content_type in ["multipart/form-data; boundary=x", "application/x-www-form-urlencoded"]:
            with subtests.test(body=body, content_type=content_type):
                response = client.generic("POST", "/v1/flags", body, content_type=content_type)
                assert response.status_code in (400, 403, 415), response.content
                assert response.json()["error"]["requestId"]


def test_session__environment__is_the_one_named_or_the_default(db):
    FlagFactory(key="f")
    client = signed_in(UserFactory(is_superuser=True))
    data(client.patch("/v1/flags/f", {"enabled": True}, format="json", HTTP_X_ENVIRONMENT="staging"))
    assert data(client.get("/v1/flags/f"))["enabled"] is False
    assert data(client.get("/v1/flags/f", HTTP_X_ENVIRONMENT="staging"))["enabled"] is True
    found = error(client.get("/v1/flags/f", HTTP_X_ENVIRONMENT="prod"), 400, "invalid_parameter")
    assert found["details"][0]["field"] == "X-Environment"


def test_session_and_key__the_key_decides(db):
    _, secret = KeyFactory(scope=Scope.CLIENT)
    client = signed_in(UserFactory(is_superuser=True))
    error(client.get("/v1/flags", HTTP_X_API_KEY=secret), 403, "forbidden")
