"""How many of the project's files a request for results passes through, and how many statements it executes."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from config.models import Environment
from events.recording import NewEvent, new_id, record
from experiments.exposures.recording import assign
from tests.conftest import NOON
from tests.factories import ExperimentFactory
from tests.trips import Trip, following, limits_of

pytestmark = [pytest.mark.django_db, pytest.mark.one_server("Citus takes more statements")]
is_postgresql = connection.vendor == "postgresql"


def read(api: Any) -> tuple[Trip, int]:
    """Return the trip of a request for results, and the number of its statements."""
    with CaptureQueriesContext(connection) as captured, following() as trip:
        assert api.get("/v1/experiments/e/results").status_code == 200
    return trip, len(captured)


def test_results__with_nothing_new_and_with_one_event__enter_few_files(api: Any, production: Environment) -> None:
    experiment = ExperimentFactory(key="e", running=True)
    assign(experiment.pk, "u", "green", NOON)
    for _ in range(2):
        record([NewEvent(new_id(), "u", "purchase", NOON, NOON, {})], production)
        new, statements_of_new = read(api)
    nothing_new, statements = read(api)

    most, most_of_new = limits_of("A results page")
    assert "experiments/results/update.py" in new.files
    assert len(new.files) <= most_of_new + 2 * is_postgresql, new.files
    assert statements_of_new <= 27 + 5 * is_postgresql
    if not is_postgresql:  # where rows of a transaction that has not ended are always new
        assert "experiments/results/update.py" not in nothing_new.files
        assert len(nothing_new.files) <= most, nothing_new.files
        assert statements <= 8
