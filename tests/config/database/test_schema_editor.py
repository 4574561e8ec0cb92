"""A migration that needs a table which is in use gives up soon, and tries again until it gets it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.commands import migrate as django_command
from django.db import OperationalError, connection
from psycopg.errors import LockNotAvailable

from config.database.postgresql import base
from config.management.commands import migrate
from tests.threads import SECONDS, Threads

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one lock, for the whole database"),
]

CHANGE = "ALTER TABLE config_environment ALTER COLUMN name SET NOT NULL"


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "LOCK_SECONDS", 0.2)
    monkeypatch.setattr(migrate, "SECONDS_BETWEEN_TRIES", 0.05)


@contextmanager
def in_use(threads: Threads) -> Iterator[threading.Event]:
    """A transaction of somebody else has read the table, until the event is set or the block ends."""
    has_read, may_end = threading.Event(), threading.Event()

    def read() -> None:
        with connection.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("SELECT 1 FROM config_environment LIMIT 1")
            has_read.set()
            may_end.wait(SECONDS)
            cursor.execute("COMMIT")

    reading = threads.start(read)
    assert has_read.wait(SECONDS)
    try:
        yield may_end
    finally:
        may_end.set()
        reading.result(SECONDS)


@pytest.mark.parametrize("is_atomic", [True, False])
def test_change__of_a_table_in_use__gives_up_soon(threads: Threads, is_atomic: bool) -> None:
    begun = time.monotonic()
    with (
        in_use(threads),
        pytest.raises(OperationalError) as raised,
        connection.schema_editor(atomic=is_atomic) as editor,
    ):
        editor.execute(CHANGE)
    assert isinstance(raised.value.__cause__, LockNotAvailable)
    assert 0.2 <= time.monotonic() - begun < SECONDS


@pytest.mark.parametrize("is_atomic", [True, False])
def test_change__afterwards__leaves_no_limit_behind(is_atomic: bool) -> None:
    with connection.schema_editor(atomic=is_atomic) as editor:
        editor.execute(CHANGE)
    with connection.cursor() as cursor:
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone() == ("0",)


def test_migrate__table_in_use__tries_again_until_it_is_free(threads: Threads, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []

    with in_use(threads) as may_end:

        def change(*_: object, **__: object) -> None:
            tries.append(1)
            if len(tries) == 3:
                may_end.set()
            with connection.schema_editor() as editor:
                editor.execute(CHANGE)

        monkeypatch.setattr(django_command.Command, "handle", change)
        errors = StringIO()
        call_command("migrate", stderr=errors)
    assert len(tries) in (3, 4)
    assert errors.getvalue().count("A table is in use") == len(tries) - 1


def test_migrate__another_failure__is_raised_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OperationalError("gone")

    monkeypatch.setattr(django_command.Command, "handle", fail)
    with pytest.raises(OperationalError, match="gone"):
        call_command("migrate")
