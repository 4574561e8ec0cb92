"""A user erased while events of the same user are recorded: either all of it goes, or what stays has its exposure."""

from __future__ import annotations

from concurrent.futures import Future, wait
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from config.access.environments import update_environment
from config.models import Environment
from events import removal
from events.counts import storage as counts
from events.models import Event
from events.recording import NewEvent, new_id, record
from events.removal import Erased, erase_user
from experiments.exposures import reports, storage
from experiments.lifecycle.changes import create_experiment, delete_experiment, start_experiment
from experiments.models import Experiment, Exposure, ResultState
from experiments.results.refresh import refresh
from tests.conftest import ACTOR, NOON
from tests.events.counts.counting import real_counts, stored_counts
from tests.factories import ExperimentFactory
from tests.threads import SECONDS, Gate, Threads

pytestmark = pytest.mark.django_db(transaction=True)

on_postgresql = pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite has one writer at a time")


@pytest.fixture
def production(threads: Threads) -> Environment:
    return Environment.objects.get(key="production")


@pytest.fixture
def one_stripe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make writers who count events of one name and quarter wait for each other's commits."""
    monkeypatch.setattr(counts, "_STRIPES", 1)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Where an erasure waits, when it has removed events and not yet looked for more."""
    gate, remove_events = Gate(), removal._delete_events

    def remove_and_wait(*arguments: Any) -> Any:
        removed = remove_events(*arguments)
        gate.pass_through()
        return removed

    monkeypatch.setattr(removal, "_delete_events", remove_and_wait)
    return gate


def happen(user: str = "u", second: float = 1, name: str = "seen", **properties: str) -> NewEvent:
    moment = NOON + timedelta(seconds=second)
    return NewEvent(new_id(), user, name, moment, moment, properties)


def see(variant: str = "green", second: float = 1, user: str = "u") -> NewEvent:
    return happen(user, second, experimentId="e", variant=variant)


def start(environment: Environment) -> Experiment:
    return start_experiment(key="e", environment=environment, actor=ACTOR, now=NOON, started_at=NOON)


def create_and_start(environment: Environment) -> Experiment:
    variants = [{"key": "control", "weight": 50}, {"key": "green", "weight": 50}]
    create_experiment(key="e", environment=environment, variants=variants, actor=ACTOR, now=NOON)
    return start(environment)


def test_erase_user__exposure_that_a_batch_under_way_has_found__goes_with_the_batch(
    production: Environment, threads: Threads
) -> None:
    ExperimentFactory(key="e", running=True)
    record([see()], production)

    with transaction.atomic():
        record([see(second=2)], production)
        erasing: Future[Erased] = threads.start(erase_user, "u", production)
        with pytest.raises(TimeoutError):
            erasing.result(0.3)

    erased = erasing.result(SECONDS)
    assert (erased.events, erased.exposures) == (2, 1)
    assert not Event.objects.exists()
    assert not Exposure.objects.exists()
    assert stored_counts() == real_counts()


def test_erase_user__start_under_way_that_has_read_the_events__loses_what_it_stored(
    production: Environment, threads: Threads
) -> None:
    experiment = ExperimentFactory(key="e")
    record([see()], production)

    with transaction.atomic():
        start(production)
        assert Exposure.objects.count() == 1
        erasing: Future[Erased] = threads.start(erase_user, "u", production)
        with pytest.raises(TimeoutError):
            erasing.result(0.3)

    erased = erasing.result(SECONDS)
    assert (erased.events, erased.exposures) == (1, 1)
    assert [(each.id, each.status) for each in erased.experiments] == [(experiment.pk, "running")]
    assert not Exposure.objects.exists()


@pytest.mark.parametrize("is_draft_before", [True, False])
def test_start_experiment__erasure_under_way_that_has_deleted_the_events__waits_and_exposes_nobody(
    production: Environment, threads: Threads, is_draft_before: bool
) -> None:
    record([see()], production)
    if is_draft_before:
        ExperimentFactory(key="e")

    with transaction.atomic():
        assert erase_user("u", production).events == 1
        starting: Future[Any] = threads.start(start if is_draft_before else create_and_start, production)
        wait([starting], timeout=0.3)

    assert starting.result(SECONDS).status == "running"
    assert not Event.objects.exists()
    assert not Exposure.objects.exists()


def test_start_experiment__erasure_of_several_rounds_under_way__waits_for_the_last(
    production: Environment, threads: Threads, gate: Gate
) -> None:
    record([see()], production)
    erasing: Future[Erased] = threads.start(erase_user, "u", production)
    gate.wait_for_arrival()
    starting: Future[Any] = threads.start(create_and_start, production)
    wait([starting], timeout=0.3)
    gate.open()

    erased = erasing.result(SECONDS)
    assert (erased.events, erased.exposures, erased.experiments) == (1, 0, ())
    starting.result(SECONDS)
    assert not Exposure.objects.exists()


def test_start_experiment__environment_renamed_while_an_erasure_is_under_way__both_wait_and_succeed(
    production: Environment, threads: Threads
) -> None:
    ExperimentFactory(key="e")

    def rename() -> Environment:
        return update_environment(production, name="Live", is_default=True, actor=ACTOR, now=NOON)

    with transaction.atomic():
        erase_user("u", production)
        both: list[Future[Any]] = [threads.start(start, production), threads.start(rename)]
        wait(both, timeout=0.3)

    assert [each.result(SECONDS).pk for each in both] == [Experiment.objects.get().pk, production.pk]


@on_postgresql
@pytest.mark.parametrize(("event", "changed"), [(happen(), []), (see("purple"), ["e"])])
def test_erase_user__draft_deleted_meanwhile__is_erased(
    production: Environment, threads: Threads, event: NewEvent, changed: list[str]
) -> None:
    ExperimentFactory(key="e")
    record([event], production)

    with transaction.atomic():
        erased = erase_user("u", production)
        whose = {"key": "e", "environment": production, "actor": ACTOR, "now": NOON}
        threads.start(lambda: delete_experiment(**whose)).result(SECONDS)

    assert [each.key for each in erased.experiments] == changed
    assert not Experiment.objects.exists()
    assert not Event.objects.exists()


@on_postgresql
@pytest.mark.usefixtures("one_stripe")
def test_erase_user__batch_that_names_a_draft_waits_for_it__is_erased_at_once(
    production: Environment, threads: Threads
) -> None:
    ExperimentFactory(key="e")
    record([happen()], production)

    def record_once() -> None:
        with transaction.atomic():  # in which nothing is begun once more
            record([see(user="v")], production)

    with transaction.atomic():
        erase_user("u", production)
        recording: Future[None] = threads.start(record_once)
        with pytest.raises(TimeoutError):
            recording.result(0.3)

    recording.result(SECONDS)
    assert Event.objects.get().user_id == "v"
    assert not ResultState.objects.exists()


@on_postgresql
@pytest.mark.usefixtures("one_stripe")
def test_erase_user__batch_that_waited_for_a_start_waits_for_it__is_erased_at_once(
    production: Environment, threads: Threads
) -> None:
    ExperimentFactory(key="e")
    record([happen(name="bought")], production)
    gate = Gate()

    def record_twice() -> None:
        with transaction.atomic():
            record([see(user="v")], production)
            gate.pass_through()
            record([happen("v", name="bought")], production)

    with transaction.atomic():
        start(production)
        recording: Future[None] = threads.start(record_twice)
        with pytest.raises(TimeoutError):
            recording.result(0.3)
    gate.wait_for_arrival()
    with transaction.atomic():
        erase_user("u", production)
        gate.open()
        with pytest.raises(TimeoutError):
            recording.result(0.3)

    recording.result(SECONDS)
    assert Exposure.objects.get().user_id == "v"


@on_postgresql
def test_erase_user__another_between_its_rounds_and_a_new_experiment__both_succeed(
    production: Environment, threads: Threads, gate: Gate
) -> None:
    refresh(ExperimentFactory(key="d", running=True), NOON)
    record([happen("u"), happen("v")], production)
    first: Future[Erased] = threads.start(erase_user, "u", production)
    gate.wait_for_arrival()
    starting: Future[Any] = threads.start(create_and_start, production)
    wait([starting], timeout=0.3)
    second: Future[Erased] = threads.start(erase_user, "v", production)
    with pytest.raises(TimeoutError):
        second.result(0.3)
    gate.open()

    assert [each.result(SECONDS).events for each in (first, second)] == [1, 1]
    starting.result(SECONDS)
    assert not Event.objects.exists()
    assert stored_counts() == real_counts()


@on_postgresql
def test_record__exposure_erased_before_it_can_be_held__is_stored_again(
    production: Environment, threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    ExperimentFactory(key="e", running=True)
    record([see("green")], production)
    insert_new = storage.insert_new
    erased: list[Any] = []

    def insert_and_erase(reported: Any) -> Any:
        inserted = insert_new(reported)
        if not erased:
            erased.append(threads.start(erase_user, "u", production).result(SECONDS))
        return inserted

    monkeypatch.setattr(reports, "insert_new", insert_and_erase)
    record([see("control", second=2)], production)

    assert [(each.events, each.exposures) for each in erased] == [(1, 1)]
    assert Event.objects.get().variant == "control"
    stored = Exposure.objects.get()
    assert (stored.variant, stored.exposed_at, stored.is_in_several_variants) == (
        "control",
        NOON + timedelta(seconds=2),
        False,
    )
