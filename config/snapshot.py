"""What this process has compiled from configuration, at one revision, so that answering a request reads no database.

Each app registers a `Table`. `refresh()` compares one shared integer and, when it moved, applies the changes since.
"""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from django.db import Error

from config import signal_file
from config.models import Change

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_VAIN_LOOKS = 1.0

State = TypeVar("State")


class Table(Generic[State]):
    """One app's compiled configuration, which changes of some kinds bear on.

    `state` is immutable by convention: applying a change makes a new one.
    """

    def __init__(self, *kinds: str, load: Callable[[], State], apply: Callable[[State, Change], State]) -> None:
        self.kinds = frozenset(kinds)
        self._load = load
        self._apply = apply
        self._state: State | None = None
        _snapshot.tables.append(self)

    @property
    def state(self) -> State:
        if self._state is None:
            refresh()
        if self._state is None:  # this table's module was imported after the others had been loaded
            self.load()
        assert self._state is not None  # noqa: S101 (load sets it or raises)
        return self._state

    def load(self) -> None:
        self._state = self._load()

    def apply(self, change: Change) -> None:
        assert self._state is not None  # noqa: S101 (a snapshot with a revision has loaded every table)
        self._state = self._apply(self._state, change)

    def forget(self) -> None:
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
            # The revision first: a change that lands between the two reads is then applied once more, which does no
            # harm, for its document is the whole object.
            revision = Change.objects.latest_revision()
            with _without_garbage_collection():
                for table in self.tables:
                    table.load()
            self.revision = revision
        for change in Change.objects.since(self.revision):
            for table in self.tables:
                if change.kind in table.kinds:
                    table.apply(change)
            self.revision = change.revision


_snapshot = _Snapshot()


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Nothing of what is loaded is garbage: looking for some would take longer than loading it."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def refresh() -> None:
    """Catch up with what was committed on this host before this call. Never call it inside a transaction."""
    if signal_file.read() == _snapshot.seen:
        return
    with _snapshot.lock:
        signal = signal_file.read()
        if signal != _snapshot.seen:
            _snapshot.catch_up()
            _snapshot.seen = signal


def follow(heard: int) -> None:
    """Catch up with a revision that somebody has heard of: another host may have told them first.

    They may have made it up, too, or heard of it before the database was restored: who does so over and over costs no
    more than one look a second, and nothing fails because of it.
    """
    if heard <= revision() or time.monotonic() < _snapshot.vain_until:
        return
    with _snapshot.lock:
        if heard <= revision() or time.monotonic() < _snapshot.vain_until:
            return
        try:
            _snapshot.catch_up()
        except Error as error:
            logger.warning("Cannot look for a change that a caller has heard of: %s", error)
        if heard > revision():
            _snapshot.vain_until = time.monotonic() + SECONDS_BETWEEN_VAIN_LOOKS


def revision() -> int:
    """The revision that the tables stand at."""
    return _snapshot.revision or 0


def forget() -> None:
    """Start over: the next refresh loads everything from the database."""
    with _snapshot.lock:
        _snapshot.revision = _snapshot.seen = None
        _snapshot.vain_until = float("-inf")
        for table in _snapshot.tables:
            table.forget()
