"""What is stored about one user: exposures, and attributes, of which the later values count."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from config.models import Environment
from experiments.exposures.queries import attributes_seen, exposures_of
from experiments.exposures.recording import assign
from flags.models import RecentUser
from tests.conftest import NOON
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db


def test_exposures__of_one_environment__are_the_newest_first(
    production: Environment, staging: Environment, django_assert_num_queries: Any
) -> None:
    first, second = ExperimentFactory(running=True), ExperimentFactory(running=True)
    elsewhere = ExperimentFactory(running=True, environment=staging)
    for minutes, experiment in enumerate((first, second, elsewhere), start=1):
        assign(experiment.pk, "ada", "green", NOON + timedelta(minutes=minutes), {})
    assign(first.pk, "bob", "green", NOON + timedelta(minutes=1), {})
    with django_assert_num_queries(1):
        assert [row.experiment_id for row in exposures_of(production, "ada")] == [second.pk, first.pk]


def test_attributes__from_exposures_and_the_sample__are_those_seen_last(production: Environment) -> None:
    experiments = [ExperimentFactory(running=True) for _ in range(2)]
    for hours, attributes in enumerate(({"plan": "free", "country": "DE"}, {"plan": "pro"})):
        assign(experiments[hours].pk, "ada", "green", NOON + timedelta(hours=hours), attributes)
    sampled = {"environment": production, "user_id": "ada", "position": 1}
    RecentUser.objects.create(**sampled, seen_at=NOON + timedelta(minutes=30), attributes={"plan": "trial", "age": 7})
    seen = attributes_seen(production, "ada", exposures_of(production, "ada"))
    assert seen.attributes == {"plan": "pro", "country": "DE", "age": 7}
    assert (seen.seen_at, seen.is_recent) == (NOON + timedelta(hours=1), True)


def test_attributes__of_an_unknown_user__are_empty(production: Environment) -> None:
    seen = attributes_seen(production, "nobody", [])
    assert (seen.attributes, seen.seen_at, seen.is_recent) == ({}, None, False)
