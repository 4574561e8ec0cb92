"""Every lock that a transaction may wait for, in the one order in which transactions take them.

Two transactions that take the same locks in different orders can deadlock. So each lock has a rank, and a transaction
takes locks by ascending rank. With `CHECK_LOCK_ORDER` (the tests set it), any other order raises an error.

Advisory locks have no rank, because nothing waits for them.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import IntEnum
from typing import Any, Literal, TypeVar
from urllib.parse import quote

from django.conf import settings
from django.db import Error, connection, transaction
from django.db.models import Model, QuerySet

from config.database.file_locks import file_lock
from config.database.insertion import array
from config.models import Change, Environment

Row = TypeVar("Row", bound=Model)


class Rank(IntEnum):
    """The locks, in the order in which a transaction takes them. Each is held until the transaction ends."""

    CHANGE_LOG = 1
    """Held by every write of configuration, so that revisions follow the order of commits."""
    ENVIRONMENT = 2
    """Held by erasures, and by writes that turn stored events into exposures."""
    RESULTS = 3
    """Held by writes of the totals and sums of an experiment."""
    EXPERIMENTS = 4
    """Shared by transactions that record exposures, so that no start or stop happens in between."""
    EXPOSURES = 5
    """Shared by transactions that report exposures again, held by those that delete them."""


class WrongLockOrder(RuntimeError):
    """A transaction takes a lock of a lower rank than one that it holds, and could cause a deadlock."""


def lock_change_log() -> None:
    """Wait until no other transaction changes configuration, and make others wait.

    The lock is on the oldest row of the log, which is never deleted. A transaction that waited for the newest row would
    wake up holding a row that is no longer the newest. SQLite has one writer at a time anyway.
    """
    check_order(Rank.CHANGE_LOG)
    Change.objects.select_for_update().order_by("revision").values_list("revision").first()


def lock_environment(environment: Environment) -> None:
    """Wait until no other transaction erases a user of this environment or starts an experiment, and make others wait.

    A start makes exposures of stored events, and an erasure deletes both: side by side, neither would see what the
    other has not committed. Recording new events needs no lock, because this one lets rows refer to the environment.
    """
    check_order(Rank.ENVIRONMENT)
    Environment.objects.select_for_update(no_key=True).values_list("pk").get(pk=environment.pk)


def lock_rows(rank: Rank, rows: QuerySet[Any, Row], *, no_key: bool = False) -> list[Row]:
    """Return the rows, locked for writing. Order them, so that two transactions lock common rows in the same order.

    With `no_key`, others may insert rows that refer to these meanwhile.
    """
    check_order(rank)
    return list(rows.select_for_update(no_key=no_key))


Strength = Literal["KEY SHARE", "SHARE", "NO KEY UPDATE"]


def share_rows(rank: Rank, rows: QuerySet[Any, Any], strength: Strength) -> Sequence[tuple[Any, ...]]:
    """Lock rows until this transaction ends, and return their values. They need `values_list()`.

    KEY SHARE prevents deletion alone, and SHARE every change; others may share the rows. The ORM has neither. NO KEY
    UPDATE is for rows that this transaction changes.
    """
    check_order(rank)
    if connection.vendor != "postgresql":  # SQLite has one writer at a time
        return list(rows)
    statement, parameters = rows.query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(f"{statement} FOR {strength}", parameters)
        locked: list[tuple[Any, ...]] = cursor.fetchall()
    return locked


def lock_each(
    rank: Rank,
    model: type[Model],
    within: tuple[str, Any],
    key: str,
    columns: Sequence[str],
    expected: Mapping[str, tuple[str, str]],
    strength: Strength,
    *,
    same: str,
    no_later: str,
    flag: str,
) -> list[tuple[Any, ...]]:
    """Lock rows of a table of PostgreSQL that are found one by one, in the order of their keys.

    `within` is a column and the value that all rows have there. `expected` has, by the value of the column `key`, what
    the column `same` should have, and the time in ISO 8601 that the column `no_later` should not exceed. For each key
    whose row is not as expected, the answer has the key, the `columns` and whether the column `flag` is set. Keys
    without a row have NULLs there.

    Without statistics, or with old ones, PostgreSQL would rather read all rows than look each one up. OFFSET 0 leaves
    it no choice, and has every row locked before any is left out.
    """
    check_order(rank)
    named, value = within
    statement = f"""
        SELECT wanted.key, stored.*
        FROM unnest(%s::text[], %s::text[], %s::timestamptz[]) AS wanted(key, same, no_later)
        LEFT JOIN LATERAL (
            SELECT {", ".join(columns)}, {flag} IS NOT NULL FROM {model._meta.db_table}
            WHERE {named} = %s AND {key} = wanted.key OFFSET 0 FOR {strength}
        ) AS stored ON true
        WHERE stored.{same} IS DISTINCT FROM wanted.same OR stored.{no_later} > wanted.no_later
    """  # noqa: S608 (no data)
    values, moments = zip(*expected.values(), strict=True)
    with connection.cursor() as cursor:
        cursor.execute(statement, [array([*expected]), array(values), array(moments), value])
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def lock_hashes(space: int, texts: Collection[str], *, are_shared: bool = False) -> None:
    """Take advisory locks of PostgreSQL on texts, until the transaction ends.

    By the order of the hashes, so that two transactions with common texts do not wait for each other in a circle.
    """
    lock = "pg_advisory_xact_lock_shared" if are_shared else "pg_advisory_xact_lock"
    hashes = "SELECT DISTINCT hashtext(text) AS hash FROM unnest(%s::text[]) AS text ORDER BY 1"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {lock}(%s, hash) FROM ({hashes}) AS hashes", [space, [*texts]])  # noqa: S608 (no data)


class _Held(threading.local):
    """The ranks that this thread holds, each with the transaction at whose end it is released."""

    def __init__(self) -> None:
        self.ranks: list[tuple[Rank, transaction.Atomic]] = []


_held = _Held()


def check_order(rank: Rank) -> None:
    """Record that the transaction takes a lock of this rank. Raises WrongLockOrder if it holds one of a higher rank.

    A lock may be taken again while it is held, because that does not wait.
    """
    if not settings.CHECK_LOCK_ORDER:
        return
    blocks: list[Any] = connection.atomic_blocks
    # A test's own transaction encloses many that would be transactions of their own.
    begun = [block for block in blocks if not getattr(block, "_from_testcase", False)]
    if not begun:
        return
    held = [(other, block) for other, block in _held.ranks if any(block is open_block for open_block in blocks)]
    ranks = {other for other, _ in held}
    if ranks and rank < max(ranks) and rank not in ranks:
        raise WrongLockOrder(f"{rank.name} is taken after {max(ranks).name}; take it before.")
    _held.ranks = [*held, (rank, begun[0])]


@contextmanager
def advisory_lock(name: str) -> Iterator[bool]:
    """Try to hold the lock of this name, and yield whether that worked: False if any process of any host has it.

    It never waits, and ends with the process. The block is not a transaction, and commits its own ones.
    """
    if connection.vendor == "postgresql":
        with _in_postgresql(name) as is_ours:
            yield is_ours
    else:  # SQLite serves one host, whose processes share a folder
        with file_lock(settings.RUNTIME_DIR / f"{quote(name, safe='')}.lock") as try_to_lock:
            yield try_to_lock()


@contextmanager
def _in_postgresql(name: str) -> Iterator[bool]:
    """Hold the lock in a transaction, because PgBouncer would lose or leave over a lock of a session.

    The transaction has its own connection and reads nothing else, so it does not hold back VACUUM.
    """
    key = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), signed=True)
    holder = connection.copy()
    try:
        holder.set_autocommit(False)
        with holder.cursor() as cursor:
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [key])
            [is_ours] = cursor.fetchone()
        yield is_ours
    finally:
        with suppress(Error):  # a broken connection has released its lock already
            holder.rollback()
        holder.close()
