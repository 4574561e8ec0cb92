"""A cache of final variants in this process, so that repeated questions need no database.

A final variant changes only if its user is erased or forced, or if the experiment changes. The transaction that does so
changes the host's signal file, and every process of the host then drops its cache. Other hosts do not hear of erasures,
so an entry lives for a minute at most. During an outage of the database, no entry is dropped.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.db import connection

from config import snapshot
from config.snapshot import signal_file
from experiments.exposures.recording import find_variants
from experiments.exposures.storage import StoredVariant
from experiments.models.locks import ExposureKey

MAX_ENTRIES = 50_000
"""The maximum number of entries of a page. Two pages exist at a time."""
_SECONDS = 20.0
"""A page takes entries for this long, and is read for as long again. A late reader may extend that once more."""


@dataclass(frozen=True, slots=True)
class _Page:
    """The entries since a signal, and the entries of the page before. Threads share pages and may replace them at any
    time.
    """

    signal: int
    until: float
    entries: dict[ExposureKey, str] = field(default_factory=dict)
    before: Mapping[ExposureKey, str] = field(default_factory=dict)


class AssignmentCache:
    """Final variants by experiment and user. An entry that was read under one signal is not used under another."""

    def __init__(self) -> None:
        self._page = _Page(signal=0, until=0)

    def get(self, users: Sequence[ExposureKey]) -> dict[ExposureKey, StoredVariant]:
        """Return the variants of the users who have one, from the cache or the database."""
        signal = signal_file.read()  # first: what is read afterwards is at least as new
        page = self._turned(signal)
        variants = {}
        for key in users:
            variant = page.entries.get(key) or page.before.get(key)
            if variant is not None:
                variants[key] = StoredVariant(variant, is_final=True)
        if len(variants) < len(users):
            stored = find_variants([key for key in users if key not in variants])
            variants |= stored
            self._add(stored, signal)
        return variants

    def remembered(self, user: ExposureKey) -> str | None:
        """Return the final variant of a user from the cache alone; None if it is not there."""
        page = self._turned(signal_file.read())
        return page.entries.get(user) or page.before.get(user)

    def _add(self, variants: Mapping[ExposureKey, StoredVariant], signal: int) -> None:
        page = self._page
        if page.signal == signal and not connection.in_atomic_block:  # an open transaction may be rolled back
            page.entries.update((key, stored.variant) for key, stored in variants.items() if stored.is_final)

    def _turned(self, signal: int) -> _Page:
        page, now = self._page, time.monotonic()
        if snapshot.staleness() is not None:
            return page
        if page.signal == signal and now < page.until and len(page.entries) < MAX_ENTRIES:
            return page
        is_recent = page.signal == signal and now < page.until + _SECONDS
        self._page = page = _Page(signal, now + _SECONDS, before=page.entries if is_recent else {})
        return page


assignment_cache = AssignmentCache()
