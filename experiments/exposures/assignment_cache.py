"""A cache of final variants in this process, so that repeated questions need no database.

A final variant changes only when its user is erased or forced, or the experiment is changed. The transaction that
does so pokes the host's signal file, and every process of the host then forgets its cache. Other hosts do not hear of
erasures, so no entry lives longer than a minute. While the database is away, nothing is forgotten.
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
"""The most entries of a page; there are two pages at a time."""
_SECONDS = 20.0
"""A page is written for this long and read for as long after; a late reader may extend that once more."""


@dataclass(frozen=True, slots=True)
class _Page:
    """The entries since a signal, and those of the page before. Threads share it and may replace it at any moment."""

    signal: int
    until: float
    entries: dict[ExposureKey, str] = field(default_factory=dict)
    before: Mapping[ExposureKey, str] = field(default_factory=dict)


class AssignmentCache:
    """Final variants by experiment and user. An entry read under one signal is not used under another."""

    def __init__(self) -> None:
        self._page = _Page(signal=0, until=0)

    def get(self, users: Sequence[ExposureKey]) -> dict[ExposureKey, StoredVariant]:
        """Return the stored variants of those users who have one, from the cache or else from the database."""
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
        """Return the final variant of a user if it is in the cache, without a look at the database."""
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
