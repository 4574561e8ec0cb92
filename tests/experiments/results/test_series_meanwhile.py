"""Series that are read while others write, and after a restore from another database."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

import pytest

from config.models import Environment
from events.models import Event
from experiments.exposures.recording import assign
from experiments.metrics.definition import Definition
from experiments.results import update
from experiments.results.check import check_sums
from experiments.results.refresh import bring_series_up_to_date
from tests.config.database.test_commit_order import on_postgresql, reach, restore_ahead
from tests.conftest import NOON
from tests.experiments.results.histories import DEFINITIONS, FEW, make_experiment
from tests.experiments.results.test_refresh_meanwhile import write
from tests.experiments.results.test_series import DAY, buy, check, conversions
from tests.factories import ExperimentFactory
from tests.threads import SECONDS, Threads

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("metrics", [DEFINITIONS, FEW], ids=["all metrics", "some metrics"])
def test_bring_series_up_to_date__beside_writes_and_erasures__is_what_computing_by_hand_gives(
    threads: Threads, metrics: Sequence[Definition]
) -> None:
    experiment = make_experiment(Environment.objects.get(key="production"), *metrics)
    writing: list[Future[None]] = [threads.start(write, experiment, seed) for seed in range(3)]
    while not all(writer.done() for writer in writing):
        bring_series_up_to_date(experiment, NOON)
    for writer in writing:
        writer.result(SECONDS)

    check(experiment, NOON + 30 * DAY)


@pytest.mark.one_server("numbers of restored rows are replaced before tables are spread")
@on_postgresql
@pytest.mark.parametrize("events_a_user", [0, 1e6], ids=["by user", "in one pass"])
def test_bring_series_up_to_date__rows_restored_from_another_database__count_once(
    monkeypatch: pytest.MonkeyPatch, events_a_user: float
) -> None:
    monkeypatch.setattr(update, "_EVENTS_A_USER", events_a_user)
    experiment = ExperimentFactory(key="e", running=True)
    for user in ("u", "v"):
        assign(experiment.pk, user, "green", NOON)
        buy(user, NOON)
    ahead = restore_ahead(Event.objects.filter(user_id="u"))
    assert conversions(experiment, NOON + DAY) == {31: (2, 2)}
    for number in (ahead - 1, ahead, ahead + 1):
        reach(number)
        buy("v", NOON)
        check(experiment, NOON + DAY)

    assert conversions(experiment, NOON + DAY) == {31: (2, 2)}
    assert check_sums(experiment, NOON + DAY) == []
