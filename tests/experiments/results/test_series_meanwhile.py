"""Series that are read while others write, and after a restore from another database."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from django.db import connection
from experiments.aggregates import statements
from experiments.aggregates.daily_changes import update_series
from experiments.results.series_statements import ChangesQuery

from config.models import Environment
from events.models import Event
from experiments.exposures.recording import assign
from experiments.metrics.definition import Definition
from experiments.models import Experiment, ResultState
from experiments.results.refresh import bring_up_to_date
from experiments.results.sums import DailySums
from tests.config.database.test_commit_order_between import reach, restore_ahead
from tests.conftest import NOON
from tests.experiments.results.histories import ADDITIVE, DEFINITIONS, make_experiment
from tests.experiments.results.test_history import DAY, buy, check, conversions
from tests.experiments.results.test_refresh_meanwhile import write
from tests.factories import ExperimentFactory
from tests.threads import SECONDS, Threads

pytestmark = pytest.mark.django_db(transaction=True)

on_postgresql = pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite files keep their epochs")


@pytest.mark.parametrize("metrics", [DEFINITIONS, ADDITIVE], ids=["all metrics", "metrics that add up"])
def test_update_series__beside_writes_and_erasures__is_what_computing_by_hand_gives(
    threads: Threads, metrics: Sequence[Definition]
) -> None:
    experiment = make_experiment(Environment.objects.get(key="production"), *metrics)
    writing: list[Future[None]] = [threads.start(write, experiment, seed) for seed in range(3)]
    while not all(writer.done() for writer in writing):
        bring_up_to_date(experiment, NOON)
        update_series(experiment, NOON)
    for writer in writing:
        writer.result(SECONDS)

    check(experiment, NOON + 30 * DAY)


@pytest.mark.one_server("numbers of restored rows are replaced before tables are spread")
@on_postgresql
def test_read_series__rows_restored_from_another_database__count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "_EVENTS_A_USER", 0)  # so that changes are corrected
    experiment = make_two_users()
    ahead = restore_ahead(Event.objects.all())
    assert conversions(experiment, NOON + DAY) == {31: (2, 1)}
    reach(ahead)
    buy("v", NOON)

    assert conversions(experiment, NOON + DAY) == {31: (2, 2)}
    assert ResultState.objects.get().series


@pytest.mark.one_server("numbers of restored rows are replaced before tables are spread")
@pytest.mark.parametrize("already_stored", [False, True])
@on_postgresql
def test_update_series__restored_rows_are_reached_meanwhile__count_once(
    threads: Threads, monkeypatch: pytest.MonkeyPatch, already_stored: bool
) -> None:
    monkeypatch.setattr(statements, "_EVENTS_A_USER", 0)  # so that changes are corrected
    experiment = make_two_users()
    ahead = restore_ahead(Event.objects.all())
    if already_stored:
        assert conversions(experiment, NOON + DAY) == {31: (2, 1)}
    buy("v", NOON)
    compute = ChangesQuery.changes

    def reach_and_compute(query: ChangesQuery, *arguments: Any) -> DailySums:
        threads.start(reach, ahead).result(SECONDS)
        return compute(query, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(ChangesQuery, "changes", reach_and_compute)
        assert conversions(experiment, NOON + DAY) == {31: (2, 2)}
    buy("u", NOON)

    assert conversions(experiment, NOON + DAY) == {31: (2, 2)}


def make_two_users() -> Experiment:
    """An experiment of two users of whom one has bought."""
    experiment: Experiment = ExperimentFactory(key="e", running=True)
    assign(experiment.pk, "u", "green", NOON)
    assign(experiment.pk, "v", "green", NOON)
    buy("u", NOON)
    return experiment
