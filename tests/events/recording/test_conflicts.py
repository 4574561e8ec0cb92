"""A call whose transaction PostgreSQL gives up, because two of them wait for each other, is made once more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from django.db import OperationalError, transaction

from config.models import Environment
from events.models import Event, EventCount
from events.recording import NewEvent, Outcome, events_stored, new_id, record
from tests.conftest import NOON

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def failing(*errors: psycopg.Error) -> Iterator[list[int]]:
    """Fail, after the events are written, with these errors in turn; collects how many events each try held."""
    tries: list[int] = []

    def fail(*, events: list[NewEvent], **_: object) -> None:
        tries.append(len(events))
        if len(tries) <= len(errors):
            raise OperationalError(*errors[len(tries) - 1].args) from errors[len(tries) - 1]

    events_stored.connect(fail)
    try:
        yield tries
    finally:
        events_stored.disconnect(fail)


def make(number: int) -> list[NewEvent]:
    return [NewEvent(new_id(), "u", "n", NOON, NOON, {}) for _ in range(number)]


@pytest.mark.parametrize("error", [psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure])
def test_record__given_up_once__is_stored_all_the_same(production: Environment, error: type[psycopg.Error]) -> None:
    with failing(error("given up")) as tries:
        assert record(make(20), production) == [Outcome.ACCEPTED] * 20
    assert tries == [20, 20]
    assert Event.objects.count() == 20
    assert sum(EventCount.objects.values_list("count", flat=True)) == 20


def test_record__given_up_again__fails_and_stores_nothing(production: Environment) -> None:
    with failing(*[psycopg.errors.DeadlockDetected("given up")] * 2) as tries, pytest.raises(OperationalError):
        record(make(20), production)
    assert tries == [20, 20]
    assert not Event.objects.exists()


def test_record__without_room_on_the_disk__is_not_tried_again(production: Environment) -> None:
    with failing(psycopg.errors.DiskFull("full")) as tries, pytest.raises(OperationalError):
        record(make(20), production)
    assert tries == [20]


def test_record__given_up_within_a_transaction__leaves_it_to_the_one_who_began_it(production: Environment) -> None:
    with (
        failing(psycopg.errors.DeadlockDetected("given up")) as tries,
        pytest.raises(OperationalError),
        transaction.atomic(),
    ):
        record(make(20), production)
    assert tries == [20]
    assert not Event.objects.exists()
