"""References of experiments: segments that cannot be deleted while in use, and flags that can serve variants."""

from __future__ import annotations

from typing import Any

import pytest

from config.errors import DomainError, ValidationFailed
from config.models import Environment
from experiments.lifecycle.changes import create_experiment, stop_experiment, update_experiment
from flags.changes.flag_changes import archive_flag
from flags.changes.segment_changes import create_segment, delete_segment
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory, FlagFactory

pytestmark = pytest.mark.django_db

VARIANTS = [{"key": "control", "weight": 1}, {"key": "green", "weight": 1}]
IN_CROWD = [{"operator": "inSegment", "value": "crowd"}]
WRITE = {"actor": ACTOR, "now": NOON}


def refused(environment: Environment, **values: Any) -> list[tuple[str, str]]:
    with pytest.raises(ValidationFailed) as refused:
        create_experiment(key="e", environment=environment, variants=VARIANTS, **values, **WRITE)
    return [(detail.field, str(detail.code)) for detail in refused.value.details]


def test_segment__that_nobody_made__is_refused_by_its_condition(production: Environment) -> None:
    assert refused(production, conditions=IN_CROWD) == [("conditions[0].value", "unknown_reference")]


@pytest.mark.parametrize("state", [{}, {"running": True}])
def test_segment__that_an_experiment_asks_for__cannot_be_deleted(production: Environment, state: Any) -> None:
    create_segment(key="crowd", **WRITE)
    ExperimentFactory(key="e", conditions=IN_CROWD, **state)
    with pytest.raises(DomainError, match=r"the experiment e \(production\)") as refused:
        delete_segment(key="crowd", **WRITE)

    assert refused.value.code == "in_use"


def test_segment__of_a_stopped_experiment_or_one_that_asks_no_more__can_be_deleted(production: Environment) -> None:
    create_segment(key="crowd", **WRITE)
    ExperimentFactory(key="draft", conditions=IN_CROWD)
    ExperimentFactory(key="running", conditions=IN_CROWD, running=True)
    update_experiment(key="draft", environment=production, changes={"conditions": None}, **WRITE)
    stop_experiment(key="running", environment=production, **WRITE)

    delete_segment(key="crowd", **WRITE)


def drive(**serves: Any) -> dict[str, Any]:
    return {"key": "f", "serves": serves}


def test_flag__that_is_not_there__is_refused_by_its_key(production: Environment) -> None:
    assert refused(production, flag=drive(control=False, green=True)) == [("flag.key", "unknown_reference")]


def test_flag__archived__is_refused_by_its_key(production: Environment) -> None:
    FlagFactory(key="f")
    archive_flag(key="f", environment=production, **WRITE)

    assert refused(production, flag=drive(control=False, green=True)) == [("flag.key", "unknown_reference")]


def test_flag__plain__serves_true_and_false_alone(production: Environment) -> None:
    FlagFactory(key="f")

    assert refused(production, flag=drive(control="off", green=True)) == [("flag.serves.control", "invalid_type")]
    assert ExperimentFactory(key="e", flag=drive(control=False, green=True)).flag is not None


def test_flag__with_variants__serves_those_that_it_has(production: Environment) -> None:
    FlagFactory(key="f", type="string", variants=[{"key": "old", "value": "o"}, {"key": "new", "value": "n"}])

    assert refused(production, flag=drive(control="odd", green=True)) == [
        ("flag.serves.control", "unknown_reference"),
        ("flag.serves.green", "invalid_type"),
    ]
    assert ExperimentFactory(key="e", flag=drive(control="old", green="new")).flag is not None
