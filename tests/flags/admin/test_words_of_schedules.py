"""Schedules on the pages of flags: lists and previews are true now, and histories at their own time."""

from __future__ import annotations

import pytest

from config.models import Change, Environment
from flags.changes.flag_changes import create_flag, update_flag
from flags.models import Flag
from tests.admin import sign_in, text_of
from tests.cases import undone
from tests.conftest import ACTOR, NOON

pytestmark = pytest.mark.django_db

LIST = "/admin/flags/flag/"
LATER = {"type": "percentage", "percentage": 100, "startAt": "2999-01-01T09:00:00Z"}
OVER = {"type": "percentage", "percentage": 100, "endAt": "2025-03-02T10:00:00Z"}
RAMP = {
    "type": "percentage",
    "ramp": [{"at": "2020-01-01", "percentage": 30}, {"at": "2999-01-01", "percentage": 50}],
}


@pytest.fixture
def flag(production: Environment, staging: Environment) -> Flag:
    """It starts in a far future in production, and ended in staging."""
    made = create_flag(key="f", rules=[LATER], enabled=True, environment=production, actor=ACTOR, now=NOON)
    update_flag(key="f", environment=staging, changes={"rules": [OVER]}, actor=ACTOR, now=NOON)
    return made


def page(flag: Flag, name: str) -> str:
    return text_of(sign_in().get(f"{LIST}{flag.pk}/{name}/"))


def test_list__rule_with_a_schedule__says_from_when_it_is_on(
    subtests: pytest.Subtests, production: Environment
) -> None:
    client = sign_in()
    for rule, words in [
        (LATER, "everyone from 1 Jan 2999, 09:00"),
        (OVER, "no one: the rule ended 2 Mar 2025"),
        (RAMP, "30 % now, 50 % from 1 Jan 2999"),
    ]:
        with undone(subtests, rule=rule):
            create_flag(key="f", rules=[rule], enabled=True, environment=production, actor=ACTOR, now=NOON)
            assert f"f {words} " in text_of(client.get(LIST))


def test_form__other_environments__have_words_about_their_schedules(flag: Flag) -> None:
    assert "Other environments Staging off if on: no one: the rule ended 2 Mar 2025" in page(flag, "change")


def test_promotion__of_schedules__shows_both(flag: Flag) -> None:
    shown = page(flag, "promote")
    now = "Production now on everyone from 1 Jan 2999, 09:00 UTC"
    assert f"{now} Production then off if on: no one: the rule ended 2 Mar 2025" in shown
    assert "Change rule 1 from " in shown


def test_history__of_a_rule_that_has_ended_since__says_what_it_was_at_the_time(production: Environment) -> None:
    rules = [{**RAMP, "endAt": "2026-02-01T12:00:00Z"}]  # a day after the change
    made = create_flag(key="f", environment=production, actor=ACTOR, now=NOON)
    update_flag(key="f", environment=production, changes={"rules": rules}, actor=ACTOR, now=NOON)
    Change.objects.of("flag", made.pk).update(at=NOON)
    assert "Added a rule in production: 30 % of everyone until 1 Feb 2026, 12:00 UTC" in page(made, "history")
