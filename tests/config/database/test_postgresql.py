"""Connections to PostgreSQL: one that lives is used as it is, one that the server has ended is replaced before use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db import InternalError, connection

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite's database is a file that nobody ends"),
]


def backend() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        [[pid]] = cursor.fetchall()
    return int(pid)


def end(pid: int) -> None:
    with psycopg.connect(**connection.get_connection_params(), autocommit=True) as other:
        assert other.execute("SELECT pg_terminate_backend(%s, 10000)", [pid]).fetchone()[0]


def begin_request() -> None:
    connection.close_if_unusable_or_obsolete()  # as Django does when a request begins


def test_connection__that_lives__is_used_again_and_asked_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pid = backend()
    begin_request()

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("asked")

    with monkeypatch.context() as patched:
        patched.setattr(connection.connection, "cursor", refuse)
        assert connection.is_usable()
    assert backend() == pid


def test_connection__ended_by_the_server__is_replaced_before_the_next_request_uses_it() -> None:
    pid = backend()
    end(pid)
    assert not connection.is_usable()
    begin_request()

    assert backend() != pid


def test_connection__after_an_error__is_asked_whether_it_lives() -> None:
    pid = backend()
    with pytest.raises(Exception, match="does not exist"), connection.cursor() as cursor:
        cursor.execute("SELECT * FROM nothing")
    assert connection.errors_occurred
    begin_request()

    assert not connection.errors_occurred
    assert backend() == pid


@pytest.mark.parametrize("error", [ValueError("too many values"), psycopg.InternalError("received 2 results")])
def test_connection__that_a_pool_reports_as_lost_beside_the_server__is_lost(error: Exception) -> None:
    """The driver takes one answer of a COPY or a COMMIT, and stumbles over two."""

    def answer_twice() -> Iterator[None]:
        yield from ()
        raise error

    backend()
    with pytest.raises(psycopg.OperationalError, match="ended the connection"):
        connection.connection.wait(answer_twice())
    assert not connection.is_usable()
    connection.close()


def test_connection__two_answers_where_a_copy_begins__is_lost() -> None:
    backend()
    with (
        pytest.raises(psycopg.OperationalError, match="ended the connection"),
        connection.connection.cursor() as cursor,
        cursor.copy("SELECT 1; SELECT 2"),
    ):
        pass
    connection.close()


def test_connection__defect_that_the_driver_finds__stays_one() -> None:
    pid = backend()
    with pytest.raises(psycopg.ProgrammingError, match="placeholder"), connection.connection.cursor() as cursor:
        cursor.execute("SELECT %s", ())
    assert backend() == pid


def test_connection__defect_that_the_server_reports__stays_one() -> None:
    with pytest.raises(InternalError, match="defect"), connection.cursor() as cursor:
        cursor.execute("DO $$ BEGIN RAISE EXCEPTION 'a defect' USING ERRCODE = 'XX000'; END $$")
    assert connection.is_usable()
