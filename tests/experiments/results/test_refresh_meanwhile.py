"""Refreshing while others write: no event is missed, no erased user comes back, and nothing blocks forever."""

from __future__ import annotations

from concurrent.futures import Future
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
from django.db import connection, transaction

from config.models import Environment
from events.recording import NewEvent, new_id, record
from events.removal import erase_user
from experiments.exposures.recording import assign
from experiments.models import Experiment, Exposure, ResultState, UserValue
from experiments.results import refresh as refresh_module
from experiments.results import update
from experiments.results.check import check_sums
from experiments.results.refresh import refresh
from experiments.results.sums import EXPOSURE, ExactSums, read_sums
from tests.conftest import NOON
from tests.experiments.results.histories import History, make_experiment
from tests.experiments.results.test_refresh import check
from tests.factories import ExperimentFactory
from tests.threads import SECONDS, Gate, Threads

pytestmark = pytest.mark.django_db(transaction=True)

on_postgresql = pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer at a time")


@pytest.fixture
def production(threads: Threads) -> Environment:
    return Environment.objects.get(key="production")


@pytest.fixture
def experiment(production: Environment) -> Experiment:
    """A running experiment with one user in green."""
    experiment: Experiment = ExperimentFactory(key="e", running=True)
    assign(experiment.pk, "u", "green", NOON)
    return experiment


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """The gate at which the first refresh waits, after it has stored values and before it commits."""
    gate, store = Gate(), update.insert_select

    def store_and_wait(*arguments: Any, **options: Any) -> None:
        store(*arguments, **options)
        gate.pass_through()

    monkeypatch.setattr(update, "insert_select", store_and_wait)
    return gate


def purchase_of(user: str = "u") -> list[NewEvent]:
    return [NewEvent(new_id(), user, "purchase", NOON, NOON, {})]


def report_of(user: str, at: datetime) -> NewEvent:
    return NewEvent(new_id(), user, "seen", at, NOON, {"experimentId": "e", "variant": "green"})


def counted(experiment: Experiment) -> tuple[int, int]:
    """Refresh, and return the exposed users in green and their purchases."""
    refresh(experiment, NOON)
    sums = read_sums(experiment)
    return tuple(
        getattr(sums.get(metric_index, {}).get("green", ExactSums()), name)
        for metric_index, name in ((EXPOSURE, "users"), (0, "events"))
    )


@on_postgresql
def test_refresh__event_of_a_transaction_that_ends_later__is_counted_by_the_next_one(
    production: Environment, experiment: Experiment, threads: Threads
) -> None:
    gate = Gate()

    def record_and_wait() -> None:
        with transaction.atomic():
            record(purchase_of(), production)
            gate.pass_through()

    recording: Future[None] = threads.start(record_and_wait)
    gate.wait_for_arrival()
    record([NewEvent(new_id(), "v", "other", NOON, NOON, {})], production)
    assert counted(experiment) == (1, 0)
    gate.open()
    recording.result(SECONDS)

    assert [counted(experiment) for _ in range(2)] == [(1, 1), (1, 1)]


@on_postgresql
def test_refresh__event_recorded_meanwhile__is_counted_by_the_next_one(
    production: Environment, experiment: Experiment, threads: Threads, gate: Gate
) -> None:
    working: Future[Any] = threads.start(refresh, experiment, NOON)
    gate.wait_for_arrival()
    recording: Future[Any] = threads.start(record, purchase_of(), production)
    assigning: Future[Any] = threads.start(assign, experiment.pk, "v", "green", NOON)
    recording.result(SECONDS)
    assigning.result(SECONDS)
    gate.open()
    working.result(SECONDS)

    assert counted(experiment) == (2, 1)


