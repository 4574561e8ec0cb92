"""Switching flags in a protected environment: the pages ask first, name the consequences, and take a reason."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.urls import reverse
from django.utils import timezone

from config import snapshot
from config.access.environments import update_environment
from config.models import Change, Environment, ReasonSetting
from flags.changes.flag_changes import create_flag, get_flag, update_flag
from flags.changes.segment_changes import create_segment
from flags.models import Flag, Usage, hour_of
from tests.admin import AdminClient, answer, errors_of, filled, hidden_fields, messages_of, revision, sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.flags.usage.users import seen, store

LIST = "/admin/flags/flag/"
QUARTER = [{"type": "percentage", "percentage": 25}]


@pytest.fixture
def flag(production: Environment) -> Flag:
    return create_flag(key="f", environment=production, actor=ACTOR, now=NOON)


def address(page: str, flag: Flag, *more: object) -> str:
    return reverse(f"admin:flags_flag_{page}", args=[flag.pk, *more])


def press(client: AdminClient, flag: Flag, wanted: str = "on", **typed: Any) -> Any:
    return client.post(address("toggle", flag), {"switch": f"production:{wanted}", **typed})


def act(client: AdminClient, wanted: str, *flags: Flag) -> Any:
    selected = [str(flag.pk) for flag in flags]
    return client.post(LIST, {"action": f"production:{wanted}", "_selected_action": selected, "index": "0"})


def require_reasons(environment: Environment, setting: str = ReasonSetting.REQUIRED, **more: Any) -> None:
    update_environment(environment, change_reason=setting, actor=ACTOR, now=NOON, **more)


def seen_in_the_last_day(production: Environment) -> None:
    """Three users seen in the last day, one of them in the first quarter of users, and one user of last week."""
    now = timezone.now()
    recent = [seen(f"user-{number}", now, plan="pro" if number == 2 else "free") for number in range(3)]
    store(production, *recent, seen("old", now - timedelta(days=3), plan="pro"), now=now - timedelta(days=6))
    for hours, count in ((0, 900), (20, 334), (30, 5_000)):
        hour = hour_of(now - timedelta(hours=hours))
        Usage.objects.create(environment=production, flag_key="f", outcome="off", hour=hour, count=count)


def test_switch__in_a_protected_environment__asks_and_says_whom_it_touches(flag: Flag, production: Environment) -> None:
    pro = [{"type": "attribute", "conditions": [{"attribute": "plan", "operator": "equals", "value": "pro"}]}]
    update_flag(key="f", environment=production, changes={"rules": pro}, actor=ACTOR, now=NOON)
    seen_in_the_last_day(production)
    client, before = sign_in(), revision()
    page = press(client, flag)
    assert (page.status_code, revision()) == (200, before)
    shown = text_of(page)
    assert "Switch on f?" in shown
    assert "In the last day, f was evaluated 1,234 times here." in shown
    assert "Of the 3 users seen here in the last day, 1 (33 %) will see something else." in shown
    done = answer(client, page, reason="Beta")
    assert messages_of(done) == ["f is now on in Production."]
    assert Change.objects.since(before).get().reason == "Beta"


@pytest.mark.parametrize("form", [True, False], ids=["form", "switch"])
def test_question__takes_few_queries(
    flag: Flag, production: Environment, django_assert_max_num_queries: Any, form: bool
) -> None:
    seen_in_the_last_day(production)
    client = sign_in()
    sent = filled(client, address("change", flag), enabled=True)
    press(client, flag)
    snapshot.refresh()
    if form:
        # Of these, 13 are those of a save, from its savepoints to its change, which is rolled back.
        with django_assert_max_num_queries(26 + (connection.vendor == "postgresql")):  # which locks the log
            client.post(address("change", flag), sent)
    else:
        with django_assert_max_num_queries(7):  # session, user, environments, flag, usage, sample and its users
            press(client, flag)


def test_question__without_recent_users__says_so(flag: Flag) -> None:
    shown = text_of(press(sign_in(), flag))
    assert "In the last day, f was not evaluated here." in shown
    assert "No user is known to have been seen here in the last day." in shown


def test_question__declined__changes_nothing(flag: Flag) -> None:
    client, before = sign_in(), revision()
    left = answer(client, press(client, flag), 1)
    assert messages_of(left) == ["You cancelled, so nothing was changed."]
    assert revision() == before


def test_switch__that_changes_nothing__asks_nothing(flag: Flag) -> None:
    assert messages_of(press(sign_in(), flag, "off")) == ["f is now off in Production."]


def test_agreement__to_the_opposite__is_asked_for_again(flag: Flag) -> None:
    before = revision()
    assert "Switch on f?" in text_of(press(sign_in(), flag, agreed="f is off"))
    assert revision() == before


def test_switch__elsewhere__asks_nothing(flag: Flag, staging: Environment) -> None:
    client = sign_in()
    client.post(reverse("admin:switch_environment"), {"environment": "staging"})
    answered = client.post(address("toggle", flag), {"switch": "staging:on"})
    assert messages_of(answered) == ["f is now on in Staging."]


# --- the reason ------------------------------------------------------------------------------------------------------


def test_required_reason__missing__is_asked_for(flag: Flag, production: Environment) -> None:
    require_reasons(production)
    client, before = sign_in(), revision()
    page = press(client, flag)
    assert "Required. The history shows it." in text_of(page)
    assert "Give a reason" not in text_of(page)
    again = answer(client, page, reason=" ")
    assert "Give a reason for this change." in text_of(again)
    assert revision() == before
    answer(client, again, reason="Beta")
    assert Change.objects.latest("revision").reason == "Beta"


def test_required_reason__in_an_environment_that_is_not_protected__is_asked_for_too(
    flag: Flag, production: Environment
) -> None:
    require_reasons(production, protected=False)
    client = sign_in()
    page = press(client, flag)
    assert "Switch on f?" in text_of(page)
    assert messages_of(answer(client, page, reason="Beta")) == ["f is now on in Production."]


def test_reason__that_nobody_asks_for__has_no_field(flag: Flag, production: Environment) -> None:
    require_reasons(production, ReasonSetting.NONE)
    page = press(sign_in(), flag)
    assert 'name="reason"' not in page.content.decode()[page.content.decode().index("hy-confirm") :].split("</form>")[0]


@pytest.mark.parametrize("page", ["archive", "delete"])
def test_required_reason__on_a_page_that_confirms__is_asked_for(flag: Flag, production: Environment, page: str) -> None:
    require_reasons(production)
    client, before = sign_in(), revision()
    where = address(page, flag)
    again = client.post(where, {"opened_in": "production", "reason": ""})
    assert "Give a reason for this change." in text_of(again)
    assert revision() == before
    assert answer(client, again, reason="Not needed").status_code == 302
    assert Change.objects.latest("revision").reason == "Not needed"


def test_required_reason__of_a_form__is_its_field(flag: Flag, production: Environment) -> None:
    require_reasons(production)
    client, before = sign_in(), revision()
    where = address("change", flag)
    refused = client.post(where, filled(client, where, description="New"))
    assert errors_of(refused) == {"reason": ["This field is required."]}
    assert revision() == before
    assert client.post(where, filled(client, where, description="New", reason="Clearer")).status_code == 302


def test_required_reason__of_what_all_environments_share__is_the_strictest(
    production: Environment, staging: Environment
) -> None:
    segment = create_segment(key="s", actor=ACTOR, now=NOON)
    require_reasons(staging)
    client = sign_in()
    where = reverse("admin:flags_segment_change", args=[segment.pk])
    assert errors_of(client.post(where, filled(client, where, description="New"))) == {
        "reason": ["This field is required."]
    }


# --- the form --------------------------------------------------------------------------------------------------------


def test_form__that_switches_a_flag__is_checked_before_it_asks(flag: Flag, production: Environment) -> None:
    client, before = sign_in(), revision()
    where = address("change", flag)
    refused = client.post(where, filled(client, where, enabled=True, rules='[{"type": "percentage"}]'))
    assert "rules" in errors_of(refused)
    sent = filled(
        client, where, enabled=True, rules='[{"type": "percentage", "percentage": 50}]', reason="Half of them"
    )
    page = client.post(where, sent)
    assert "Switch on f?" in text_of(page)
    assert 'value="Half of them"' in page.content.decode()
    assert revision() == before
    answer(client, page, reason="Half of them")
    changed = get_flag("f", production)
    assert (changed.enabled, changed.rules) == (True, [{"type": "percentage", "percentage": 50}])
    assert Change.objects.since(before).get().reason == "Half of them"


def test_form__that_saves_rules_alone__asks_nothing(flag: Flag, production: Environment) -> None:
    client = sign_in()
    where = address("change", flag)
    sent = filled(client, where, rules='[{"type": "percentage", "percentage": 50}]')
    assert client.post(where, sent).status_code == 302


# --- several flags ---------------------------------------------------------------------------------------------------


def test_several_flags__name_their_number_and_ask_for_the_name_of_the_environment(
    flag: Flag, production: Environment
) -> None:
    others = [create_flag(key=f"g{number}", environment=production, actor=ACTOR, now=NOON) for number in range(30)]
    client, before = sign_in(), revision()
    page = act(client, "on", flag, *others)
    shown = text_of(page)
    assert "Switch on 31 flags?" in shown
    assert "f was not evaluated in the last day." in shown
    assert "and 11 more flags" in shown
    assert "Type Production to confirm" in shown
    for typed in ("", "Staging"):
        again = answer(client, page, typed_name=typed)
        assert "Type the name of the environment, Production." in text_of(again)
    assert revision() == before
    assert messages_of(answer(client, page, typed_name=" production ")) == ["31 flags are now on in Production."]


def test_revert__that_switches_a_flag__asks_on_its_own_page(flag: Flag, production: Environment) -> None:
    created = revision()
    update_flag(key="f", environment=production, changes={"enabled": True}, actor=ACTOR, now=NOON)
    client = sign_in()
    page = client.get(address("revert", flag, created))
    assert "In the last day, f was not evaluated here." in text_of(page)
    assert hidden_fields(page)["agreed"] == ["f is off"]
    assert messages_of(answer(client, page)) == [f"f is reverted to revision {created}."]


def test_promotion__that_switches_a_flag__asks_on_its_own_page(
    flag: Flag, production: Environment, staging: Environment
) -> None:
    update_flag(key="f", environment=staging, changes={"enabled": True, "rules": QUARTER}, actor=ACTOR, now=NOON)
    seen_in_the_last_day(production)
    client = sign_in()
    page = client.post(address("promote", flag), {"way": "staging:production"})
    assert "Of the 3 users seen here in the last day," in text_of(page)
    body = page.content.decode()
    assert 'name="agreed" value="f is on"' in body
    sent = {"way": "staging:production", "opened_in": "production", "flags": "f", "seen": page.context["preview"].seen}
    done = client.post(address("promote", flag), {**sent, "agreed": "f is on"})
    assert messages_of(done) == ["f is promoted from Staging to Production."]
