"""Reads that may use a standby of the database, and never see less than the primary had when they began.

Such a read first asks the primary for the end of its write-ahead log. The standby is used only once it has replayed the
log up to there. In all other cases the primary is read, also if the standby fails in the middle of a read.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from django.db import DEFAULT_DB_ALIAS, Error, connections, transaction
from django.db.models import Model

from config.database.outages import first_line
from config.monitoring import metrics

logger = logging.getLogger(__name__)

PRIMARY, REPLICA = DEFAULT_DB_ALIAS, "replica"

_SECONDS_TO_CATCH_UP = 0.25
"""A little more than PostgreSQL's `wal_writer_delay`, after which it sends what no commit has sent."""
_SECONDS_BETWEEN_POLLS = 0.005
_SECONDS_BETWEEN_WAITS = 1.0
"""After one in vain, so that a replica that lags for long makes few reads wait."""
_SECONDS_TO_ANSWER = 1.0
_SECONDS_BETWEEN_TRIES = 2.0

# The end of what is inserted into the log, not of what is flushed: with `synchronous_commit = off`, a transaction is
# acknowledged, and others see it, before it is flushed. Citus has rows on other servers, which this log does not cover.
_ASK_PRIMARY = """
    SELECT (SELECT system_identifier FROM pg_control_system()),
        CASE WHEN NOT pg_is_in_recovery() THEN pg_walfile_name(pg_current_wal_insert_lsn()) END,
        CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_insert_lsn() - '0/0'::pg_lsn END,
        current_setting('wal_block_size')::bigint, pg_size_bytes(current_setting('wal_segment_size')),
        to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL
"""
_ASK_REPLICA = """
    SELECT (SELECT system_identifier FROM pg_control_system()),
        greatest((SELECT timeline_id FROM pg_control_checkpoint()),
            (SELECT min_recovery_end_timeline FROM pg_control_recovery())),
        CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() - '0/0'::pg_lsn END
"""
_SHORT_HEADER, _LONG_HEADER = 24, 40
"""Bytes with which a page of the log begins, and with which the first page of a file begins."""

Result = TypeVar("Result")


class Reason(StrEnum):
    """Why a read uses the replica, or why it uses the primary."""

    CURRENT = "current"
    BEHIND = "behind"
    AWAY = "away"
    FAILED = "failed"
    """The replica ended a statement, for example because it conflicted with what was replayed."""
    OTHER_DATABASE = "other_database"
    """It is no standby, or it follows another server or another timeline, or the primary has further servers."""


@dataclass(frozen=True, slots=True)
class PrimaryLog:
    """How far the log of the primary goes. `timeline` is None if it is no primary, or has data on other servers."""

    system: int
    timeline: int | None
    end: int


@dataclass(frozen=True, slots=True)
class ReplicaLog:
    """How far a replica has replayed a log. `replayed` is None if it is no standby."""

    system: int
    timeline: int
    replayed: int | None


def compare_logs(primary: PrimaryLog, replica: ReplicaLog) -> Reason:
    """Return whether the replica has replayed all of the primary's log, or why not.

    A timeline begins when a standby takes over. A replica that still follows the former primary may have replayed more
    bytes than the new one has written, and yet lack what the new one has.
    """
    if replica.replayed is None or (replica.system, replica.timeline) != (primary.system, primary.timeline):
        return Reason.OTHER_DATABASE
    return Reason.CURRENT if replica.replayed >= primary.end else Reason.BEHIND


def end_of_records(inserted: int, page: int, file: int) -> int:
    """Return where the last record ends. PostgreSQL counts the header of the next page if the record ends a page."""
    header = _LONG_HEADER if inserted % file < page else _SHORT_HEADER
    return inserted - header if inserted % page == header else inserted


class _Thread(threading.local):
    models: Sequence[type[Model]] = ()
    """Those that this thread reads from the replica now."""


