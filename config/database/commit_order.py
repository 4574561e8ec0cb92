"""Which rows are new since an earlier read, in the order of commits, so that late commits are not missed.

Clocks and sequences cannot show this order, because a transaction that began earlier may commit later. On PostgreSQL, a
row stores the id of its transaction as its `arrival`, and a watermark is the snapshot of the earlier read. SQLite has
one writer at a time: there, a row stores the current epoch, and taking a watermark begins a new one.

On Citus, a row stores the id of its transaction on the coordinator, and a watermark is a snapshot of the coordinator.
The workers commit a little before or after it, so a watermark also lists the transactions that are not committed
everywhere yet. Rows of theirs that are visible already count as new, like those that are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from django.db import OperationalError, connection, models
from django.db.models import Func, Q, QuerySet
from django.db.models.lookups import GreaterThan

from config.database.engines import is_distributed
from config.database.selects import Column, rows_of, select_of

Row = TypeVar("Row", bound=models.Model)

CURRENT = {
    "postgresql": "(pg_current_xact_id()::text::bigint)",
    "sqlite": "COALESCE((SELECT number FROM config_epoch), 0)",
}
"""By database, the SQL for the arrival of a row that is written now."""

# A dump that is restored elsewhere keeps its rows, but transactions have other ids there: hence the identifier of the
# system. The snapshot does not list the own id, and rows that this transaction writes later are new.
_SNAPSHOT = (
    "SELECT concat_ws(' ', (SELECT system_identifier FROM pg_control_system()), pg_current_snapshot(), "
    "COALESCE(pg_current_xact_id_if_assigned()::text, '0'))"
)
_SYSTEM = (
    "SELECT system_identifier::text, pg_snapshot_xmax(pg_current_snapshot())::text::bigint FROM pg_control_system()"
)
# A transaction sees its own rows before any snapshot includes its id.
_NEWEST = (
    "GREATEST(pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1, "
    "pg_current_xact_id_if_assigned()::text::bigint)"
)
# This statement sees such rows, although its own snapshot says that it cannot.
_RESTORED = f"""LEAST(
    (SELECT MIN(arrival) FROM {{0}} WHERE arrival > {_NEWEST}),
    (SELECT MIN(arrival) FROM {{0}} WHERE arrival = ANY (ARRAY(
        SELECT number::text::bigint FROM pg_snapshot_xip(pg_current_snapshot()) AS number)))
)"""  # noqa: S608 (no data)
# A transaction keeps the lock on its id until its workers have committed. The lock has the last 32 bits of it.
_IN_FLIGHT = (
    "SELECT transactionid::text::bigint FROM pg_locks "
    "WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted AND pid IS DISTINCT FROM pg_backend_pid()"
)
# A worker that failed in between still has it prepared. Until that is recovered, the coordinator has a record of it,
# which the transaction itself has written: `xmin` has the last 32 bits of its id.
_RECORDED = "SELECT DISTINCT xmin::text::bigint FROM pg_dist_transaction"
_PREPARED = """
    SELECT worker.result, worker.success, pg_dist_transaction.xmin::text::bigint FROM run_command_on_workers(
        $$SELECT COALESCE(string_agg(gid, ' '), '') FROM pg_prepared_xacts WHERE database = current_database()$$
    ) AS worker LEFT JOIN pg_dist_transaction ON gid = ANY (string_to_array(worker.result, ' '))
"""
_XIDS = 2**32
_NEXT_EPOCH = (
    "INSERT INTO config_epoch (id, number) VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET number = number + 1 "
    "RETURNING number"
)


_LIVE_WATERMARKS = {
    "postgresql": re.compile(r"\d{1,20} \d{1,18}:\d{1,18}:(?:\d{1,18}(?:,\d{1,18})*)? \d{1,18}", re.ASCII),
    "sqlite": re.compile(r"\d{1,18}", re.ASCII),
}


class _Snapshot:
    """A watermark of PostgreSQL, as ids of transactions.

    When it was taken, transactions from `following` on had not begun, or not ended, and those in `under_way` had not
    ended. `own` has the id of the transaction that took the watermark, if it had one.
    """

    def __init__(self, watermark: str) -> None:
        _, snapshot, own = watermark.split(" ")
        oldest, following, under_way = snapshot.split(":")
        self.oldest = int(oldest)
        self.following = int(following)
        self.under_way = [int(transaction_id) for transaction_id in under_way.split(",") if transaction_id]
        self.own = [int(own)] if int(own) else []


class CurrentArrival(Func):
    """The arrival of a row that this statement writes."""

    arity = 0
    allowed_default = True
    output_field = models.BigIntegerField()

    def as_sql(self, compiler: Any, connection: Any, *_: Any, **__: Any) -> Any:
        return CURRENT[connection.vendor], []


class DefaultArrival(CurrentArrival):
    """The default of the column. On SQLite, a default cannot read a table, so statements must set the arrival."""

    def as_sqlite(self, *_: Any, **__: Any) -> Any:
        return "0", []


class ArrivalField(models.BigIntegerField):  # type: ignore[type-arg]  # not generic at run time
    """When a row was last written. Statements that bypass `save()` and `config.database.insertion` must set it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"editable": False, "db_default": DefaultArrival(), **options})

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        return CurrentArrival()


def take_watermark() -> str:
    """Return a watermark. Every row that is old by it is visible to the next statements, also of this transaction.

    If the watermark is stored, this transaction must commit.
    """
    if is_distributed():
        return _take_distributed_watermark()
    with connection.cursor() as cursor:
        cursor.execute(_SNAPSHOT if connection.vendor == "postgresql" else _NEXT_EPOCH)
        [watermark] = cursor.fetchone()
    return str(watermark)


