"""Transactions on SQLite: those that write wait in a line for the one writer, and are not overtaken."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

from config.database.sqlite import base
from config.models import Environment
from tests.threads import SECONDS, Threads

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL has many writers at a time"),
]


def rename(name: str) -> None:
    with transaction.atomic():
        Environment.objects.filter(key="production").update(name=name)


@pytest.fixture
def has_waited(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set once a transaction has waited for another one."""
    event, pause = threading.Event(), base._Wait.pause

    def pause_and_tell(wait: Any) -> None:
        event.set()
        pause(wait)

    monkeypatch.setattr(base._Wait, "pause", pause_and_tell)
    return event


def test_transaction__that_waits__is_not_overtaken_by_the_next_one_of_the_same_writer(
    threads: Threads, has_waited: threading.Event
) -> None:
    order = []

    def write(name: str) -> None:
        with transaction.atomic():
            order.append(name)

    with transaction.atomic():
        waiting = threads.start(write, "waiting")
        assert has_waited.wait(SECONDS)
    write("next")
    waiting.result(SECONDS)
    assert order == ["waiting", "next"]


def test_transaction__that_waits_for_too_long__fails(threads: Threads, settings: Any) -> None:
    settings.DATABASE_TIMEOUT = 0
    with transaction.atomic(), pytest.raises(OperationalError, match="database is locked"):
        threads.start(rename, "Renamed").result(SECONDS)
    rename("Renamed")
    assert Environment.objects.get(key="production").name == "Renamed"


def test_transaction__behind_one_that_waits_for_too_long__fails_too(
    threads: Threads, settings: Any, has_waited: threading.Event
) -> None:
    settings.DATABASE_TIMEOUT = 1
    with transaction.atomic():
        waiting = [threads.start(rename, "Renamed") for _ in range(3)]
        errors = [call.exception(SECONDS) for call in waiting]
    assert {str(error) for error in errors} == {"database is locked"}


def test_transaction__in_a_folder_that_cannot_be_written__begins_without_a_line(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError

    monkeypatch.setattr("os.open", refuse)
    rename("Renamed")
    assert Environment.objects.get(key="production").name == "Renamed"


def test_statement__after_a_transaction__waits_for_as_long_as_the_settings_say(threads: Threads, settings: Any) -> None:
    rename("Renamed")
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout")
        assert cursor.fetchone() == (settings.DATABASE_TIMEOUT * 1000,)
