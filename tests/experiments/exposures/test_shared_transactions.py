"""Singles of several threads in one transaction: all of them stored at once, each answered for itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import IntegrityError, OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Sum

from config.database.group_commit import Handler, reads, writes
from config.errors import DomainError
from config.models import Environment
from events.models import Event, EventCount
from events.recording import NewEvent, Outcome, record_one
from experiments.exposures.assignment import get_variant
from experiments.exposures.recording import assign
from experiments.lifecycle.changes import create_experiment, start_experiment
from experiments.models import Experiment, Exposure
from tests.conftest import ACTOR, NOON
from tests.threads import SECONDS, Gate, Threads, database_for_threads

pytestmark = pytest.mark.django_db(transaction=True)

VARIANTS = [{"key": "a", "weight": 1}, {"key": "b", "weight": 1}]

Call = tuple[Any, ...]


@pytest.fixture(autouse=True)
def _shared(transactional_db: None, tmp_path: Path) -> Iterator[None]:
    with database_for_threads(tmp_path):
        yield


@pytest.fixture
def production(_shared: None) -> Environment:
    return Environment.objects.get(key="production")


@pytest.fixture
def experiment(production: Environment) -> Experiment:
    who = {"key": "e", "environment": production, "actor": ACTOR, "now": NOON}
    create_experiment(**who, variants=VARIANTS, metrics=["buy"])
    return start_experiment(**who, started_at=NOON)


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each commit."""
    counted: list[int] = []
    commit = BaseDatabaseWrapper._commit

    def count(self: BaseDatabaseWrapper) -> None:
        counted.append(1)
        commit(self)

    monkeypatch.setattr(BaseDatabaseWrapper, "_commit", count)
    return counted


@pytest.fixture
def together() -> Iterator[Callable[..., list[Future[Any]]]]:
    """Make all of these calls while somebody else is served, each from a thread of its own."""
    threads = Threads()

    def start(*calls: Call) -> list[Future[Any]]:
        gate = Gate()
        busy = threads.start(writes.submit, Handler(lambda items: [gate.pass_through()], 0), None)
        gate.wait_for_arrival()
        futures = []
        for count, call in enumerate(calls, start=1):
            futures.append(threads.start(*call))
            wait_for_waiting(count)
        gate.open()
        busy.result(SECONDS)
        return futures

    yield start
    threads.join()


def wait_for_waiting(count: int) -> None:
    deadline = time.monotonic() + SECONDS
    while len(writes._waiting) < count:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def event(number: int, **values: Any) -> NewEvent:
    given = {"user_id": f"u{number}", "name": "see", "timestamp": NOON, "received_at": NOON, "properties": {}, **values}
    return NewEvent(UUID(int=number), **given)


def track(environment: Environment, *events: NewEvent) -> list[Call]:
    return [(record_one, each, environment) for each in events]


def ask(experiment: Experiment, *users: str, variant: str = "a") -> list[Call]:
    return [(assign, experiment.pk, user, variant, NOON) for user in users]


def results(futures: list[Future[Any]]) -> list[Any]:
    return [future.result(SECONDS) for future in futures]


def counted() -> int:
    found: int = EventCount.objects.aggregate(total=Sum("count"))["total"]
    return found


def test_track__many_at_once__share_one_commit(
    production: Environment, together: Callable[..., list[Future[Any]]], commits: list[int]
) -> None:
    futures = together(*track(production, *(event(number) for number in range(20))))

    assert results(futures) == [Outcome.ACCEPTED] * 20
    assert len(commits) == 2  # one of them of who kept the group busy
    assert Event.objects.count() == counted() == 20


def test_track__same_event_twice_at_once__is_stored_once(
    production: Environment, together: Callable[..., list[Future[Any]]]
) -> None:
    futures = together(*track(production, event(1), event(1), event(1, name="other"), event(2)))

    assert results(futures) == [Outcome.ACCEPTED, Outcome.DUPLICATE, Outcome.CONFLICT, Outcome.ACCEPTED]
    assert Event.objects.count() == 2


def test_track__several_environments_at_once__share_one_commit_and_are_kept_apart(
    production: Environment, together: Callable[..., list[Future[Any]]], commits: list[int]
) -> None:
    staging = Environment.objects.get(key="staging")
    calls = [*track(staging, event(1), event(3)), *track(production, event(2), event(3)), *track(staging, event(4))]

    assert sorted(results(together(*calls))) == ["accepted"] * 4 + ["conflict"]
    assert len(commits) == 2
    assert dict(Event.objects.values_list("pk", "environment")) == {
        UUID(int=1): staging.pk,
        UUID(int=2): production.pk,
        UUID(int=3): Event.objects.get(pk=UUID(int=3)).environment_id,
        UUID(int=4): staging.pk,
    }


