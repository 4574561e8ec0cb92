"""The names of attributes that breakdowns offer."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from config.models import Environment
from experiments.models import Experiment, Exposure, Origin
from experiments.results import analyse
from experiments.results.analyse import known_attributes
from tests.conftest import NOON
from tests.factories import ExperimentFactory
from tests.plans import analyze

pytestmark = pytest.mark.django_db


def expose(experiment: Experiment, number: int, attributes: dict[str, object] | None) -> None:
    Exposure.objects.create(
        experiment=experiment,
        user_id=f"user-{number}",
        variant="green",
        exposed_at=NOON,
        origin=Origin.ASSIGNED,
        attributes=attributes,
    )


@pytest.fixture
def experiment(production: Environment) -> Experiment:
    return ExperimentFactory(running=True)


def test_known_attributes__of_some_users__are_listed_once_and_sorted(experiment: Experiment) -> None:
    expose(ExperimentFactory(key="other", running=True), 1, {"age": 41})
    expose(experiment, 1, None)
    assert known_attributes(experiment) == []

    expose(experiment, 2, {"plan": "pro", "country": "CH"})
    expose(experiment, 3, {"plan": "free"})
    assert known_attributes(experiment) == ["country", "plan"]


def test_known_attributes__of_more_users_than_are_read__are_those_of_the_first_by_id(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analyse, "_EXPOSURES_READ", 3)
    for number in (9, 3, 7, 1, 5, 2, 8, 4, 6):
        expose(experiment, number, {f"attribute {number}": number} if number > 1 else None)
    assert known_attributes(experiment) == ["attribute 2", "attribute 3", "attribute 4"]


@pytest.mark.one_server("the plan of PostgreSQL is read")
def test_known_attributes__of_few_users_among_many__are_read_through_their_index(experiment: Experiment) -> None:
    for number in range(400):
        expose(experiment, number, {"plan": "pro"} if number == 399 else None)
    with CaptureQueriesContext(connection) as queries:
        assert known_attributes(experiment) == ["plan"]
    explain = "EXPLAIN QUERY PLAN" if connection.vendor == "sqlite" else "EXPLAIN"
    analyze(Exposure)
    with connection.cursor() as cursor:
        cursor.execute(f"{explain} {queries[0]['sql']}")
        plan = "\n".join(str(row[-1]) for row in cursor.fetchall())
    assert "exposure_with_attributes" in plan
