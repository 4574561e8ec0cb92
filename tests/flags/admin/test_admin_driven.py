"""Flags that experiments drive, in the admin: what the pages say about them, and what they prevent."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from config.change_log.writing import writing
from config.models import Environment
from flags.changes.experiment_rules import put_rule
from flags.changes.flag_changes import create_flag, get_flag
from flags.models import Flag
from tests.admin import revision, sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.flags.engine.experiments import experiment_rule

HALF = {"type": "percentage", "percentage": 50}
RULE = experiment_rule(forced={"qa": "treatment"})


@pytest.fixture
def first(production: Environment) -> int:
    """The revision right after the flag was created, before any experiment."""
    return revision() + 1


@pytest.fixture
def driven(first: int, production: Environment) -> Flag:
    create_flag(key="f", environment=production, enabled=True, rules=[HALF], actor=ACTOR, now=NOON)
    with writing(actor=ACTOR, now=NOON) as log:
        put_rule(log, key="f", environment=production, rule=RULE)
    return get_flag("f", production)


def address(page: str, flag: Flag, *more: object) -> str:
    return reverse(f"admin:flags_flag_{page}", args=[flag.pk, *more])


def test_list__driven_flag__tells_the_experiment(driven: Flag) -> None:
    shown = text_of(sign_in().get(reverse("admin:flags_flag_changelist")))
    assert "experiment checkout: control 50 → off / treatment 50 → on; 50 % of everyone" in shown


def test_try__tester_of_the_experiment__gets_the_reason(driven: Flag) -> None:
    sent = {"user_id": "qa", "attributes": "{}", "opened_in": "production"}
    shown = text_of(sign_in().post(address("try_it", driven), sent))
    assert "Experiment checkout decides, serves on" in shown
    assert "The variant is forced for this user, so they see treatment and do not count" in shown


@pytest.mark.parametrize("page", ["archive", "delete"])
def test_page__that_puts_a_driven_flag_away__says_which_experiment_drives_it(
    driven: Flag, production: Environment, page: str
) -> None:
    response = sign_in().post(address(page, driven), {"opened_in": "production"}, follow=True)
    assert "The experiment checkout drives this flag in production" in text_of(response)
    assert get_flag("f", production).archived_at is None


def test_revert__to_before_the_experiment__would_change_nothing(driven: Flag, first: int) -> None:
    shown = text_of(sign_in().get(address("revert", driven, first)))
    assert "Nothing would change: the flag has these values now." in shown


def test_form__without_the_rule_of_the_experiment__is_refused(driven: Flag, production: Environment) -> None:
    before = revision()
    values: dict[str, Any] = {"rules": "[]", "version": driven.etag, "opened_in": "production", "enabled": "on"}
    response = sign_in().post(address("change", driven), values)
    assert "The experiment checkout drives this flag" in text_of(response)
    assert revision() == before
