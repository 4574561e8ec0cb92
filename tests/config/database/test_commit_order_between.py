"""Rows between two marks: consecutive marks divide the rows, so that each is found once."""

from __future__ import annotations

import time
from concurrent.futures import Future
from itertools import pairwise

import pytest
from django.db import connection, transaction
from django.db.models import QuerySet

from config.database.commit_order import (
    are_divided,
    are_restored_rows_reached,
    arrived_between,
    arrived_in_doubt,
    can_tell_new_rows,
    take_mark,
)
from config.models import Environment
from events.models import Event
from events.recording.ingest import record
from tests.config.database.test_commit_order import happen, look, on_postgresql, write_slowly
from tests.threads import Threads

pytestmark = pytest.mark.django_db(transaction=True)


def look_at_events() -> str:
    with transaction.atomic():
        return take_mark("events_event")


def restore_ahead(events: QuerySet[Event]) -> int:
    """Give events the numbers of transactions to come, as a restored dump may do, and return the first."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_xact_id()::text::bigint + 1000")  # other databases use up numbers, too
        [ahead] = cursor.fetchone()
    for at, pk in enumerate(events.order_by("pk").values_list("pk", flat=True)):
        Event.objects.filter(pk=pk).update(arrival=ahead + at)
    return int(ahead)


def reach(number: int) -> None:
    """Begin transactions until this number has been used."""
    reached = 0
    with connection.cursor() as cursor:
        while reached < number:
            cursor.execute("SELECT pg_current_xact_id()::text::bigint")
            [reached] = cursor.fetchone()


def seen_between(since: str, until: str) -> list[str]:
    """The users of the events that the two marks enclose, one for each condition that an event meets."""
    return sorted(
        user
        for condition, parameters in arrived_between(since, until, "arrival")
        for user in Event.objects.extra(where=[condition], params=parameters).values_list("user_id", flat=True)
    )


def test_arrived_between__consecutive_marks__divide_the_rows(production: Environment) -> None:
    marks = [look()]
    for users in (["a", "b"], [], ["c"]):
        record(happen(*users), production)
        marks.append(look())
    record(happen("d"), production)

    assert [seen_between(since, until) for since, until in pairwise(marks)] == [["a", "b"], [], ["c"]]
    assert seen_between(marks[0], marks[-1]) == ["a", "b", "c"]


@pytest.mark.parametrize("seed", range(2))
def test_arrived_between__looks_while_many_write__find_each_row_once(threads: Threads, seed: int) -> None:
    production = Environment.objects.get(key="production")
    marks, seen = [look()], list[str]()
    writers: list[Future[None]] = [threads.start(write_slowly, production, seed * 10 + at) for at in range(4)]
    while not all(writer.done() for writer in writers):
        marks.append(look())
        seen += seen_between(*marks[-2:])
        time.sleep(0.01)
    for writer in writers:
        writer.result()
    marks.append(look())
    seen += seen_between(*marks[-2:])

    assert sorted(seen) == sorted(Event.objects.values_list("user_id", flat=True))
    assert len(seen) == 4 * 12


@on_postgresql
def test_arrived_in_doubt__rows_of_the_transaction_that_took_a_mark__are_found_by_it_alone(
    production: Environment,
) -> None:
    first = look()
    with transaction.atomic():
        record(happen("a"), production)
        second = take_mark()
        record(happen("b"), production)
    third = look()

    for marks in ((first, second), (second, third)):
        condition, parameters = arrived_in_doubt(*marks, "arrival") or ("", [])
        doubtful = Event.objects.extra(where=[condition], params=parameters).values_list("user_id", flat=True)
        assert sorted(doubtful) == ["a", "b"]
        assert seen_between(*marks) == []


@pytest.mark.one_server("numbers of restored rows are replaced before tables are spread")
@on_postgresql
def test_are_divided__rows_restored_from_another_database__until_transactions_reach_them(
    production: Environment,
) -> None:
    record(happen("a"), production)
    ahead = restore_ahead(Event.objects.all())
    before, later = (look_at_events(), look_at_events())
    reach(ahead)
    reached, following = (look_at_events(), look_at_events())

    assert are_divided(before, later)
    assert not are_divided(later, reached)
    assert are_divided(reached, following)


def test_are_divided__rows_of_this_database__always(production: Environment) -> None:
    mark = look_at_events()
    record(happen("a"), production)

    assert are_divided(mark, look_at_events())


@pytest.mark.one_server("numbers of restored rows are replaced before tables are spread")
@on_postgresql
def test_can_tell_new_rows__rows_restored_from_another_database__until_transactions_reach_them(
    production: Environment,
) -> None:
    record(happen("a", "b"), production)
    of_own_rows = look_at_events()
    ahead = restore_ahead(Event.objects.all())
    mark = look_at_events()

    assert can_tell_new_rows(mark)
    assert not are_restored_rows_reached(mark)
    reach(ahead)
    assert not can_tell_new_rows(mark)
    assert are_restored_rows_reached(mark)
    assert can_tell_new_rows(of_own_rows)