def test_track__row_that_the_database_refuses__fails_alone(
    production: Environment, together: Callable[..., list[Future[Any]]]
) -> None:
    futures = together(*track(production, event(1), event(2, name=""), event(3)))

    assert [futures[0].result(SECONDS), futures[2].result(SECONDS)] == [Outcome.ACCEPTED] * 2
    with pytest.raises(IntegrityError):
        futures[1].result(SECONDS)
    assert set(Event.objects.values_list("pk", flat=True)) == {UUID(int=1), UUID(int=3)}
    assert counted() == 2


def test_track__commit_fails__everyone_hears_so_and_nothing_is_stored(
    production: Environment,
    experiment: Experiment,
    together: Callable[..., list[Future[Any]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commit = BaseDatabaseWrapper._commit
    failures: list[int] = []

    def fail_second(self: BaseDatabaseWrapper) -> None:
        failures.append(1)
        if len(failures) == 2:
            raise OperationalError("could not write to file: No space left on device")
        commit(self)

    monkeypatch.setattr(BaseDatabaseWrapper, "_commit", fail_second)
    futures = together(*track(production, event(1), event(2)), *ask(experiment, "u3"))

    assert [type(future.exception(SECONDS)) for future in futures] == [OperationalError] * 3
    assert not Event.objects.exists()
    assert not EventCount.objects.exists()
    assert not Exposure.objects.exists()
    assert record_one(event(1), production) is Outcome.ACCEPTED


def test_variant__many_new_users_at_once__share_one_commit_with_events(
    production: Environment, experiment: Experiment, together: Callable[..., list[Future[Any]]], commits: list[int]
) -> None:
    seen = {"experimentId": str(experiment.pk), "variant": "b"}
    calls = [
        *ask(experiment, "u9", "u1", "u5", variant="a"),
        *track(production, event(1, properties=seen), event(2, properties=seen)),
        *ask(experiment, "u1", variant="b"),
    ]

    assert results(together(*calls)) == ["a", "a", "a", Outcome.ACCEPTED, Outcome.ACCEPTED, "a"]
    assert len(commits) == 2
    stored = Exposure.objects.order_by("user_id").values_list("user_id", "variant", "origin", "is_in_several_variants")
    assert list(stored) == [
        ("u1", "a", "assigned", True),
        ("u2", "b", "reported", False),
        ("u5", "a", "assigned", False),
        ("u9", "a", "assigned", False),
    ]


def test_variant__users_reported_before__keep_what_they_saw(
    production: Environment, experiment: Experiment, together: Callable[..., list[Future[Any]]]
) -> None:
    seen = {"experimentId": "e", "variant": "b"}
    for number in (1, 2):
        record_one(
            event(
                number,
                properties=seen,
                timestamp=NOON + timedelta(seconds=number),
                received_at=NOON + timedelta(days=1),
            ),
            production,
        )

    assert results(together(*ask(experiment, "u1", "u2", "u3"))) == ["b", "b", "a"]
    assert list(Exposure.objects.order_by("user_id").values_list("user_id", "exposed_at", "origin")) == [
        ("u1", NOON + timedelta(seconds=1), "assigned"),
        ("u2", NOON + timedelta(seconds=2), "assigned"),
        ("u3", NOON, "assigned"),
    ]


def test_variant__experiment_that_is_gone__fails_alone(
    experiment: Experiment, together: Callable[..., list[Future[Any]]]
) -> None:
    futures = together(*ask(experiment, "u1"), (assign, UUID(int=7), "u2", "a", NOON), *ask(experiment, "u3"))

    assert [futures[0].result(SECONDS), futures[2].result(SECONDS)] == ["a", "a"]
    with pytest.raises(DomainError):
        futures[1].result(SECONDS)
    assert set(Exposure.objects.values_list("user_id", flat=True)) == {"u1", "u3"}


def test_variant__known_user__is_answered_while_others_write(production: Environment, experiment: Experiment) -> None:
    assign(experiment.pk, "u1", "a", NOON)
    threads, gate = Threads(), Gate()
    busy = threads.start(writes.submit, Handler(lambda items: [gate.pass_through()], 0), None)
    gate.wait_for_arrival()

    assert get_variant(key="e", environment=production, user_id="u1", now=NOON).variant == "a"
    gate.open()
    busy.result(SECONDS)
    threads.join()


def test_variant__many_known_users_at_once__each_gets_their_own(
    production: Environment, experiment: Experiment
) -> None:
    users = {f"u{number}": "ab"[number % 2] for number in range(20)}
    for user, variant in users.items():
        assign(experiment.pk, user, variant, NOON)
    threads, gate = Threads(), Gate()
    busy = threads.start(reads.submit, Handler(lambda items: [gate.pass_through()], 0), None)
    gate.wait_for_arrival()
    asked = [partial(get_variant, key="e", environment=production, user_id=user, now=NOON) for user in users]
    futures = [threads.start(each) for each in asked]
    gate.open()

    assert [each.variant for each in results(futures)] == list(users.values())
    busy.result(SECONDS)
    threads.join()
