"""Running the commands that import a file."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import time_machine
from django.core.management import call_command

from tests.conftest import NOON


def run(command: str, *arguments: str, at: Any = NOON) -> tuple[str, str]:
    """Run a command, and return its stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    with time_machine.travel(at, tick=False):
        call_command(command, *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def write(folder: Path, name: str, *lines: str) -> str:
    """A file of these lines, and where it lies."""
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


class Stdin:
    """The data that is piped into a command."""

    def __init__(self, content: bytes) -> None:
        self.buffer = io.BytesIO(content)


def pipe(monkeypatch: Any, content: str | bytes) -> None:
    monkeypatch.setattr(sys, "stdin", Stdin(content.encode() if isinstance(content, str) else content))
