"""Saving the last known state: each one that is offered, and a sign of life as long as it is the newest."""

from __future__ import annotations

import pytest

from config import snapshot
from config.access.environments import create_environment
from config.serving.saver import Saver
from config.snapshot import state_file
from config.snapshot.state_file import State
from config.snapshot.tables import Lateness, current
from tests.conftest import ACTOR, NOON

pytestmark = pytest.mark.django_db


@pytest.fixture
def saver(db: None) -> Saver:
    snapshot.refresh()
    made = Saver()
    made.offer(State.of_this_process())
    return made


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The revisions that were kept."""
    revisions: list[int] = []

    def keep(state: State, *, anew: bool) -> bool:
        revisions.append(state.revision)
        return True

    monkeypatch.setattr(state_file, "keep", keep)
    return revisions


def test_save__nothing_offered__keeps_nothing(kept: list[int]) -> None:
    Saver().save()
    assert not kept


def test_save__state_offered__is_in_the_file(saver: Saver) -> None:
    saver.save()
    revision = snapshot.revision()
    snapshot.reset()
    assert state_file.restore()
    assert snapshot.revision() == revision


def test_save__file_was_damaged_before_this_process_started__is_written_anew_once(saver: Saver) -> None:
    saver.save()
    path = state_file._path()
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"?")
    successor = Saver()
    successor.offer(State.of_this_process())
    successor.save()
    assert path.read_bytes() == whole
    inode = path.stat().st_ino
    successor.save()
    assert path.stat().st_ino == inode


def test_save__as_long_as_it_is_the_newest__keeps_it_again(saver: Saver, kept: list[int]) -> None:
    for _ in range(3):
        saver.save()
    assert kept == [snapshot.revision()] * 3


def test_save__database_away__keeps_a_new_state_once_and_gives_no_further_sign(saver: Saver, kept: list[int]) -> None:
    current.lateness = Lateness.CUT_OFF
    for _ in range(3):
        saver.save()
    assert len(kept) == 1


def test_save__two_offered__keeps_the_newer_one(saver: Saver, kept: list[int]) -> None:
    create_environment(key="qa", name="QA", actor=ACTOR, now=NOON)
    current.catch_up()
    saver.offer(State.of_this_process())
    saver.save()
    assert kept == [snapshot.revision()]


@pytest.mark.parametrize(("error", "has_traceback"), [(OSError("no space left"), False), (KeyError("defect"), True)])
def test_save__fails__is_logged_once_and_tried_again(
    saver: Saver,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    has_traceback: bool,
) -> None:
    def fail(_: State, *, anew: bool) -> bool:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(state_file, "keep", fail)
        for _ in range(3):
            saver.save()
    assert caplog.text.count("Cannot save the last known state, and keep trying") == 1
    assert ("Traceback" in caplog.text) is has_traceback
    saver.save()
    assert caplog.messages[-1] == "The last known state is saved again"
    assert state_file._path().exists()