class _Process:
    """What this process knows of the replica."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.is_away = False
        self.waits_from = 0.0
        self.has_warned = False


_thread = _Thread()
_process = _Process()


class Router:
    """Sends a read to the replica within a block that has chosen it. Everything else goes to the primary."""

    def db_for_read(self, model: type[Model], **_: Any) -> str | None:
        return REPLICA if model in _thread.models else None

    def allow_migrate(self, db: str, _label: str, **_: Any) -> bool | None:
        return False if db == REPLICA else None


def has_replica() -> bool:
    return REPLICA in connections.settings


class ReplicaReads:
    """Reads that belong together, such as the pages of a file. Each sees all that the primary had before the first.

    Only queries of the `models` use the replica.
    """

    def __init__(self, *models: type[Model]) -> None:
        self._models = models
        self._primary: PrimaryLog | None = None
        self._needs_primary = not has_replica()

    def read(self, function: Callable[[], Result]) -> Result:
        """Return what a function reads. It may be called twice, because the replica may fail in the middle."""
        if self._needs_primary or _thread.models or connections[PRIMARY].in_atomic_block:
            return function()
        if _process.is_away:
            return self._read_primary(function, Reason.AWAY)
        try:
            self._primary = self._primary or read_primary_log()
        except Error as error:
            _warn("The primary does not say how far its log goes, so the replica is not read", error)
            return self._read_primary(function, Reason.FAILED)
        try:
            # Behind a pool, only a transaction stays with one server. Each of its statements sees what was replayed
            # before that statement began, so the check has to be a statement of its own.
            with transaction.atomic(REPLICA), _never_reopened():
                reason = _check(self._primary)
                if reason is Reason.CURRENT:
                    result = self._read_replica(function)
        except Error as error:
            reason = _handle_failure(error)
        if reason is not Reason.CURRENT:
            return self._read_primary(function, reason)
        metrics.event_reads.add(1, REPLICA, reason)
        return result

    def _read_replica(self, function: Callable[[], Result]) -> Result:
        _thread.models = self._models
        try:
            return function()
        finally:
            _thread.models = ()

    def _read_primary(self, function: Callable[[], Result], reason: Reason) -> Result:
        self._needs_primary = True  # also later, because the pages of a file that follow should not wait again
        metrics.event_reads.add(1, "primary", reason)
        return function()


def read_primary_log() -> PrimaryLog:
    """Return how far the log of the primary goes now."""
    with connections[PRIMARY].cursor() as cursor:
        cursor.execute(_ASK_PRIMARY)
        system, name, inserted, page, file, has_other_servers = cursor.fetchone()
    if name is None or has_other_servers:
        return PrimaryLog(system, None, 0)
    return PrimaryLog(system, int(name[:8], 16), end_of_records(int(inserted), page, file))


def read_replica_log() -> ReplicaLog:
    """Return how far the replica has replayed the log."""
    with connections[REPLICA].cursor() as cursor:
        cursor.execute(_ASK_REPLICA)
        system, timeline, replayed = cursor.fetchone()
    return ReplicaLog(system, timeline, None if replayed is None else int(replayed))


def _check(primary: PrimaryLog) -> Reason:
    """Give the replica a moment to catch up, unless it has failed to within the last second."""
    now = time.monotonic()
    deadline = now + (_SECONDS_TO_CATCH_UP if now >= _process.waits_from else 0)
    with _answering_soon():
        while (reason := compare_logs(primary, read_replica_log())) is Reason.BEHIND and time.monotonic() < deadline:
            time.sleep(_SECONDS_BETWEEN_POLLS)
    if reason is Reason.BEHIND and now >= _process.waits_from:
        _process.waits_from = time.monotonic() + _SECONDS_BETWEEN_WAITS
    if reason is Reason.OTHER_DATABASE:
        _warn("REPLICA_URL is no standby of this primary, so it is not read; `manage.py doctor` says more")
    elif reason is Reason.CURRENT:
        _process.has_warned = False
    return reason


@contextmanager
def _answering_soon() -> Iterator[None]:
    """Give up a replica that hangs, before all threads of the process wait for it."""
    opened: Any = connections[REPLICA].connection
    opened.max_wait = _SECONDS_TO_ANSWER
    try:
        yield
    finally:
        opened.max_wait = None


@contextmanager
def _never_reopened() -> Iterator[None]:
    """Mark a connection that breaks as closed. Django would open another one at the end of the transaction."""
    wrapper: Any = connections[REPLICA]
    try:
        yield
    except Error:
        if wrapper.connection.closed:
            wrapper.close()
        raise


def _warn(message: str, error: Error | None = None) -> None:
    """Log it once, until the replica is read again."""
    if not _process.has_warned:
        _process.has_warned = True
        logger.warning(message if error is None else f"{message}: {first_line(error)}")


def _handle_failure(error: Error) -> Reason:
    """Return the reason. If the connection is broken, a thread tries again until the replica answers."""
    if connections[REPLICA].connection is not None:
        return Reason.FAILED
    with _process.lock:
        if not _process.is_away:
            _process.is_away = True
            words = "The replica does not answer, so lists and exports are read from the primary"
            logger.warning("%s: %s", words, first_line(error))
            threading.Thread(target=_try_until_it_answers, name="replica", daemon=True).start()
    return Reason.AWAY


def _try_until_it_answers() -> None:
    """Try in a thread of its own, so that no request waits for a replica that is away."""
    while _process.is_away:
        time.sleep(_SECONDS_BETWEEN_TRIES)
        with suppress(Error):
            read_replica_log()
            logger.warning("The replica answers again")
            _process.is_away = False
        connections[REPLICA].close()
