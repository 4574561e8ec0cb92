"""The progress of a long command: a bar on a terminal, or else a line every few seconds on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.core.management.base import OutputWrapper
from tqdm import tqdm

SECONDS_BETWEEN_LINES = 5.0
"""A log of an hour has 720 lines at most, and a command of a moment has none."""


@contextmanager
def show_progress(errors: OutputWrapper, total: int, label: str, unit: str) -> Iterator[Callable[[int], object]]:
    """Yield a function to report each step, in units of `total`. With the unit `B`, numbers have prefixes such as k."""
    if not sys.stderr.isatty():
        yield _Lines(errors, total, label).add
        return
    with tqdm(total=total, desc=label, unit=unit, unit_scale=unit == "B") as bar:
        yield bar.update


class _Lines:
    """Writes a line such as `Import: 40 %` whenever some seconds have passed."""

    def __init__(self, errors: OutputWrapper, total: int, label: str) -> None:
        self._errors, self._total, self._label = errors, total, label
        self._done, self._written_at = 0, time.monotonic()

    def add(self, step: int) -> None:
        self._done += step
        now = time.monotonic()
        if now - self._written_at >= SECONDS_BETWEEN_LINES:
            self._written_at = now
            self._errors.write(f"{self._label}: {100 * self._done // max(self._total, 1)} %")
