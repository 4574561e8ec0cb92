"""How long commands show their progress."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest
from django.core.management.base import OutputWrapper

from config.management import progress
from config.management.progress import show_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, seconds: float, file: Any) -> str:
    """Return what two steps write into `file`, the first of which takes four of ten units."""
    monkeypatch.setattr(sys, "stderr", file)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", seconds)
    with show_progress(OutputWrapper(file), 10, "Import", "B") as on_progress:
        on_progress(4)
        on_progress(6)
    return str(file.getvalue())


def test_progress__into_a_pipe__is_a_line_whenever_some_seconds_have_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, 0.0, io.StringIO()) == "Import: 40 %\nImport: 100 %\n"


def test_progress__of_a_moment__is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, 3600.0, io.StringIO()) == ""


def test_progress__on_a_terminal__is_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, 0.0, Terminal())
    assert "100%" in text
    assert "Import: 40 %\n" not in text
