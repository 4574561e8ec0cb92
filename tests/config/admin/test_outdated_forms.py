"""Forms without a valid token: people without a session sign in, and input that was sent from here comes back."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from config.models import Environment
from flags.changes.flag_changes import get_flag
from flags.models import Segment
from tests.admin import answer, messages_of, text_of
from tests.config.admin.test_kept_input import ENDED, LOGIN, OVERVIEW, kept_in, page_of, sign_in_again
from tests.factories import ExperimentFactory, FlagFactory
from tests.outage import statement_fails

pytestmark = pytest.mark.django_db

HERE = {"Origin": "http://testserver"}


def strict_client(*, is_signed_in: bool = True) -> Client:
    client = Client(enforce_csrf_checks=True)
    if is_signed_in:
        client.force_login(User.objects.create_superuser("ada"))
    return client


def test_form__with_the_token_of_an_earlier_session__is_filled_again() -> None:
    client, address = strict_client(), reverse("admin:flags_segment_add")
    response = client.post(address, {"key": "new", "csrfmiddlewaretoken": "a" * 64}, headers=HERE)
    assert (response.status_code, response.headers["Location"]) == (302, address)
    page = client.get(address)
    assert page.context["adminform"].form["key"].value() == "new"
    assert "The form expired" in messages_of(page)[0]
    assert "before you signed in" not in messages_of(page)[0]
    assert not Segment.objects.exists()


def test_comment__without_its_token__is_in_its_form_again() -> None:
    client, experiment = strict_client(), ExperimentFactory(key="e", running=True)
    comment, results = (
        reverse(f"admin:experiments_experiment_{page}", args=[experiment.pk]) for page in ("comment", "results")
    )
    response = client.post(comment, {"text": "Why?", "opened_in": "production"}, headers=HERE)
    assert (response.status_code, response.headers["Location"]) == (302, results)
    assert client.get(results).context["comments"].typed == "Why?"
    assert not experiment.comments.exists()


@pytest.mark.parametrize("is_signed_in", [True, False])
def test_form__sent_by_a_script_for_a_preview__is_not_kept(is_signed_in: bool) -> None:
    flag = FlagFactory.create()
    client = strict_client(is_signed_in=is_signed_in)
    preview = page_of(flag, "preview")
    response = client.post(preview, {"description": "Typed"}, headers={**HERE, "Sec-Fetch-Mode": "cors"})
    assert response.status_code == 403
    assert not kept_in(response)
    assert "kept_input" not in client.session


def test_form__without_session_and_token__leads_through_the_page_to_sign_in() -> None:
    client = strict_client(is_signed_in=False)
    response = client.post(reverse("admin:flags_segment_add"), {"key": "new"}, headers=HERE)
    assert response.status_code == 403
    assert kept_in(response)
    late = client.post(LOGIN, {"username": "ada", "password": "x", **kept_in(response)}, headers=HERE)
    assert kept_in(late).keys() == {"kept"}  # the token of this page was missing, too


@pytest.mark.parametrize("headers", [HERE, {}])
def test_switch__without_any_cookie__asks_after_signing_in(production: Environment, headers: dict[str, str]) -> None:
    flag = FlagFactory(key="f")
    client = strict_client(is_signed_in=False)
    login = client.post(page_of(flag, "toggle"), {"switch": "production:on"}, headers=headers)
    assert "Your session has ended, and nothing was saved." in text_of(login)
    client.handler.enforce_csrf_checks = False
    question = sign_in_again(client, login)
    assert "Switch on f?" in text_of(question)
    assert messages_of(question)[0].startswith(ENDED)
    answer(client, question)
    assert get_flag("f", production).enabled is True


@pytest.mark.parametrize("origin", ["https://evil.example", "null", ""])
def test_form__of_another_site_without_a_session__leads_to_the_page_to_sign_in_alone(origin: str) -> None:
    client = strict_client(is_signed_in=False)
    response = client.post(reverse("admin:flags_segment_add"), {"key": "new"}, headers={"Origin": origin})
    assert (response.status_code, kept_in(response)) == (403, {})
    assert "Log in" in text_of(response)
    assert "This form is out of date" not in text_of(response)


def test_button_to_sign_out__without_a_session__leads_to_the_page_to_sign_in() -> None:
    client = strict_client(is_signed_in=False)
    login = client.post(reverse("admin:logout"), headers=HERE)
    assert (login.status_code, kept_in(login)) == (403, {})
    client.handler.enforce_csrf_checks = False
    assert sign_in_again(client, login).request["PATH_INFO"] == OVERVIEW


def test_page_to_sign_in__without_its_cookie__says_that_cookies_may_be_blocked() -> None:
    response = strict_client(is_signed_in=False).post(LOGIN, {"username": "ada", "password": "x"}, headers=HERE)
    assert response.status_code == 403
    assert "your browser blocks cookies" in text_of(response)


def test_form__with_a_session_and_no_origin__is_out_of_date() -> None:
    client = strict_client()
    response = client.post(reverse("admin:flags_segment_add"), {"key": "new", "csrfmiddlewaretoken": "a" * 64})
    assert response.status_code == 403
    assert "This form is out of date" in text_of(response)


@pytest.mark.parametrize("origin", ["https://evil.example", "null", ""])
def test_form__of_another_site__fills_nothing(origin: str) -> None:
    client = strict_client()
    response = client.post(reverse("admin:flags_segment_add"), {"key": "new"}, headers={"Origin": origin})
    assert response.status_code == 403
    assert "Nothing was saved. Open the form again" in text_of(response)
    assert "kept_input" not in client.session


def test_form__token_and_database_fail__asks_to_come_back() -> None:
    client = strict_client()
    with statement_fails(0):
        response = client.post(reverse("admin:flags_segment_add"), {"key": "new"}, headers=HERE)
    assert response.status_code == 503
