"""Finding the users whose values new events change."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from config.database.commit_order import take_watermark
from events.recording import NewEvent, new_id, record
from experiments.exposures.recording import assign
from experiments.models import Experiment
from experiments.results.changed_users import find_beyond, find_changed_users, has_changes
from tests.conftest import NOON
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def experiment(production: Any) -> Experiment:
    """A running experiment with one user in green."""
    experiment: Experiment = ExperimentFactory(key="e", running=True)
    assign(experiment.pk, "u", "green", NOON)
    return experiment


def test_find_changed_users__purchases_of_two_users__are_those_of_the_exposed_one(
    experiment: Experiment, production: Any
) -> None:
    watermark = take_watermark()
    record([NewEvent(new_id(), user, "purchase", NOON, NOON, {}) for user in ("u", "unexposed")], production)
    assert find_changed_users(experiment, watermark) == {"u"}
    assert has_changes(experiment, watermark)


@pytest.mark.one_server("the plan of PostgreSQL is read")
@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite chooses the index by itself")
@pytest.mark.parametrize(
    "find",
    [
        lambda experiment: find_changed_users(experiment, take_watermark()),
        lambda experiment: find_beyond(experiment, NOON),
    ],
    ids=["find_changed_users", "find_beyond"],
)
def test_users_of_events__experiment_without_statistics__are_each_looked_up_by_their_id(
    experiment: Experiment, find: Any
) -> None:
    with CaptureQueriesContext(connection) as captured:
        find(experiment)
    [statement] = [query["sql"] for query in captured if "events_event" in query["sql"]]
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")  # which PostgreSQL prefers for tables as small as these
        cursor.execute(f"EXPLAIN {statement}")
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert re.search(
        r"experiments_exposure_pkey.*\n.*Index Cond: .*experiment_id = .* AND .*user_id.* = .*user_id", plan
    )
