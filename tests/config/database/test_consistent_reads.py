"""Consistent reads: they do not see later commits, do not block writers, and leave no state behind."""

from __future__ import annotations

import pytest
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext

from config.database.consistent_reads import read_consistently
from config.models import Environment
from tests.threads import SECONDS, Threads

pytestmark = pytest.mark.django_db(transaction=True)

on_sqlite = pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL has many writers at a time")
on_postgresql = pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite lets such a transaction write")


def rename(name: str) -> None:
    with transaction.atomic():
        Environment.objects.filter(key="production").update(name=name)


def rename_elsewhere(threads: Threads, name: str) -> None:
    threads.start(rename, name).result(SECONDS)


def name_now() -> str:
    return Environment.objects.values_list("name", flat=True).get(key="production")


def test_read_consistently__another_commits_meanwhile__sees_what_was_there_at_first(threads: Threads) -> None:
    with read_consistently():
        before = name_now()
        rename_elsewhere(threads, "Renamed")
        assert name_now() == before
    assert name_now() == "Renamed"


def test_read_consistently__first_statement_of_a_connection__keeps_nobody_from_writing(threads: Threads) -> None:
    def read() -> tuple[str, str]:
        assert connection.connection is None
        with read_consistently():
            before = name_now()
            rename_elsewhere(threads, "Renamed")
            return before, name_now()

    before, later = threads.start(read).result(SECONDS)
    assert before == later != "Renamed"


@on_sqlite
def test_read_consistently__others_write_before_its_first_statement__does_not_wait_for_them(threads: Threads) -> None:
    with transaction.atomic():
        before = name_now()
        rename("Renamed")

        def read() -> str:
            with read_consistently():
                return name_now()

        assert threads.start(read).result(SECONDS) == before


@pytest.mark.parametrize("is_broken_off", [False, True])
def test_read_consistently__afterwards__transactions_are_as_before(threads: Threads, is_broken_off: bool) -> None:
    def how_one_begins() -> list[str]:
        with CaptureQueriesContext(connection) as queries:
            rename("Renamed")
        return [query["sql"] for query in queries if query["sql"].startswith(("BEGIN", "SET"))]

    before = how_one_begins()
    if is_broken_off:
        with pytest.raises(ZeroDivisionError), read_consistently():
            raise ZeroDivisionError
    else:
        with read_consistently():
            name_now()
    assert not connection.in_atomic_block
    assert how_one_begins() == before
    assert name_now() == "Renamed"


def test_read_consistently__in_a_transaction__adds_nothing_to_it(threads: Threads, django_assert_num_queries) -> None:
    with transaction.atomic():
        with django_assert_num_queries(1), read_consistently():
            name_now()
        with read_consistently():
            rename("Renamed")
    assert name_now() == "Renamed"


def test_read_consistently__within_another__is_of_the_same_moment(threads: Threads) -> None:
    with read_consistently():
        before = name_now()
        rename_elsewhere(threads, "Renamed")
        with read_consistently():
            assert name_now() == before
        assert name_now() == before


@on_postgresql
def test_read_consistently__writing_in_it__is_refused(threads: Threads) -> None:
    with pytest.raises(DatabaseError, match="read-only"), read_consistently():
        rename("Renamed")
    assert name_now() != "Renamed"
