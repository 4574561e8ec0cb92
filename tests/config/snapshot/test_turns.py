"""Turns, which two blocks of one process take like those of two processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from config.snapshot import turns
from config.snapshot.turns import turn


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses of this test, in which a clock goes on instead of time."""
    pauses: list[float] = []
    monkeypatch.setattr(turns.time, "sleep", pauses.append)
    monkeypatch.setattr(turns.time, "monotonic", lambda: sum(pauses))
    return pauses


def test_turn__nobody_has_it__does_not_wait(waits: list[float]) -> None:
    for _ in range(2):
        with turn(while_waiting=lambda: pytest.fail("It waits.")):
            pass
    assert not waits


def test_turn__another_has_it_for_a_while__is_given_when_that_ends(waits: list[float]) -> None:
    others = turn(while_waiting=lambda: None)
    others.__enter__()
    met: list[int] = []

    def meanwhile() -> None:
        met.append(len(waits))
        if len(met) == 3:
            others.__exit__(None, None, None)

    with turn(while_waiting=meanwhile):
        assert met == [0, 1, 2]


def test_turn__another_never_ends_it__goes_on_after_the_longest_wait(waits: list[float]) -> None:
    with turn(while_waiting=lambda: None), turn(while_waiting=lambda: None):
        assert turns.LONGEST_WAIT <= sum(waits) < turns.LONGEST_WAIT + 1


def test_turn__file_cannot_be_opened__goes_on(waits: list[float], settings: Any, tmp_path: Path) -> None:
    settings.RUNTIME_DIR = tmp_path / "missing"
    entered = []
    with turn(while_waiting=lambda: None):
        entered.append(True)
    assert entered
    assert not waits


def test_turn__block_fails__is_given_to_the_next(waits: list[float]) -> None:
    with pytest.raises(ZeroDivisionError), turn(while_waiting=lambda: None):
        raise ZeroDivisionError
    with turn(while_waiting=lambda: pytest.fail("It waits.")):
        pass
