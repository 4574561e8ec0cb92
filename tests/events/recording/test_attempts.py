"""Single events are written without a savepoint at first: what happens if one of them exists already."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from config.models import Environment
from events import recording
from events.models import Event, EventCount
from events.recording import NewEvent, Outcome, new_id, record_each, record_one
from tests.conftest import NOON

pytestmark = pytest.mark.django_db(transaction=True)

MANY = 20
"""Events that are written at once on every database."""


@pytest.fixture(autouse=True)
def no_repeated_id_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording._Repeats, "expected_until", 0.0)


def make(name: str = "view") -> NewEvent:
    return NewEvent(new_id(), "ada", name, NOON, NOON, {})


def record_together(events: list[NewEvent], environment: Environment) -> list[Outcome | Exception]:
    return record_each([(event, environment) for event in events])


@contextmanager
def counting_savepoints() -> Iterator[list[int]]:
    """Have the number of savepoints that the block has made, once it has ended."""
    made: list[int] = []
    with CaptureQueriesContext(connection) as queries:
        yield made
    made.append(sum(query["sql"].startswith("SAVEPOINT") for query in queries))


def counted() -> int:
    return sum(EventCount.objects.values_list("count", flat=True))


def test_record_each__all_new__makes_no_savepoint(production: Environment) -> None:
    with counting_savepoints() as made:
        assert record_together([make() for _ in range(MANY)], production) == [Outcome.ACCEPTED] * MANY
    assert made == [0]
    assert Event.objects.count() == counted() == MANY


def test_record_each__one_is_stored_already__stores_the_others_once(production: Environment) -> None:
    old, conflicting = make(), make()
    record_together([old, conflicting], production)
    new = [make() for _ in range(MANY)]
    other = NewEvent(conflicting.id, "ada", "buy", NOON, NOON, {})

    outcomes = record_together([new[0], old, other, *new[1:]], production)

    assert outcomes == [Outcome.ACCEPTED, Outcome.DUPLICATE, Outcome.CONFLICT, *[Outcome.ACCEPTED] * (MANY - 1)]
    assert Event.objects.count() == counted() == MANY + 2


def test_record_each__after_a_repeated_id__expects_another_one(production: Environment) -> None:
    events = [make() for _ in range(MANY)]
    record_together(events, production)
    record_together(events, production)
    with counting_savepoints() as made:
        assert record_together(events, production) == [Outcome.DUPLICATE] * MANY
    assert made == [1]


def test_record_one__stored_already__is_a_duplicate(production: Environment) -> None:
    event = make()
    assert [record_one(event, production) for _ in range(3)] == [Outcome.ACCEPTED, *[Outcome.DUPLICATE] * 2]
    assert counted() == 1


def test_record_one__stored_already__leaves_the_transaction_of_its_caller_whole(production: Environment) -> None:
    event, other = make(), make()
    record_one(event, production)
    with transaction.atomic():
        assert record_one(other, production) is Outcome.ACCEPTED
        assert record_one(event, production) is Outcome.DUPLICATE
    assert Event.objects.count() == counted() == 2