def _take_distributed_watermark() -> str:
    """Return a watermark that lists all transactions that are not committed on every worker.

    The snapshot comes first. A transaction that ended before it on the coordinator is in flight until it has ended on
    the workers; one that begins after it has a later id.
    """
    with connection.cursor() as cursor:
        cursor.execute(_SNAPSHOT)
        [watermark] = cursor.fetchone()
        identifier, snapshot, own = watermark.split(" ")
        oldest, following, under_way = snapshot.split(":")
        cursor.execute(_IN_FLIGHT)
        unsettled = set(_begun_before(int(following), (number for (number,) in cursor.fetchall())))
        cursor.execute(_RECORDED)
        if {*_begun_before(int(following), (number for (number,) in cursor.fetchall()))} - unsettled:
            cursor.execute(_PREPARED)
            for answer, has_answered, number in cursor.fetchall():
                if not has_answered:
                    raise OperationalError(f"A worker of Citus does not answer: {answer}")
                unsettled.update(_begun_before(int(following), [] if number is None else [number]))
    unsettled.update(int(number) for number in under_way.split(",") if number)
    listed = sorted(unsettled - {int(own)})
    return f"{identifier} {min([int(oldest), *listed])}:{following}:{','.join(map(str, listed))} {own}"


def _begun_before(following: int, ids: Iterable[int]) -> Iterator[int]:
    """Yield the whole ids of transactions before one, by the last 32 bits of each."""
    for last_bits in ids:
        age = (following - last_bits) % _XIDS
        if 0 < age < _XIDS // 2:
            yield following - age


class Arrived(Func):
    """Whether a row is new since a watermark, by the column of its arrival."""

    output_field = models.BooleanField()

    def __init__(self, column: str, watermark: str, **extra: Any) -> None:
        super().__init__(column, **extra)
        self._watermark = watermark

    def as_sql(self, compiler: Any, connection: Any, *_: Any, **__: Any) -> Any:
        column, parameters = compiler.compile(self.source_expressions[0])
        condition, values = arrived_since(self._watermark, column)
        return f"({condition})", [*parameters * condition.count(column), *values]


def live_watermark(table: str) -> str:
    """Return a watermark for `newest_arrivals`, which is taken without a write on either database.

    On SQLite it is the last row, so rows that are deleted from the end and replaced are not found.
    """
    if connection.vendor == "postgresql":
        return take_watermark()
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT COALESCE(MAX(rowid), 0) FROM {table}")  # noqa: S608 (no data)
        return str(cursor.fetchone()[0])


def is_live_watermark(sent: str) -> bool:
    """Return whether what a client sent can be a live watermark of this database."""
    return bool(_LIVE_WATERMARKS[connection.vendor].fullmatch(sent))


def newest_arrivals(model: type[Row], watermark: str, *, limit: int) -> QuerySet[Row, Row]:
    """Return the newest rows that have arrived since a live watermark, as a queryset that can be filtered further.

    The limit comes before further filters. It bounds the work, and keeps SQLite from an index without the order of
    arrival.
    """
    if connection.vendor == "postgresql":
        # `Arrived` alone has an alternative, with which the index could not be read in its order.
        newer = Q(Arrived("arrival", watermark), arrival__gte=_Snapshot(watermark).oldest)
        arrived = model._default_manager.filter(newer).order_by("-arrival")
    else:
        row = Column("rowid", models.BigIntegerField())
        arrived = model._default_manager.filter(GreaterThan(row, int(watermark))).order_by(row.desc())
    return rows_of(model, select_of(arrived[:limit]))


def is_watermark_of_this_database(watermark: str) -> bool:
    """Return whether the watermark was taken in this database, not in one that this one was restored from.

    A copy of a cluster's files has the same identifier. There, only a watermark ahead of its transactions is refused.
    """
    if connection.vendor != "postgresql":
        return watermark.isdecimal()
    with connection.cursor() as cursor:
        cursor.execute(_SYSTEM)
        [identifier, following] = cursor.fetchone()
    taken_in, _, rest = watermark.partition(" ")
    return bool(taken_in == identifier and int(rest.split(":")[1]) <= following)


def arrived_since(watermark: str, column: str) -> tuple[str, list[Any]]:
    """Return a condition in SQL and its parameters: the arrival in this column is new since the watermark."""
    if connection.vendor != "postgresql":
        return f"{column} >= %s", [int(watermark)]
    seen = _Snapshot(watermark)
    unseen = [*seen.own, *seen.under_way]
    later = f"{column} >= %s" if is_distributed() else f"{column} >= %s AND {column} <= {_NEWEST}"
    # By their ids: one long transaction must not cause a scan of everything that came after it.
    return (
        (f"({later} OR {column} = ANY (%s))", [seen.following, unseen]) if unseen else (f"({later})", [seen.following])
    )


def has_restored_rows(table: str) -> bool:
    """Return whether a table, which is on this server alone, has rows of another database that count as new."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {_RESTORED.format(table)} IS NOT NULL")
        [has_them] = cursor.fetchone()
    return bool(has_them)


def forget_restored_rows(table: str) -> str:
    """Return a statement after which rows of another database are old by every watermark.

    An earlier statement of its transaction must have locked the table. It writes the table anew, which is quicker than
    to update every row. A row came from another database if this transaction sees it, but the id that it stores is of
    no transaction that has ended.
    """
    return (
        f"ALTER TABLE {table} ALTER COLUMN arrival TYPE bigint USING CASE "
        "WHEN pg_visible_in_snapshot(arrival::text::xid8, pg_current_snapshot()) THEN arrival ELSE 0 END"
    )
