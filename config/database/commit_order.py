"""Which rows are new since an earlier read, in the order of commits, so that late commits are not
missed.

Clocks and sequences cannot show this order, because a transaction that began earlier may commit
later.
On PostgreSQL, a row stores the number of its transaction as its `arrival`, and a mark is the
snapshot of the earlier read. SQLite has one writer at a time: there, a row stores the current
epoch, and taking a mark begins a new one.
"""

from __future__ import annotations

from typing import Any

from django.db import connection, models
from django.db.models import Func

CURRENT = {
    "postgresql": "(pg_current_xact_id()::text::bigint)",
    "sqlite": "COALESCE((SELECT number FROM config_epoch), 0)",
}
"""By database, the SQL for the arrival of a row that is written now."""

# A dump that is restored elsewhere keeps its rows, but transactions have other numbers there: hence
# the identifier. The own number is needed because the snapshot does not list it, and rows that this
# transaction writes later are new.
_SNAPSHOT = (
    "SELECT concat_ws(' ', (SELECT system_identifier FROM pg_control_system()), pg_current_snapshot(), "
    "COALESCE(pg_current_xact_id_if_assigned()::text, '0'))"
)
_POSITION = (
    "SELECT system_identifier::text, pg_snapshot_xmax(pg_current_snapshot())::text::bigint FROM pg_control_system()"
)
# A transaction sees its own rows before any snapshot includes its number.
_NEWEST = (
    "GREATEST(pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1, "
    "pg_current_xact_id_if_assigned()::text::bigint)"
)
_NEXT_EPOCH = (
    "INSERT INTO config_epoch (id, number) VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET number = number + 1 "
    "RETURNING number"
)


class CurrentArrival(Func):
    """The arrival of a row that this statement writes."""

    arity = 0
    allowed_default = True
    output_field = models.BigIntegerField()

    def as_sql(self, compiler: Any, connection: Any, *_: Any, **__: Any) -> Any:
        return CURRENT[connection.vendor], []


class DefaultArrival(CurrentArrival):
    """The default of the column. On SQLite, a default cannot read a table, so statements must set
    the arrival.
    """

    def as_sqlite(self, *_: Any, **__: Any) -> Any:
        return "0", []


class ArrivalField(models.BigIntegerField):  # type: ignore[type-arg]  # not generic at run time
    """When a row was last written. Statements that bypass `save()` and `config.database.insertion`
    must set it.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"editable": False, "db_default": DefaultArrival(), **options})

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        return CurrentArrival()


def take_mark() -> str:
    """Return a mark: every row that counts as old by it is visible to the next statements of this
    transaction, and to all later ones.

    If the mark is stored, this transaction must commit.
    """
    with connection.cursor() as cursor:
        cursor.execute(_SNAPSHOT if connection.vendor == "postgresql" else _NEXT_EPOCH)
        [mark] = cursor.fetchone()
    return str(mark)


def is_mark_of_this_database(mark: str) -> bool:
    """Return whether the mark was taken in this database, not in one that this one was restored
    from.

    A copy of a cluster's files has the same identifier. There, only a mark ahead of its
    transactions is refused.
    """
    if connection.vendor != "postgresql":
        return mark.isdecimal()
    with connection.cursor() as cursor:
        cursor.execute(_POSITION)
        [identifier, following] = cursor.fetchone()
    taken_in, _, rest = mark.partition(" ")
    return bool(taken_in == identifier and int(rest.split(":")[1]) <= following)


def arrived_since(mark: str, column: str) -> tuple[str, list[Any]]:
    """Return a condition in SQL and its parameters: the arrival in this column is new since the
    mark.
    """
    if connection.vendor != "postgresql":
        return f"{column} >= %s", [int(mark)]
    _, snapshot, own = mark.split(" ")
    _, following, under_way = snapshot.split(":")
    unseen = [number for number in map(int, filter(None, [own, *under_way.split(",")])) if number]
    later = f"{column} >= %s AND {column} <= {_NEWEST}"
    # By their numbers: one long transaction must not cause a scan of everything that came after it.
    return (
        (f"({later} OR {column} = ANY (%s))", [int(following), unseen]) if unseen else (f"({later})", [int(following)])
    )


def arrived_by(mark: str, column: str) -> tuple[str, list[Any]]:
    """Return a condition in SQL and its parameters: the row was visible when the mark was taken.

    All rows of the transaction that took the mark count as visible then, because their arrival is the same.
    """
    condition, parameters = arrived_since(mark, column)
    if connection.vendor != "postgresql":
        return f"NOT {condition}", parameters
    return f"({column} = %s OR NOT {condition})", [int(mark.split(" ")[2]), *parameters]


def can_tell_new_rows(mark: str, ahead: int | None) -> bool:
    """Return whether `arrived_by` is right for this mark; `ahead` is what `find_foreign_arrival` returned with it.

    It cannot tell the rows of the transaction that took the mark, and those of another database, from new ones.
    """
    if connection.vendor != "postgresql":
        return True
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT COALESCE(pg_current_xact_id_if_assigned()::text, '0'), {_NEWEST}")
        [own, newest] = cursor.fetchone()
    return mark.split(" ")[2] not in {own} - {"0"} and (ahead is None or newest < ahead)


def find_foreign_arrival(table: str) -> int | None:
    """Return the first arrival in a table that is ahead of the transactions of this database, or None.

    Only rows that were restored from another database have one.
    """
    if connection.vendor != "postgresql":
        return None
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT MIN(arrival) FROM {table} WHERE arrival > {_NEWEST}")  # noqa: S608 (no data)
        [arrival] = cursor.fetchone()
    return None if arrival is None else int(arrival)
