"""The flag that an experiment drives: the rule that its start writes, and refusals of flags that cannot have it."""

from __future__ import annotations

from typing import Any

import pytest

from config.errors import DomainError, ValidationFailed
from config.models import Change, Environment
from experiments.lifecycle.changes import create_experiment, get_experiment, start_experiment
from experiments.lifecycle.flag_rule import rule_of
from experiments.models import Experiment
from experiments.models.documents import experiment_as_json
from flags.changes.flag_changes import archive_flag, get_flag, update_flag
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory, FlagFactory

pytestmark = pytest.mark.django_db

VARIANTS = [{"key": "control", "weight": 50}, {"key": "green", "weight": 50}]
OWN = [{"type": "percentage", "percentage": 20}]
DRIVEN = {"key": "button", "serves": {"control": False, "green": True}}
RULE = {
    "type": "experiment",
    "experiment": "e",
    "variants": [
        {"key": "control", "weight": 50, "serves": False},
        {"key": "green", "weight": 50, "serves": True},
    ],
}


@pytest.fixture
def step_arguments(production: Environment) -> dict[str, Any]:
    return {"key": "e", "environment": production, "actor": ACTOR, "now": NOON}


@pytest.fixture
def driving(step_arguments: dict[str, Any]) -> Experiment:
    """Create a draft that drives a flag which has a rule of its own."""
    FlagFactory(key="button", enabled=True, rules=OWN)
    return create_experiment(**step_arguments, variants=VARIANTS, flag=DRIVEN)


def rules(environment: Environment) -> list[Any]:
    return get_flag("button", environment).rules


def test_rule_of__plain_experiment__has_its_variants_and_what_they_serve(driving: Experiment) -> None:
    assert rule_of(experiment_as_json(driving)) == RULE


def test_rule_of__audience_of_every_kind__says_all_of_it(step_arguments: dict[str, Any]) -> None:
    FlagFactory(key="button")
    audience = {
        "percentage": 12.5,
        "conditions": [{"attribute": "plan", "operator": "equals", "value": "pro"}],
        "group": {"key": "checkout", "from": 0, "to": 50},
    }
    forced = {"qa-1": "green"}
    draft = create_experiment(**step_arguments, variants=VARIANTS, flag=DRIVEN, forced_variants=forced, **audience)

    assert rule_of(experiment_as_json(draft)) == {**RULE, **audience, "forced": forced}


def test_start__drives_a_flag__puts_its_rule_first_in_this_environment_alone(
    driving: Experiment, step_arguments: dict[str, Any], staging: Environment
) -> None:
    start_experiment(**step_arguments)

    assert rules(step_arguments["environment"]) == [RULE, *OWN]
    assert rules(staging) == OWN


def test_start__drives_a_flag__is_one_transaction_with_a_change_of_each(
    driving: Experiment, step_arguments: dict[str, Any]
) -> None:
    before = Change.objects.latest_revision()
    start_experiment(**step_arguments, reason="Go")

    changed = Change.objects.since(before).values_list("kind", "key", "environment", "reason")
    assert set(changed) == {("experiment", "e", "production", "Go"), ("flag", "button", "production", "Go")}


def test_start__flag_that_another_experiment_drives__is_refused_as_a_whole(
    driving: Experiment, step_arguments: dict[str, Any]
) -> None:
    ExperimentFactory(key="other", flag=DRIVEN, running=True)
    before, revision = rules(step_arguments["environment"]), Change.objects.latest_revision()
    with pytest.raises(DomainError) as refused:
        start_experiment(**step_arguments)

    assert (refused.value.code, "other" in refused.value.message) == ("in_use", True)
    assert get_experiment("e", step_arguments["environment"]).status == "draft"
    assert (rules(step_arguments["environment"]), Change.objects.latest_revision()) == (before, revision)


def test_start__flag_that_was_archived_meanwhile__names_it(driving: Experiment, step_arguments: dict[str, Any]) -> None:
    archive_flag(**{**step_arguments, "key": "button"})
    with pytest.raises(ValidationFailed) as refused:
        start_experiment(**step_arguments)

    assert [detail.field for detail in refused.value.details] == ["flag.key"]
    assert get_experiment("e", step_arguments["environment"]).status == "draft"


def test_start__flag_that_has_variants_by_now__names_what_it_cannot_serve(
    driving: Experiment, step_arguments: dict[str, Any]
) -> None:
    variants = [{"key": "old", "value": "a"}, {"key": "new", "value": "b"}]
    changes = {"type": "string", "variants": variants}
    update_flag(**{**step_arguments, "key": "button"}, changes=changes)
    with pytest.raises(ValidationFailed) as refused:
        start_experiment(**step_arguments)

    assert [detail.field for detail in refused.value.details] == ["flag.serves.control", "flag.serves.green"]
    assert get_experiment("e", step_arguments["environment"]).started_at is None