@on_postgresql
def test_refresh__exposure_moved_to_another_day_meanwhile__is_counted_on_one_day(
    production: Environment, experiment: Experiment, threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, find_users = Gate(), refresh_module.find_changed_users

    def find_and_wait(*arguments: Any) -> Any:
        users = find_users(*arguments)
        gate.pass_through()
        return users

    Experiment.objects.filter(pk=experiment.pk).update(started_at=NOON - timedelta(days=3))
    experiment.refresh_from_db()
    others = [
        event for number in range(50) for event in purchase_of(f"other-{number}")
    ]  # so that one changed user is a small share
    record([report_of("w", NOON), *purchase_of("w"), *others], production)
    assert counted(experiment) == (2, 1)
    monkeypatch.setattr(refresh_module, "find_changed_users", find_and_wait)
    record(purchase_of("w"), production)
    working: Future[Any] = threads.start(refresh, experiment, NOON)
    gate.wait_for_arrival()
    record([report_of("w", NOON - timedelta(days=1))], production)
    gate.open()
    working.result(SECONDS)

    assert counted(experiment) == (2, 2)


@on_postgresql
def test_refresh__many_readers_at_once__all_finish(
    production: Environment, experiment: Experiment, threads: Threads
) -> None:
    for number in range(4):
        record(purchase_of(), production)
        readers: list[Future[Any]] = [threads.start(refresh, experiment, NOON) for _ in range(24)]
        for reader in readers:
            reader.result(SECONDS)
        assert counted(experiment) == (1, number + 1)


def test_refresh__two_at_once_for_the_first_time__make_one_and_count_once(
    production: Environment, experiment: Experiment, threads: Threads, gate: Gate
) -> None:
    record(purchase_of(), production)
    first: Future[Any] = threads.start(refresh, experiment, NOON)
    gate.wait_for_arrival()
    second: Future[Any] = threads.start(refresh, experiment, NOON)
    with pytest.raises(TimeoutError):
        second.result(0.3)
    gate.open()
    first.result(SECONDS)
    second.result(SECONDS)

    assert ResultState.objects.count() == 1
    assert counted(experiment) == (1, 1)


def test_erase_user__during_a_refresh__waits_and_erases_its_values_too(
    production: Environment, experiment: Experiment, threads: Threads, gate: Gate
) -> None:
    record(purchase_of(), production)
    working: Future[Any] = threads.start(refresh, experiment, NOON)
    gate.wait_for_arrival()
    erasing: Future[Any] = threads.start(erase_user, "u", production)
    with pytest.raises(TimeoutError):
        erasing.result(0.3)
    gate.open()
    working.result(SECONDS)
    assert erasing.result(SECONDS).exposures == 1

    assert not UserValue.objects.exists()
    assert counted(experiment) == (0, 0)


@pytest.mark.parametrize("is_refreshed", [True, False])
def test_refresh__during_an_erasure__waits_and_counts_without_the_user(
    production: Environment, experiment: Experiment, threads: Threads, is_refreshed: bool
) -> None:
    record(purchase_of(), production)
    if is_refreshed:
        refresh(experiment, NOON)
        record(purchase_of(), production)
    with transaction.atomic():
        erase_user("u", production)
        working: Future[Any] = threads.start(refresh, experiment, NOON)
        with pytest.raises(TimeoutError):
            working.result(0.3)
    working.result(SECONDS)

    assert not UserValue.objects.exists()
    assert counted(experiment) == (0, 0)


def test_refresh__beside_writes_and_erasures__is_what_counting_by_hand_gives(
    production: Environment, threads: Threads
) -> None:
    experiment = make_experiment(production)
    writing: list[Future[None]] = [threads.start(write, experiment, seed) for seed in range(3)]
    while not all(writer.done() for writer in writing):
        refresh(experiment, NOON)
    for writer in writing:
        writer.result(SECONDS)

    refresh(experiment, NOON)
    check(experiment)
    assert check_sums(experiment, NOON) == []
    assert Exposure.objects.filter(experiment=experiment).exists()


def write(experiment: Experiment, seed: int) -> None:
    history = History(experiment, Random(seed))
    for _ in range(12):
        history.chance.choice([history.record, history.report, history.assign, history.erase])()
