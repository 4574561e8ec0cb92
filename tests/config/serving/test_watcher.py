"""Following other hosts: the signal file changes when the change log has grown, and only then."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError, connection, transaction

from config import signal_file, snapshot
from config.database.notifications import LISTENER_NAME, Listener, announce
from config.keys.environments import create_environment
from config.models import Change, Environment, Source
from config.serving import watcher
from tests.conftest import ACTOR, NOON


class Enough(Exception):
    """Ends the endless look-out."""


class Deaf(Listener):
    """A listener as on SQLite, or behind a pool that loses announcements."""

    def listen(self) -> None:
        pass


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch, db: None) -> Any:
    """Look, and once more after each step; return how the signal stood after each look."""

    def run(*steps: Any) -> list[int]:
        seen: list[int] = []
        left = list(steps)

        def do_next_step(seconds: float) -> None:
            assert seconds == watcher.SECONDS_BETWEEN_LOOKS
            seen.append(signal_file.read())
            if not left:
                raise Enough
            left.pop(0)()

        monkeypatch.setattr(watcher.time, "sleep", do_next_step)
        with pytest.raises(Enough):
            watcher._watch(Deaf())
        return seen

    return run


def commit_elsewhere() -> None:
    """Commit as another host: the log grows, but the signal file of this host does not change by
    itself.
    """
    number = Environment.objects.count()
    create_environment(key=f"e{number}", name="Elsewhere", actor=ACTOR, at=NOON)


def nothing() -> None:
    pass


def test_watcher__log_that_does_not_grow__leaves_the_signal_alone(look: Any) -> None:
    first, *later = look(nothing, nothing)
    assert later == [first, first]


def test_watcher__log_that_grows__moves_the_signal_each_time(look: Any) -> None:
    assert len(set(look(commit_elsewhere, commit_elsewhere))) == 3


def test_watcher__several_changes_between_two_looks__are_heard_of_once(look: Any) -> None:
    def commit_twice() -> None:
        commit_elsewhere()
        commit_elsewhere()

    before, after, later = look(commit_twice, nothing)
    assert before != after == later


def test_watcher__change_that_this_process_has_caught_up_with__leaves_the_signal_alone(look: Any) -> None:
    def commit_and_catch_up() -> None:
        commit_elsewhere()
        snapshot.reset()
        snapshot.refresh()

    first, second, third = look(commit_and_catch_up, commit_elsewhere)
    assert first == second != third


@pytest.mark.parametrize("error", [OperationalError("gone"), InterfaceError("connection is closed")])
def test_watcher__database_gone_for_a_while__goes_on_looking_and_says_so_once(
    look: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    manager = type(watcher.Change.objects.all())
    original = manager.latest_revision

    def fail(_: Any) -> int:
        raise error

    def break_down() -> None:
        monkeypatch.setattr(manager, "latest_revision", fail)

    def recover() -> None:
        monkeypatch.setattr(manager, "latest_revision", original)
        commit_elsewhere()

    monkeypatch.setattr(watcher.connection, "close", lambda: None)  # the test's own transaction is on it
    before, broken, still_broken, after, later = look(break_down, nothing, recover, nothing)
    assert before == broken == still_broken != after == later
    assert [record.getMessage() for record in caplog.records] == [
        f"Cannot look for changes of other hosts; trying again every second: {error}",
        "Looking for changes of other hosts again",
    ]


def test_watcher__second_outage__is_logged_too(
    look: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    manager = type(watcher.Change.objects.all())
    original = manager.latest_revision

    def fail(_: Any) -> int:
        raise OperationalError("gone")

    def break_down() -> None:
        monkeypatch.setattr(manager, "latest_revision", fail)

    def recover() -> None:
        monkeypatch.setattr(manager, "latest_revision", original)

    monkeypatch.setattr(watcher.connection, "close", lambda: None)
    look(break_down, recover, break_down, recover)
    assert caplog.text.count("Cannot look") == caplog.text.count("Looking for changes") == 2


def test_watcher__started__looks_in_a_thread_that_does_not_hold_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    monkeypatch.setattr(watcher.threading.Thread, "start", lambda thread: started.append(thread))
    watcher.watch_other_hosts()
    [thread] = started
    assert thread.daemon


# --- listening to PostgreSQL ------------------------------------------------------------------------------------------


class Patient(Listener):
    """A listener that waits so long between two looks that only an announcement can end the wait."""

    def __init__(self) -> None:
        super().__init__()
        self.is_waiting = threading.Event()
        self.must_stop = False

    def wait(self, seconds: float) -> None:
        if self.must_stop:
            raise Enough
        self.is_waiting.set()
        super().wait(600.0)


@pytest.fixture
def listener(transactional_db: None) -> Iterator[Patient]:
    """Run a watcher in a thread, and yield its listener once it waits."""
    if connection.vendor != "postgresql":
        pytest.skip("SQLite announces nothing")
    patient = Patient()

    def watch() -> None:
        try:
            watcher._watch(patient)
        except Enough:
            connection.close()

    thread = threading.Thread(target=watch, daemon=True)
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


def test_watcher__change_announced__moves_the_signal_without_another_look(listener: Patient) -> None:
    for _ in range(3):
        before = signal_file.read()
        append_elsewhere()
        wait_until(lambda before=before: signal_file.read() != before)


def test_watcher__connection_killed__listens_again_by_itself(listener: Patient) -> None:
    for _ in range(2):
        listener.is_waiting.clear()
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = %s AND datname = current_database()",
                [LISTENER_NAME],
            )
            assert cursor.fetchall() == [(True,)]
        assert listener.is_waiting.wait(30)
        before = signal_file.read()
        append_elsewhere()
        wait_until(lambda before=before: signal_file.read() != before)


def test_watcher__change_while_its_connection_is_gone__is_found_when_it_is_back(
    listener: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener.is_waiting.clear()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = %s AND datname = current_database()",
            [LISTENER_NAME],
        )
    before = signal_file.read()
    append_elsewhere()
    assert listener.is_waiting.wait(30)
    wait_until(lambda: signal_file.read() != before)
