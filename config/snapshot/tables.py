"""Tables: what each app compiles from its configuration, all at one revision, and how they follow the change log."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager, nullcontext
from datetime import datetime
from enum import Enum, auto
from typing import Any, Generic, TypeVar

from django.conf import settings

from config.database.file_locks import file_lock
from config.errors import DomainError, ErrorCode
from config.models import Change
from config.snapshot import signal_file

MAX_SECONDS_FOR_OTHERS = 15.0
"""How long a large change waits for those of other processes. One of them may have been stopped."""
_SECONDS_BETWEEN_TRIES = 0.02
MANY = 200
"""No request waits until more changes than this are applied."""

_CHANGES_AT_ONCE = 100
_MAX_SECONDS_BUSY, _PAUSE = 0.002, 0.0005
"""The seconds that a follower computes without a pause, and the seconds of a pause."""

State = TypeVar("State", bound=Sized)


class Table(Generic[State]):
    """One app's compiled configuration, which depends on changes of some kinds.

    `state` is immutable by convention: `apply` returns a new one. It gets all new changes of these kinds together and
    in order, so that it copies the state only once. A table that `goes_first` is small and applied before the others,
    because requests that write wait only for such tables. `dump` returns a state as entries of JSON for `restore`.
    """

    def __init__(
        self,
        *kinds: str,
        load: Callable[[], State],
        apply: Callable[[State, Sequence[Change]], State],
        dump: Callable[[State], Iterable[Any]],
        restore: Callable[[Sequence[Any]], State],
        goes_first: bool = False,
    ) -> None:
        self.kinds = frozenset(kinds)
        self.name = " ".join(sorted(kinds))
        self.goes_first = goes_first
        self.read = load
        self.dump = dump
        self.restore = restore
        self._apply = apply
        self._state: State | None = None
        current.tables.append(self)

    @property
    def state(self) -> State:
        if self._state is None:
            current.load_missing(self)
        assert self._state is not None  # noqa: S101 (otherwise load_missing raises)
        return self._state

    @property
    def is_loaded(self) -> bool:
        return self._state is not None

    def load(self) -> None:
        self._state = self.read()

    def put(self, state: State | None) -> None:
        self._state = state

    def apply(self, changes: Sequence[Change]) -> None:
        if own := [change for change in changes if change.kind in self.kinds]:
            self._state = self._apply(self.state, own)


class Lateness(Enum):
    """Why the state may be older than the change log."""

    NONE = auto()
    LARGE_CHANGE = auto()
    """So many changes were made that nobody waits until they are applied."""
    CUT_OFF = auto()
    """The database does not answer."""
    OLD_SCHEMA = auto()
    """The database lacks migrations of this code."""


States = Sequence[tuple[Table[Any], Any]]
"""States of tables."""


class Snapshot:
    """All tables at one revision. One thread at a time makes them newer."""

    def __init__(self) -> None:
        self.tables: list[Table[Any]] = []
        self.lock = threading.RLock()
        self.is_followed = False
        """Whether a thread of this process makes the state newer, so that no other thread need do so."""
        self.forget()

    def forget(self) -> None:
        self._newest: tuple[int, datetime | None] | None = None
        self.must_load = True
        """Whether everything must be loaded from the database, because nothing is, or not from there."""
        self.seen: int | None = None
        """The signal up to which all tables are applied."""
        self.seen_first: int | None = None
        """The signal up to which the tables are applied that go first."""
        self.known_at = float("-inf")
        """When the state was last known to be the newest, by the monotonic clock."""
        self.lateness = Lateness.NONE
        for table in self.tables:
            table.put(None)

    @property
    def newest(self) -> tuple[int, datetime | None]:
        """The revision of all tables, and when the change was made that has it."""
        return self._newest or (0, None)

    @property
    def revision(self) -> int | None:
        """The revision of all tables, or None if they are not loaded."""
        return None if self._newest is None else self._newest[0]

    def load_missing(self, table: Table[Any]) -> None:
        """Load a table that is used before the others. Raises DomainError `unavailable` if that is up to a follower."""
        if self.is_followed:
            message = "This server has not read its configuration yet; send the same request again later."
            raise DomainError(ErrorCode.UNAVAILABLE, message)
        with self.lock:
            if self.revision is None:
                self.catch_up()
        if not table.is_loaded:  # its module was imported after the others were loaded
            table.load()

    def is_newest(self) -> bool:
        """Return whether the change log has nothing newer than this state.

        If the log lacks the newest change of this state, the database was replaced, for example by a backup. Then
        everything must be loaded again.
        """
        now, newest = time.monotonic(), _newest_change()
        if newest == self._newest and not self.must_load:
            self.known_at = now
            return True
        if self._newest is None or newest[0] <= self._newest[0]:
            self.must_load = True
        return False

    def catch_up(self, on_large_change: Callable[[], None] = lambda: None) -> None:
        """Apply everything that was committed before this call."""
        # The signal is read first. A change that lands between the two reads is then looked for once more.
        signal, now = signal_file.read(), time.monotonic()
        if self.must_load:
            self._load(on_large_change)
        else:
            self._apply(on_large_change)
        self.seen = self.seen_first = signal
        self.known_at = now

    def _load(self, on_large_change: Callable[[], None]) -> None:
        # The newest change is read first. One that lands after that is applied twice, which is
        # harmless because its document is the whole object.
        newest = _newest_change()
        if self.revision is None:
            with without_garbage_collection():
                states = [(table, table.read()) for table in self.tables]
        else:
            with self._large_change(on_large_change):
                states = [(table, table.read()) for table in self.tables if not table.goes_first]
        with self.lock:
            self._put(states)
            self._newest, self.must_load = newest, False

    @contextmanager
    def _large_change(self, announce: Callable[[], None]) -> Iterator[None]:
        """Keep the tables that go first up to date in this block, while the others are loaded or changed."""
        announce()
        self.seen_first = None
        self._load_first()
        _pace.between = self._load_first
        lock = one_process_at_a_time(while_waiting=self._load_first) if _pace.yields_cpu else nullcontext()
        try:
            with lock, without_garbage_collection():
                yield
        finally:
            _pace.between = _do_nothing

    def _load_first(self) -> None:
        signal = signal_file.read()
        if signal != self.seen_first:
            for table in self.tables:
                if table.goes_first:
                    table.load()
            self.seen_first = signal

    def _put(self, states: States) -> None:
        for table, state in states:
            table.put(state)

    def adopt(self, newest: tuple[int, datetime | None], states: States, known_at: float) -> bool:
        """Use these states unless tables are loaded already, and return whether they are used.

        `known_at` is when they were last known to be the newest. Everything is loaded again once the database answers.
        """
        with self.lock:
            if self._newest is not None:
                return False
            self._put(states)
            self._newest, self.must_load = newest, True
            self.known_at, self.lateness = known_at, Lateness.CUT_OFF
            return True

    def _apply(self, on_large_change: Callable[[], None]) -> None:
        assert self._newest is not None  # noqa: S101 (all tables are loaded)
        revision, changed_at = self._newest
        changes: list[Any] = list(Change.objects.since(revision).with_time_of(revision)[: MANY + 1])
        if (
            changes and changes[0].known_at != changed_at
        ):  # they continue another log, which has replaced that of this state
            self._load(on_large_change)
        elif len(changes) > MANY:
            self._apply_many(on_large_change)
        elif changes:
            for table in self.tables:
                table.apply(changes)
            self._newest = changes[-1].revision, changes[-1].at

    def _apply_many(self, on_large_change: Callable[[], None]) -> None:
        """Apply many changes, or load everything again if that is less work."""
        assert self._newest is not None  # noqa: S101 (all tables are loaded)
        newest = _newest_change()
        others = [table for table in self.tables if not table.goes_first]
        if newest[0] - self._newest[0] > sum(len(table.state) for table in others):
            self._load(on_large_change)
            return
        kinds = {kind for table in others for kind in table.kinds}
        changes = Change.objects.since(self._newest[0]).filter(revision__lte=newest[0], kind__in=kinds)
        with self._large_change(on_large_change):
            own = []
            for change in changes.iterator(_CHANGES_AT_ONCE):
                own.append(change)
                yield_cpu()
            for table in others:
                table.apply(own)
        self._newest = newest


def _newest_change() -> tuple[int, datetime | None]:
    return Change.objects.order_by("-revision").values_list("revision", "at").first() or (0, None)


current = Snapshot()


def revision() -> int:
    """Return the revision of the tables."""
    return current.revision or 0


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Pause the garbage collector. What is loaded is not garbage, and a search would take longer than loading."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
        if _pace.yields_cpu:
            gc.freeze()  # the first collection would otherwise search all that is new, and stop every request
    finally:
        if was_enabled:
            gc.enable()


def _do_nothing() -> None:
    pass


class _Pace(threading.local):
    pauses_at = float("inf")
    between: Callable[[], None] = staticmethod(_do_nothing)
    """What is done in each pause."""

    @property
    def yields_cpu(self) -> bool:
        return self.pauses_at < float("inf")


_pace = _Pace()


def start_yielding_cpu() -> None:
    """Let `yield_cpu` pause this thread every few milliseconds from now on, so that other threads run."""
    _pace.pauses_at = 0.0


def yield_cpu() -> None:
    """Pause if this thread has called `start_yielding_cpu` and computed for long. Call it in each step of long work."""
    if time.monotonic() >= _pace.pauses_at:
        time.sleep(_PAUSE)
        _pace.between()
        _pace.pauses_at = time.monotonic() + _MAX_SECONDS_BUSY


@contextmanager
def one_process_at_a_time(while_waiting: Callable[[], None]) -> Iterator[None]:
    """Let one process of this host at a time apply a large change, so that requests still find a processor.

    A process that ends releases the lock.
    """
    with file_lock(settings.RUNTIME_DIR / "turn.lock", is_needed=False) as try_to_lock:
        deadline = time.monotonic() + MAX_SECONDS_FOR_OTHERS
        while not try_to_lock() and time.monotonic() < deadline:
            while_waiting()
            time.sleep(_SECONDS_BETWEEN_TRIES)
        yield
