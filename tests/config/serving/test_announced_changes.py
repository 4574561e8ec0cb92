"""Following the change log on PostgreSQL, which announces each change to a listening connection."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from django.db import connection, transaction

from config.database.notifications import LISTENER_NAME, Alarm, Listener, announce
from config.models import Change, Source
from config.serving.follower import Follower
from config.serving.saver import Saver
from config.snapshot import signal_file
from tests.conftest import NOON


class Enough(BaseException):
    """Ends the endless look-out."""


class Patient(Listener):
    """A listener that waits so long between two looks that only an announcement can end the wait."""

    def __init__(self) -> None:
        super().__init__()
        self.is_waiting = threading.Event()
        self.must_stop = False

    def wait(self, seconds: float, alarm: Alarm) -> None:
        if self.must_stop:
            raise Enough
        self.is_waiting.set()
        super().wait(600.0, alarm)


@pytest.fixture
def listener(transactional_db: None) -> Iterator[Patient]:
    """Run a follower in a thread, and yield its listener once it waits."""
    if connection.vendor != "postgresql":
        pytest.skip("SQLite announces nothing")
    patient = Patient()

    def follow() -> None:
        try:
            Follower(patient, Saver())._run()
        except Enough:
            connection.close()

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    assert patient.is_waiting.wait(30)
    yield patient
    patient.must_stop = True
    announce()
    thread.join(30)
    assert not thread.is_alive()


@transaction.atomic
def append_elsewhere() -> None:
    """Commit and announce a change as another host."""
    revision = Change.objects.latest_revision() + 1
    Change.objects.create(revision=revision, at=NOON, actor="other", source=Source.API, kind="thing", after={})
    announce()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def kill_connection() -> None:
    """End the connection of the listener."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = %s AND datname = current_database()",
            [LISTENER_NAME],
        )
        assert cursor.fetchall() == [(True,)]


def test_follower__change_announced__moves_the_signal_without_another_look(listener: Patient) -> None:
    for _ in range(3):
        before = signal_file.read()
        append_elsewhere()
        wait_until(lambda before=before: signal_file.read() != before)


def test_follower__connection_killed__listens_again_by_itself(listener: Patient) -> None:
    for _ in range(2):
        listener.is_waiting.clear()
        kill_connection()
        assert listener.is_waiting.wait(30)
        before = signal_file.read()
        append_elsewhere()
        wait_until(lambda before=before: signal_file.read() != before)


def test_follower__change_while_its_connection_is_gone__is_found_when_it_is_back(
    listener: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener.is_waiting.clear()
    kill_connection()
    before = signal_file.read()
    append_elsewhere()
    assert listener.is_waiting.wait(30)
    wait_until(lambda: signal_file.read() != before)
