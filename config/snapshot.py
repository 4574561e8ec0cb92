"""The compiled configuration of this process, at one revision, so that an evaluation reads no
database.

Each app registers a `Table`. `refresh()` compares one shared integer and, when it has changed,
applies the changes since.
"""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from django.db import Error

from config import signal_file
from config.models import Change

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_VAIN_READS = 1.0

State = TypeVar("State")


class Table(Generic[State]):
    """One app's compiled configuration, which depends on changes of some kinds.

    `state` is immutable by convention: `apply` returns a new one. It gets all changes of these kinds since the state
    at once, in order, so that it need not copy the state for each of them.
    """

    def __init__(
        self, *kinds: str, load: Callable[[], State], apply: Callable[[State, Sequence[Change]], State]
    ) -> None:
        self.kinds = frozenset(kinds)
        self._load = load
        self._apply = apply
        self._state: State | None = None
        _snapshot.tables.append(self)

    @property
    def state(self) -> State:
        if self._state is None:
            refresh()
        if self._state is None:  # this table's module was imported after the others were loaded
            self.load()
        assert self._state is not None  # noqa: S101 (load sets it or raises)
        return self._state

    def load(self) -> None:
        self._state = self._load()

    def apply(self, changes: Sequence[Change]) -> None:
        assert self._state is not None  # noqa: S101 (a snapshot with a revision has loaded every table)
        if own := [change for change in changes if change.kind in self.kinds]:
            self._state = self._apply(self._state, own)

    def reset(self) -> None:
        self._state = None


class _Snapshot:
    def __init__(self) -> None:
        self.tables: list[Table[Any]] = []
        self.revision: int | None = None
        self.seen: int | None = None
        self.vain_until = float("-inf")
        self.lock = threading.Lock()

    def catch_up(self) -> None:
        if self.revision is None:
            # The revision is read first. A change that lands between the two reads is then applied
            # twice, which is harmless because its document is the whole object.
            revision = Change.objects.latest_revision()
            with _without_garbage_collection():
                for table in self.tables:
                    table.load()
            self.revision = revision
        if changes := list(Change.objects.since(self.revision)):
            for table in self.tables:
                table.apply(changes)
            self.revision = changes[-1].revision


_snapshot = _Snapshot()


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Pause the collector. Nothing that is loaded is garbage, and searching would take longer than
    loading.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def refresh() -> None:
    """Apply everything that was committed on this host before this call. Never call it inside a
    transaction.
    """
    if signal_file.read() == _snapshot.seen:
        return
    with _snapshot.lock:
        signal = signal_file.read()
        if signal != _snapshot.seen:
            _snapshot.catch_up()
            _snapshot.seen = signal


def catch_up_to(target: int) -> None:
    """Catch up to a revision that a client names, which it may know from another host.

    The revision may be invented, or older than a restore of the database. Such requests cause one
    read a second at most, and never fail.
    """
    if target <= revision() or time.monotonic() < _snapshot.vain_until:
        return
    with _snapshot.lock:
        if target <= revision() or time.monotonic() < _snapshot.vain_until:
            return
        try:
            _snapshot.catch_up()
        except Error as error:
            logger.warning("Cannot look for a change that a client has named: %s", error)
        if target > revision():
            _snapshot.vain_until = time.monotonic() + SECONDS_BETWEEN_VAIN_READS


def revision() -> int:
    """Return the revision of the tables."""
    return _snapshot.revision or 0


def reset() -> None:
    """Drop everything, so that the next refresh loads it from the database."""
    with _snapshot.lock:
        _snapshot.revision = _snapshot.seen = None
        _snapshot.vain_until = float("-inf")
        for table in _snapshot.tables:
            table.reset()
