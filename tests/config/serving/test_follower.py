"""Following the change log, whoever adds to it, and going on with the last known state without it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError

from config import snapshot
from config.access import environments
from config.access.environments import create_environment
from config.database.notifications import Alarm, Listener
from config.database.schema import SchemaIsBehind
from config.models import Change, Environment
from config.serving import follower
from config.serving.follower import Follower
from config.serving.saver import Saver
from config.snapshot import Lateness, freshness, signal_file, tables
from flags.changes.flag_changes import create_flag
from flags.models import Flag
from flags.snapshot import configuration
from tests.conftest import ACTOR, NOON


class Enough(BaseException):
    """Ends the endless look-out."""


class Deaf(Listener):
    """A listener as on SQLite, or behind a pool that loses announcements."""

    def __init__(self, wait: Callable[[float], None]) -> None:
        super().__init__()
        self.wait_instead = wait

    def listen(self) -> None:
        pass

    def wait(self, seconds: float, alarm: Alarm) -> None:
        self.wait_instead(seconds)


@pytest.fixture
def saver() -> Saver:
    return Saver()


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch, db: None, saver: Saver) -> Any:
    """Look, and once more after each step; return how the signal stood after each look."""

    def run(*steps: Any) -> list[int]:
        seen: list[int] = []
        left = list(steps)

        def do_next_step(seconds: float) -> None:
            if seconds < 1:  # a thread that gives way to others
                return
            assert seconds == follower.SECONDS_BETWEEN_LOOKS == freshness.SECONDS_BETWEEN_TRIES
            seen.append(signal_file.read())
            if not left:
                raise Enough
            left.pop(0)()

        monkeypatch.setattr(follower.time, "sleep", do_next_step)
        with pytest.raises(Enough):
            Follower(Deaf(do_next_step), saver)._run()
        return seen

    return run


def commit_elsewhere() -> None:
    """Commit as another host: the log grows, but the signal file of this host does not change by
    itself.
    """
    number = Environment.objects.count()
    create_environment(key=f"e{number}", name="Elsewhere", actor=ACTOR, now=NOON)


def nothing() -> None:
    pass


class Broken:
    """Makes looks at the change log fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch
        self._original = tables._newest_change
        monkeypatch.setattr(follower.connection, "close", lambda: None)  # the test's own transaction is on it

    def by(self, error: Exception, *, times: int = 1000) -> None:
        left = [error] * times

        def look() -> Any:
            if left:
                raise left.pop()
            return self._original()

        self._patch.setattr(tables, "_newest_change", look)

    def mend(self) -> None:
        self._patch.setattr(tables, "_newest_change", self._original)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Broken:
    return Broken(monkeypatch)


def known() -> set[str]:
    return set(environments.known_environments.state.by_key)


def test_follower__log_that_does_not_grow__leaves_the_signal_alone(look: Any) -> None:
    first, *later = look(nothing, nothing)
    assert later == [first, first]


def test_follower__log_that_grows__is_applied_and_moves_the_signal_each_time(look: Any) -> None:
    found: list[set[str]] = []
    signals = look(commit_elsewhere, nothing, commit_elsewhere, lambda: found.append(known()))
    assert [len(set(signals)), *found] == [3, {"production", "staging", "e2", "e3"}]


def test_follower__several_changes_between_two_looks__are_heard_of_once(look: Any) -> None:
    def commit_twice() -> None:
        commit_elsewhere()
        commit_elsewhere()

    before, after, later = look(commit_twice, nothing)
    assert before != after == later


def test_follower__change_of_this_host__is_applied_and_leaves_the_signal_alone(look: Any) -> None:
    poked: list[int] = []

    def commit_here() -> None:
        commit_elsewhere()
        signal_file.signal_change()
        poked.append(signal_file.read())

    _, after = look(commit_here)
    assert [after] == poked
    assert "e2" in known()


