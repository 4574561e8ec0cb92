"""Hearing of what other hosts commit: the signal file moves when the change log has grown, and only then."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import InterfaceError, OperationalError

from config import signal_file, watcher
from config.environments import create_environment
from config.models import Environment
from tests.conftest import ACTOR, NOON

pytestmark = pytest.mark.django_db


class Enough(Exception):
    """Ends the endless look-out."""


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> Any:
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
            watcher._watch()
        return seen

    return run


def commit_elsewhere() -> None:
    """What another host commits: the log grows, and this host's signal file does not move by itself."""
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


@pytest.mark.parametrize("error", [OperationalError("gone"), InterfaceError("connection is closed")])
def test_watcher__database_gone_for_a_while__goes_on_looking(
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
    before, broken, after = look(break_down, recover)
    assert before == broken != after
    assert str(error) in caplog.text


def test_watcher__started__looks_in_a_thread_that_does_not_hold_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    monkeypatch.setattr(watcher.threading.Thread, "start", lambda thread: started.append(thread))
    watcher.watch_other_hosts()
    [thread] = started
    assert thread.daemon
