"""Which variants this process has found stored for good: who asks again is answered without the database.

Such a variant changes only where its user is erased, is forced, or an experiment is written otherwise. Whoever commits
that pokes the host's signal, upon which every process of the host forgets all that it knows. Other hosts do not hear of
erasures: nothing is remembered for longer than a minute.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.db import connection

from config import signal_file
from experiments.exposures.recording import find_stored
from experiments.exposures.storage import Stored
from experiments.models.locks import ExposureKey

MOST = 50_000
"""Users in one page, of which there are two at a time."""
_SECONDS = 20.0
"""A page is written for so long at most, and read for so long after; a late reader may turn it as much later."""


@dataclass(frozen=True, slots=True)
class _Page:
    """What was found since a signal, and on the page before. Threads share it, and may turn it at any moment."""

    signal: int
    until: float
    found: dict[ExposureKey, str] = field(default_factory=dict)
    before: Mapping[ExposureKey, str] = field(default_factory=dict)


class Memory:
    """Variants by experiment and user. What was read under one signal is not told under another."""

    def __init__(self) -> None:
        self._page = _Page(signal=0, until=0)

    def recall(self, users: Sequence[ExposureKey]) -> dict[ExposureKey, Stored]:
        """The variants of those of the users who have one, whoever said so."""
        signal = signal_file.read()  # first: what is read afterwards is at least as new
        page = self._turned(signal)
        known = {}
        for whose in users:
            variant = page.found.get(whose) or page.before.get(whose)
            if variant is not None:
                known[whose] = Stored(variant, stands=True)
        if len(known) < len(users):
            found = find_stored([whose for whose in users if whose not in known])
            known |= found
            self._keep(found, signal)
        return known

    def _keep(self, found: Mapping[ExposureKey, Stored], signal: int) -> None:
        page = self._page
        if page.signal == signal and not connection.in_atomic_block:  # what is not committed may never have been
            page.found.update((whose, stored.variant) for whose, stored in found.items() if stored.stands)

    def _turned(self, signal: int) -> _Page:
        page, now = self._page, time.monotonic()
        if page.signal == signal and now < page.until and len(page.found) < MOST:
            return page
        is_recent = page.signal == signal and now < page.until + _SECONDS
        self._page = page = _Page(signal, now + _SECONDS, before=page.found if is_recent else {})
        return page


memory = Memory()
