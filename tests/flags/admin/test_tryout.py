"""Trying a flag on a user: the decision, its reasons, and the configuration that decided."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse

from config.models import Change, Environment
from flags.changes.flag_changes import create_flag, delete_flag, update_flag
from flags.changes.segment_changes import create_segment
from flags.engine.bucketing import bucket
from flags.models import Flag
from tests.admin import revision, sign_in, text_of
from tests.cases import undone
from tests.conftest import ACTOR, NOON

COLOURS = [{"key": "blue", "value": "Buy now"}, {"key": "grey", "value": "Buy"}]
IS_PRO = {"type": "attribute", "conditions": [{"attribute": "plan", "operator": "equals", "value": "pro"}]}


@pytest.fixture
def flag(production: Environment) -> Flag:
    rules = [
        {"type": "users", "name": "Team", "userIds": ["ada"], "variant": "grey"},
        {"type": "percentage", "percentage": 25},
        IS_PRO,
    ]
    return create_flag(
        key="colour",
        enabled=True,
        type="string",
        variants=COLOURS,
        rules=rules,
        environment=production,
        actor=ACTOR,
        now=NOON,
    )


def page(flag: Flag) -> str:
    return reverse("admin:flags_flag_try_it", args=[flag.pk])


def tried(flag: Flag, *permissions: str, **sent: Any) -> Any:
    values = {"user_id": "lin", "attributes": "{}", "opened_in": "production", **sent}
    return sign_in(*permissions).post(page(flag), values)


def test_try__is_a_button_of_the_flag_page(flag: Flag) -> None:
    change = reverse("admin:flags_flag_change", args=[flag.pk])
    assert f'href="{page(flag)}"' in sign_in().get(change).content.decode()


def test_try__before_anybody_is_named__tries_nothing_and_offers_the_attributes(flag: Flag) -> None:
    response = sign_in().get(page(flag))
    assert "tryout" not in response.context
    assert 'data-names="[&quot;plan&quot;]"' in response.content.decode()


def test_try__a_user_whom_a_rule_lists__says_so_and_writes_nothing(flag: Flag) -> None:
    before = revision()
    shown = text_of(tried(flag, user_id="ada"))
    assert "On, serving grey" in shown
    assert "Rule 1 is the first that matches this user." in shown
    assert '"Buy"' in shown
    assert "Team decides, serves grey" in shown
    assert revision() == before


def test_try__a_user_in_two_rules__says_which_one_shadows_the_other(flag: Flag) -> None:
    trace = tried(flag, user_id="ada", attributes='{"plan": "pro"}').context["tryout"].trace
    assert (trace.rules[0].tone, trace.rules[2].tone) == ("served", "shadowed")
    assert trace.rules[2].verdict == "would match the user, but rule 1 comes first"


def test_try__a_share__tells_bucket_and_threshold(flag: Flag) -> None:
    at = bucket("colour", "lin")
    step = tried(flag).context["tryout"].trace.rules[1].steps[0]
    assert step.finding == f"bucket {at:,} of 100,000; buckets below 25,000 are in"
    assert (step.bar.share, step.bar.position) == (25, at / 1000)
    assert step.passed == (at < 25_000)


def test_try__attributes__are_compared(flag: Flag) -> None:
    trace = tried(flag, attributes='{"plan": "free"}').context["tryout"].trace
    [step] = trace.rules[2].steps
    assert (step.text, step.finding, step.passed) == ("plan equals pro", 'plan is "free"', False)


def test_try__what_the_api_refuses__is_refused_at_its_field(subtests: pytest.Subtests, flag: Flag) -> None:
    for sent, field, words in [
        ({"user_id": ""}, "user_id", "Must not be empty."),
        ({"user_id": "u" * 201}, "user_id", "Must be at most 200 characters."),
        ({"user_id": "nul \0"}, "user_id", "Must not contain the character U+0000."),
        ({"attributes": "[]"}, "attributes", "Must be a JSON object."),
        ({"attributes": "{"}, "attributes", "The field attributes is not valid JSON"),
        ({"attributes": '{"a": NaN}'}, "attributes", "Must be a finite number."),
        ({"at": "yesterday"}, "at", "Must be a date and time such as 2026-01-31T12:00:00Z."),
        ({"at": "2020-01-01T00:00"}, "at", "The flag did not exist at that time."),
    ]:
        with undone(subtests, sent=sent, field=field):
            response = tried(flag, **sent)
            assert response.status_code == 200
            assert words in response.context["form"].errors[field][0]
            assert "tryout" not in response.context


@pytest.fixture
def long_ago(flag: Flag, production: Environment) -> str:
    """A time when the flag was on. It was switched off since."""
    Change.objects.update(at=NOON)  # the first changes of a database are those of its migrations, written just now
    later = NOON + timedelta(days=30)
    update_flag(key="colour", environment=production, changes={"enabled": False}, actor=ACTOR, now=later)
    return f"{NOON + timedelta(days=1):%Y-%m-%dT%H:%M}"


def test_try__now__goes_by_what_is_in_force(flag: Flag, long_ago: str) -> None:
    tryout = tried(flag, user_id="ada").context["tryout"]
    assert (tryout.trace.decision, tryout.revision) == ("Off, serving grey", revision())


def test_try__at_a_past_moment__goes_by_the_configuration_of_then_and_names_it(flag: Flag, long_ago: str) -> None:
    response = tried(flag, user_id="ada", at=long_ago)
    tryout = response.context["tryout"]
    assert tryout.trace.decision == "On, serving grey"
    assert tryout.revision == tryout.last_change.revision < revision()
    assert f"with the configuration of revision {tryout.revision}. The flag was last changed by test" in text_of(
        response
    )


def test_try__at_a_moment_to_come__moves_the_clock_of_todays_configuration(production: Environment) -> None:
    ramp = [{"at": "2100-01-01T00:00:00Z", "percentage": 100}]
    rules = [{"type": "percentage", "ramp": ramp}]
    flag = create_flag(key="ramped", enabled=True, rules=rules, environment=production, actor=ACTOR, now=NOON)
    assert tried(flag).context["tryout"].trace.is_enabled is False
    client = sign_in(username="grace")
    sent = {"user_id": "lin", "at": "2100-01-02T00:00", "opened_in": "production"}
    assert client.post(page(flag), sent).context["tryout"].trace.is_enabled is True


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "America/Adak"])
def test_try__at_the_last_moment_that_there_is__is_reported_in_utc(flag: Flag, settings: Any, zone: str) -> None:
    settings.TIME_ZONE = zone
    assert "at 31 Dec 9999, 23:59:59 UTC" in text_of(tried(flag, at="9999-12-31T23:59:59"))


def test_try__prerequisites_and_segments__are_reported(production: Environment) -> None:
    create_segment(key="testers", conditions=IS_PRO["conditions"], actor=ACTOR, now=NOON)
    create_flag(key="parent", environment=production, actor=ACTOR, now=NOON)
    flag = create_flag(
        key="child",
        enabled=True,
        prerequisites=[{"flag": "parent"}],
        rules=[{"type": "segment", "segment": "testers"}],
        environment=production,
        actor=ACTOR,
        now=NOON,
    )
    response = tried(flag, attributes='{"plan": "pro"}')
    shown = text_of(response)
    assert "This user does not meet the prerequisite parent." in shown
    assert "parent is on it is off" in shown
    assert "The user is in segment testers meets its conditions" in shown
    assert "would match the user, but a prerequisite is not met" in shown
    assert 'data-names="[&quot;plan&quot;]"' in response.content.decode()


def test_try__from_a_page_of_another_environment__tries_nothing(flag: Flag) -> None:
    response = tried(flag, opened_in="staging")
    assert "have switched to Production since" in text_of(response)
    assert "tryout" not in response.context


def test_try__by_whoever_may_see_the_flag__and_nobody_else(flag: Flag) -> None:
    assert tried(flag, "flags.view_flag").status_code == 200
    assert sign_in("config.view_change", username="lin").get(page(flag)).status_code == 403


def test_try__of_no_flag__leads_back(flag: Flag, production: Environment) -> None:
    delete_flag(key="colour", environment=production, actor=ACTOR, now=NOON)
    assert tried(flag).status_code == 302
