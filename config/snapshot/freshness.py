"""How new the snapshot of this process is. Requests wait until it is the newest, but never for long.

In a worker, a thread called the follower applies changes. Requests wait for it, unless the database does not answer it
or it has thousands of changes to apply. In other processes, such as commands, the thread that asks applies the changes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from django.db import Error

from config.errors import DomainError, ErrorCode
from config.snapshot import signal_file, state_file
from config.snapshot.tables import Lateness, current, revision

logger = logging.getLogger(__name__)

MAX_WAIT = 0.5
"""The number of seconds for which a request waits for the follower. Most changes take some milliseconds."""
MAX_WAIT_FOR_KEYS = 5.0
"""The same for a request that writes while a large change is applied and another change was made."""
SECONDS_BETWEEN_TRIES = 1.0
SECONDS_UNTIL_STALE = 3.0
"""A follower looks at the log every second. If it has not done so for this long, the database hangs."""


class News:
    """How the follower and the requests that wait for it talk to each other."""

    def __init__(self, wake_follower: Callable[[], None]) -> None:
        self._wake_follower = wake_follower
        self._changed = threading.Condition()
        self._asked = self._answered = 0

    def wait(self) -> None:
        """Wait until everything that was committed before this call is applied, but at most MAX_WAIT seconds."""
        with self._changed:
            self._asked += 1
            number = self._asked
            self._wake_follower()
            if not self._changed.wait_for(lambda: self._answered >= number or _is_late(), MAX_WAIT):
                current.lateness = Lateness.CUT_OFF

    def begin(self) -> int:
        """Return a number for `succeed`. The follower begins to look, for all requests that have asked so far."""
        with self._changed:
            return self._asked

    def succeed(self, number: int) -> None:
        """Say that the state is the newest."""
        self._tell(Lateness.NONE, number)

    def fail(self, lateness: Lateness) -> None:
        """Say why the state cannot be brought up to date."""
        self._tell(lateness)

    def announce_large_change(self) -> None:
        """Say that it will take a while until all changes are applied."""
        self._tell(Lateness.LARGE_CHANGE)

    def _tell(self, lateness: Lateness, answered: int = 0) -> None:
        with self._changed:
            self._answered = max(self._answered, answered)
            current.lateness = lateness
            self._changed.notify_all()


class _Shared:
    """The follower of this process, if it has one, and until when it is useless to ask the database again."""

    def __init__(self) -> None:
        self.news: News | None = None
        self.forget()

    def forget(self) -> None:
        self.vain_until = float("-inf")
        self.next_try = float("-inf")


_shared = _Shared()


def wait_for(news: News) -> None:
    """Leave it to a follower to apply changes from now on."""
    _shared.news, current.is_followed = news, True


def refresh() -> None:
    """Apply everything that was committed on this host before this call.

    If the database does not answer, or many changes were just made, the state stays as it is, and `staleness` says so.
    Raises only if there is no state yet. Never call it inside a transaction.
    """
    if signal_file.read() == current.seen:
        return
    if _shared.news is not None:
        _shared.news.wait()
    else:
        _catch_up_here()


def _catch_up_here() -> None:
    with current.lock:
        if signal_file.read() == current.seen or time.monotonic() < _shared.next_try:
            return
        try:
            current.catch_up()
            current.lateness = Lateness.NONE
        except Error as error:
            if not is_loaded() and not state_file.restore():
                raise
            if not _is_late():
                logger.warning("Cannot read new configuration, and go on with the last known one: %s", error)
            current.lateness = Lateness.CUT_OFF
            _shared.next_try = time.monotonic() + SECONDS_BETWEEN_TRIES


def _is_late() -> bool:
    return current.lateness is not Lateness.NONE


def is_loaded() -> bool:
    """Return whether there is a state, of the database or of the file."""
    return current.revision is not None


def lateness() -> Lateness:
    """Return why the state may not be the newest."""
    known = current.lateness
    if known is Lateness.NONE and current.is_followed and _age() > SECONDS_UNTIL_STALE:
        return Lateness.CUT_OFF
    return known


def staleness() -> int | None:
    """Return how many seconds ago the state was last known to be the newest, or None if it may still be."""
    if lateness() is Lateness.NONE or not is_loaded():  # no answer comes from a state that there is not
        return None
    return max(0, int(_age()))


def _age() -> float:
    return time.monotonic() - current.known_at


def require_current_keys() -> None:
    """Raise DomainError `unavailable` if a key may have been revoked on this host and this process may not know it.

    Call it after `refresh`, before a request reads or writes the database.
    """
    if not _is_late():
        return
    deadline = time.monotonic() + MAX_WAIT_FOR_KEYS
    while signal_file.read() != current.seen_first:
        if current.lateness is not Lateness.LARGE_CHANGE or time.monotonic() > deadline:
            message = "This server cannot read its newest configuration now; send the same request again later."
            raise DomainError(ErrorCode.UNAVAILABLE, message)
        time.sleep(0.01)


def catch_up_to(target: int) -> None:
    """Catch up to a revision that a client names, which it may have seen on another host.

    The revision may be invented, or from before a backup was restored. Such requests cause at most one read a second,
    and never fail.
    """
    if target <= revision() or time.monotonic() < _shared.vain_until:
        return
    if _shared.news is not None:
        _shared.news.wait()
    else:
        _look_here(target)
    if target > revision():
        _shared.vain_until = time.monotonic() + SECONDS_BETWEEN_TRIES


def _look_here(target: int) -> None:
    with current.lock:
        if target <= revision() or time.monotonic() < _shared.vain_until:
            return
        try:
            current.catch_up()
        except Error as error:
            logger.warning("Cannot look for a change that a client has named: %s", error)


def look() -> None:
    """Apply what other hosts have committed. It is for threads that call it often, in a process without a follower."""
    with current.lock:
        if not current.is_newest():
            current.catch_up()


def reset() -> None:
    """Drop everything, so that the next refresh loads it from the database."""
    with current.lock:
        current.forget()
        _shared.forget()
        _shared.news, current.is_followed = None, False
