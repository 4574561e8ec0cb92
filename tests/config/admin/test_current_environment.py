"""A form that was opened in another environment writes nothing, and is filled again once somebody switches back."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.urls import reverse

from experiments.models import Experiment
from flags.models import Flag
from tests.admin import AdminClient, filled, messages_of, revision, sign_in, text_of
from tests.config.admin.test_kept_input import page_of, sign_in_again
from tests.factories import ExperimentFactory, FlagFactory

pytestmark = pytest.mark.django_db

SWITCH = reverse("admin:switch_environment")
WHY = "have switched to Staging since. Nothing was changed."


def send_from_production(client: AdminClient, address: str, sent: dict[str, Any]) -> Any:
    """Send a form that was opened in Production after a switch to Staging. Return the page that it gets."""
    client.post(SWITCH, {"environment": "staging"})
    before = revision()
    page = client.post(address, {"opened_in": "production", **sent})
    assert (page.status_code, revision()) == (412, before)
    assert f"You opened this page in Production and {WHY}" in text_of(page)
    return page


def fields_of(page: Any) -> dict[str, str]:
    """Return what the button to switch back sends."""
    form = page.content.decode().split("hy-confirm")[1].split("</form>")[0]
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form)
    return {name: html.unescape(value) for name, value in found if name != "csrfmiddlewaretoken"}


def switch_back(client: AdminClient, page: Any) -> Any:
    assert "Switch back to Production" in text_of(page)
    return client.post(SWITCH, fields_of(page), follow=True)


def test_flag__switched_back__is_filled_again_there() -> None:
    flag, client = FlagFactory(key="f"), sign_in()
    sent = filled(client, page_of(flag), description="Two\r\nlines & <more>")
    page = switch_back(client, send_from_production(client, page_of(flag), sent))
    assert page.request["PATH_INFO"] == page_of(flag)
    assert page.context["current_environment"].key == "production"
    assert page.context["adminform"].form["description"].value() == "Two\r\nlines & <more>"
    assert messages_of(page)[-1].startswith("Another environment was chosen in the meantime, so nothing was saved.")
    assert Flag.objects.get().description == ""


def test_experiment__that_the_other_environment_does_not_have__is_filled_again() -> None:
    experiment, client = ExperimentFactory(key="e"), sign_in()
    address = reverse("admin:experiments_experiment_guided", args=[experiment.pk, "hypothesis"])
    page = switch_back(client, send_from_production(client, address, {"hypothesis": "Shorter is better"}))
    assert page.context["form"]["hypothesis"].value() == "Shorter is better"
    assert Experiment.objects.get().hypothesis == ""


def test_comment__switched_back__is_in_its_form_again() -> None:
    experiment, client = ExperimentFactory(key="e", running=True), sign_in()
    address = reverse("admin:experiments_experiment_comment", args=[experiment.pk])
    page = switch_back(client, send_from_production(client, address, {"text": "Why?"}))
    assert page.context["comments"].typed == "Why?"


def test_action_of_a_list__switched_back__asks_before_it_is_done() -> None:
    flag, client = FlagFactory(key="f"), sign_in()
    sent = {"action": "production:on", "_selected_action": [str(flag.pk)], "index": "0"}
    page = send_from_production(client, reverse("admin:flags_flag_changelist"), sent)
    assert "Switch on in Production?" in text_of(switch_back(client, page))


def test_page_to_switch_back__session_ended_there__still_has_the_input() -> None:
    flag, client = FlagFactory(key="f"), sign_in()
    page = send_from_production(client, page_of(flag), filled(client, page_of(flag), description="Typed"))
    late = AdminClient()
    login = late.post(SWITCH, fields_of(page))
    form = sign_in_again(late, login).context["adminform"].form
    assert form["description"].value() == "Typed"


def test_form__too_long_to_be_kept__says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("config.admin.kept_input._MAX_CHARACTERS", 50)
    flag, client = FlagFactory(key="f"), sign_in()
    page = send_from_production(client, page_of(flag), {"description": "x" * 100})
    assert "too long to be kept: go back in your browser to copy it" in text_of(page)
    assert "kept" not in fields_of(page)


def test_form__of_no_environment_that_exists__is_refused_by_its_page() -> None:
    flag, client = FlagFactory(key="f"), sign_in()
    sent = {**filled(client, page_of(flag)), "opened_in": "nowhere"}
    assert "You opened this page in another environment" in text_of(client.post(page_of(flag), sent))
