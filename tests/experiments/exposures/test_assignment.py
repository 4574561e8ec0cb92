"""Assigning variants: by the published split, recorded before the answer."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from config import snapshot
from config.errors import DomainError
from config.models import Environment
from config.slugs import is_key
from experiments.exposures.assignment import get_variant
from experiments.lifecycle.changes import create_experiment, start_experiment, stop_experiment
from experiments.models import Experiment, Exposure
from tests.conftest import ACTOR, NOON

pytestmark = pytest.mark.django_db

VECTORS = json.loads((Path(__file__).parents[2] / "flags" / "vectors" / "splits.json").read_text())["splits"]
EVEN = [{"key": "a", "weight": 1}, {"key": "b", "weight": 1}]


def start(key: str, environment: Environment, variants: list[dict[str, Any]]) -> Experiment:
    who = {"key": key, "environment": environment, "actor": ACTOR, "now": NOON}
    create_experiment(**who, variants=variants)
    experiment = start_experiment(**who)
    snapshot.reset()
    return experiment


def is_experiment(vector: dict[str, Any]) -> bool:
    """The vectors go further than experiments do: any salt, and one variant alone."""
    keys = [vector["salt"], *(each["key"] for each in vector["weights"])]
    return len(vector["weights"]) > 1 and all(is_key(key) for key in keys)


@pytest.mark.parametrize("vector", [each for each in VECTORS if is_experiment(each)])
def test_get_variant__published_vector__is_what_the_user_gets(production: Environment, vector: dict[str, Any]) -> None:
    experiment = start(vector["salt"], production, vector["weights"])
    found = get_variant(key=vector["salt"], environment=production, user_id=vector["userId"], now=NOON)

    assert (found.variant, found.experiment_id) == (vector["variant"], experiment.pk)
    assert Exposure.objects.values_list("user_id", "variant", "exposed_at", "origin").get() == (
        vector["userId"],
        vector["variant"],
        NOON,
        "assigned",
    )


def test_get_variant__asked_again__reads_once_and_writes_nothing(
    production: Environment, django_assert_num_queries: Any
) -> None:
    start("e", production, EVEN)
    first = get_variant(key="e", environment=production, user_id="u", now=NOON)

    with django_assert_num_queries(1):
        again = get_variant(key="e", environment=production, user_id="u", now=NOON + timedelta(days=1))
    assert again == first
    assert Exposure.objects.get().exposed_at == NOON


@pytest.mark.parametrize("steps", [[], [start_experiment, stop_experiment]])
def test_get_variant__draft_or_stopped__is_refused_and_records_nothing(
    production: Environment, steps: list[Any]
) -> None:
    who = {"key": "e", "environment": production, "actor": ACTOR, "now": NOON}
    create_experiment(**who, variants=EVEN)
    for step in steps:
        step(**who)
    snapshot.reset()
    with pytest.raises(DomainError) as refused:
        get_variant(key="e", environment=production, user_id="u", now=NOON)

    assert refused.value.code == "experiment_not_running"
    assert not Exposure.objects.exists()


def test_get_variant__other_environment__knows_no_such_experiment(
    production: Environment, staging: Environment
) -> None:
    start("e", production, EVEN)
    with pytest.raises(DomainError) as refused:
        get_variant(key="e", environment=staging, user_id="u", now=NOON)

    assert refused.value.code == "experiment_not_found"