@pytest.mark.parametrize("error", [OperationalError("gone"), InterfaceError("connection is closed")])
def test_follower__database_gone_for_a_while__goes_on_looking_and_says_so_once(
    look: Any, broken: Any, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    stale: list[int | None] = []

    def note() -> None:
        stale.append(snapshot.staleness())

    def break_down() -> None:
        note()
        broken.by(error)

    def recover() -> None:
        note()
        broken.mend()
        commit_elsewhere()

    before, first, second, after, later = look(break_down, note, recover, note)
    assert before == first == second != after == later
    assert stale == [None, 0, 0, None]
    assert [record.getMessage() for record in caplog.records] == [
        f"Cannot follow changes, and go on with the last known configuration: {error}",
        "Following changes again",
    ]


def test_follower__second_outage__is_logged_too(look: Any, broken: Any, caplog: pytest.LogCaptureFixture) -> None:
    gone = OperationalError("gone")
    look(lambda: broken.by(gone), broken.mend, lambda: broken.by(gone), broken.mend)
    assert caplog.text.count("Cannot follow") == caplog.text.count("Following changes again") == 2


def test_follower__one_failure__is_tried_again_at_once(
    look: Any, broken: Any, caplog: pytest.LogCaptureFixture
) -> None:
    look(lambda: broken.by(OperationalError("idle connection closed"), times=1))
    assert snapshot.staleness() is None
    assert not caplog.records


def test_follower__defect__is_logged_with_its_traceback_and_does_not_end_it(
    look: Any, broken: Any, caplog: pytest.LogCaptureFixture
) -> None:
    look(lambda: broken.by(KeyError("defect")), broken.mend)
    assert "Traceback" in caplog.text
    assert "Following changes again" in caplog.text


def test_follower__log_replaced_by_an_older_one__loads_everything_again(look: Any) -> None:
    commit_elsewhere()
    look()
    assert "e2" in known()

    def restore() -> None:
        Environment.objects.filter(key="e2").delete()
        Change.objects.filter(key="e2").delete()

    look(restore)
    assert "e2" not in known()


def test_follower__newest_change_replaced_by_another__loads_everything_again(look: Any) -> None:
    commit_elsewhere()

    def restore_and_go_on() -> None:
        Environment.objects.filter(key="e2").update(key="other")
        Change.objects.filter(key="e2").update(at=NOON + timedelta(seconds=1), key="other")

    look(restore_and_go_on)
    assert {"e2", "other"} & known() == {"other"}


def test_follower__log_replaced_by_one_that_is_longer__loads_everything_again(look: Any) -> None:
    """As when a standby takes over that lacks the last changes, and goes on before this process reaches it."""

    def commit(key: str) -> None:
        create_flag(key=key, environment=Environment.objects.default(), actor=ACTOR, now=NOON)

    def take_over_and_go_on() -> None:
        Flag.objects.get(key="lost").delete()
        Change.objects.filter(key="lost").delete()
        commit("new")  # with the revision of the lost change, but made at another time
        Change.objects.filter(key="new").update(at=NOON - timedelta(seconds=1))
        commit("newer")

    look(partial(commit, "lost"), take_over_and_go_on)
    assert configuration("production").flags.keys() == {"new", "newer"}


def test_follower__each_newer_state__is_offered_to_be_saved(look: Any, saver: Saver) -> None:
    offered: list[int] = []

    def note() -> None:
        assert saver._offered is not None
        offered.append(saver._offered.revision)

    look(note, note, commit_elsewhere, note)
    newest = Change.objects.latest_revision()
    assert offered == [newest - 1, newest - 1, newest]


def test_follower__database_away_from_the_start__serves_the_state_of_the_file(
    look: Any, broken: Any, saver: Saver, caplog: pytest.LogCaptureFixture
) -> None:
    look()
    saver.save()
    revision = snapshot.revision()
    snapshot.reset()
    broken.by(OperationalError("gone"))
    look()
    assert (snapshot.revision(), known()) == (revision, {"production", "staging"})
    assert snapshot.staleness() == 0
    assert "Serving the last known state, revision" in caplog.text
    assert "Cannot follow changes, and go on with the last known configuration: gone" in caplog.text


def test_follower__database_back_after_a_start_from_the_file__loads_everything(
    look: Any, broken: Any, saver: Saver
) -> None:
    look()
    saver.save()
    Environment.objects.filter(key="staging").update(name="Changed behind its back")
    snapshot.reset()
    broken.by(OperationalError("gone"))
    look(broken.mend)
    assert environments.known_environments.state.by_key["staging"].name == "Changed behind its back"
    assert snapshot.staleness() is None


def test_follower__database_away_and_no_file__says_that_it_answers_503(
    look: Any, broken: Any, caplog: pytest.LogCaptureFixture
) -> None:
    broken.by(OperationalError("gone"))
    look()
    assert [record.getMessage() for record in caplog.records] == [
        "Cannot follow changes, and answer 503 meanwhile: gone"
    ]


def test_follower__schema_behind__loads_nothing_until_it_is_migrated(
    look: Any, monkeypatch: pytest.MonkeyPatch, broken: Any, caplog: pytest.LogCaptureFixture
) -> None:
    revisions: list[int | None] = []

    def refuse() -> None:
        raise SchemaIsBehind("migrations are missing")

    def migrate() -> None:
        revisions.append(tables.current.revision)
        assert snapshot.lateness() is Lateness.OLD_SCHEMA
        monkeypatch.setattr(follower, "require_schema", lambda: None)

    monkeypatch.setattr(follower, "require_schema", refuse)
    look(migrate)
    assert revisions == [None]
    assert tables.current.revision == Change.objects.latest_revision()
    assert [record.getMessage() for record in caplog.records] == [
        "Cannot follow changes, and answer 503 meanwhile: migrations are missing",
        "Following changes again",
    ]


@pytest.mark.parametrize("has_file", [True, False])
def test_wait_for_state__database_that_hangs__ends_with_the_file_or_without(
    look: Any, saver: Saver, monkeypatch: pytest.MonkeyPatch, has_file: bool
) -> None:
    if has_file:
        look()
        saver.save()
        snapshot.reset()
    monkeypatch.setattr(follower, "_PATIENCE_AT_START", 0.001)
    monkeypatch.setattr(follower, "_MAX_START", 0.002)
    Follower(Listener(), saver).wait_for_state()
    assert (tables.current.revision is not None) is has_file


def test_follower__started__looks_in_a_thread_that_does_not_hold_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    monkeypatch.setattr(follower.threading.Thread, "start", lambda thread: started.append(thread))
    Follower(Listener(), Saver()).start()
    assert {thread.name for thread in started if thread.daemon} == {"change-log-follower", "state-saver"}
