"""Statements that take too long: the server ends them, or the connection is closed if it says nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

from config.database import connections
from config.database.connections import limit_process, long_statements
from config.database.notifications import Listener
from config.database.postgresql import base
from config.database.postgresql import connection as module
from config.database.transactions import read_consistently

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite has no such limits"),
]

SHORT, LONG, IDLE = 7, 600, 60


@pytest.fixture(autouse=True)
def _limits(transactional_db: None, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Connections as those of a server."""
    settings.DATABASE_LONG_TIMEOUT, settings.DATABASE_IDLE_TIMEOUT = LONG, IDLE
    monkeypatch.setattr(connections._Process, "seconds", SHORT)
    monkeypatch.setattr(base._routes["default"], "is_pooled", None)
    connection.close()
    yield
    connection.close()
    connection.settings_dict.pop("DISABLE_SERVER_SIDE_CURSORS", None)


@pytest.fixture(params=[False, True], ids=["direct", "pooled"])
def is_pooled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param:
        monkeypatch.setattr(base, "_is_pooled", lambda opened: True)
        monkeypatch.setattr(base, "_limits", lambda *_: "")  # as if the pool dropped them
    return bool(request.param)


def ask(statement: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()[0] if cursor.description else None


def limit() -> str:
    return str(ask("SHOW statement_timeout"))


def test_connection__of_a_server__has_limits_from_the_start() -> None:
    assert (limit(), ask("SHOW idle_in_transaction_session_timeout")) == ("7s", "1min")
    assert connection.connection.seconds == SHORT


def test_connection__behind_a_pool__has_limits_in_each_transaction(is_pooled: bool) -> None:
    with transaction.atomic():
        assert (limit(), ask("SHOW idle_in_transaction_session_timeout")) == ("7s", "1min")
    assert limit() == ("0" if is_pooled else "7s")
    assert connection.connection.is_pooled is is_pooled
    assert connection.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS", False) is is_pooled


def test_connection__pool_refuses_startup_options__is_opened_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = module.Connection.connect

    def refuse(**parameters: Any) -> Any:
        if "options" in parameters:
            raise module.psycopg.OperationalError("FATAL: unsupported startup parameter: options")
        return connect(**parameters)

    monkeypatch.setattr(module.Connection, "connect", refuse)
    for _ in range(2):
        with transaction.atomic():
            assert limit() == "7s"
        connection.close()


def test_connection__other_refusals__are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: Any) -> Any:
        raise module.psycopg.OperationalError("FATAL: sorry, too many clients already")

    monkeypatch.setattr(module.Connection, "connect", refuse)
    with pytest.raises(OperationalError, match="too many clients"):
        connection.ensure_connection()


def test_statement__takes_too_long__is_ended_by_the_server(is_pooled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections._Process, "seconds", 1)
    with pytest.raises(OperationalError, match="statement timeout"), transaction.atomic():
        ask("SELECT pg_sleep(60)")
    assert ask("SELECT 1") == 1


@pytest.mark.parametrize("block", [transaction.atomic, nullcontext])
def test_statement__server_does_not_answer__closes_the_connection(monkeypatch: pytest.MonkeyPatch, block: Any) -> None:
    monkeypatch.setattr(module, "SECONDS_TO_END", 0)
    connection.ensure_connection()
    connection.connection.seconds = 1  # less than the server knows
    with pytest.raises(OperationalError, match="does not answer"), block():
        ask("SELECT pg_sleep(60)")
    connection.close_if_unusable_or_obsolete()
    assert ask("SELECT 1") == 1
    assert connection.connection.seconds == SHORT


def test_long_statements__outside_of_a_transaction__have_more_time_until_the_end_of_the_block(is_pooled: bool) -> None:
    with long_statements():
        assert connection.connection.seconds == LONG
        with transaction.atomic():
            assert limit() == "10min"
        assert limit() == ("0" if is_pooled else "10min")
    assert connection.connection.seconds == SHORT
    with transaction.atomic():
        assert limit() == "7s"


def test_long_statements__in_a_transaction__have_more_time_until_its_end(is_pooled: bool) -> None:
    with transaction.atomic():
        with long_statements():
            assert limit() == "10min"
        assert connection.connection.seconds == SHORT
    with transaction.atomic():
        assert limit() == "7s"


def test_long_statements__one_fails__later_ones_have_the_usual_time(is_pooled: bool) -> None:
    with pytest.raises(OperationalError), long_statements():
        ask("SELECT pg_terminate_backend(pg_backend_pid())")
    with transaction.atomic():
        assert limit() == "7s"


def test_read_consistently__has_more_time(is_pooled: bool) -> None:
    with read_consistently():
        assert (limit(), ask("SHOW transaction_isolation")) == ("10min", "repeatable read")
    with transaction.atomic():
        assert limit() == "7s"


def test_limit_process__connection_is_open__is_limited_too() -> None:
    connection.ensure_connection()
    limit_process(0)
    assert limit() == "0"
    connection.close()
    assert limit() == "0"


def test_commands__say_nothing__have_the_time_of_long_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections._Process, "seconds", None)
    assert limit() == "10min"
    with long_statements():
        assert limit() == "10min"


def test_listener__behind_a_pool__does_not_listen(is_pooled: bool) -> None:
    listener = Listener()
    listener.listen()
    assert listener._is_listening is not is_pooled
