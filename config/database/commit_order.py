"""Which rows are new since an earlier look, in the order of commits, so that nothing committed late is overlooked.

No clock and no sequence can tell: a transaction that began earlier may commit later. On PostgreSQL a row carries the
number of its transaction, and a mark is the snapshot that was looked at. SQLite has one writer at a time: there a row
carries the current epoch, and each look begins a new one.
"""

from __future__ import annotations

from typing import Any

from django.db import connection, models
from django.db.models import Func

CURRENT = {
    "postgresql": "(pg_current_xact_id()::text::bigint)",
    "sqlite": "COALESCE((SELECT number FROM config_epoch), 0)",
}
"""The arrival of a row that is written now, in SQL."""

# A dump that is restored elsewhere keeps its rows, but the numbers of transactions there are other ones. And what the
# transaction that takes the mark writes later is not seen, though its snapshot does not say so.
_SNAPSHOT = (
    "SELECT concat_ws(' ', (SELECT system_identifier FROM pg_control_system()), pg_current_snapshot(), "
    "COALESCE(pg_current_xact_id_if_assigned()::text, '0'))"
)
_HERE = "SELECT system_identifier::text, pg_snapshot_xmax(pg_current_snapshot())::text::bigint FROM pg_control_system()"
# What this transaction writes itself, it sees before its number is among those of a snapshot.
_NEWEST = (
    "GREATEST(pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1, "
    "pg_current_xact_id_if_assigned()::text::bigint)"
)
_NEXT_EPOCH = (
    "INSERT INTO config_epoch (id, number) VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET number = number + 1 "
    "RETURNING number"
)


class CurrentArrival(Func):
    """The arrival of a row that is written by this statement."""

    arity = 0
    allowed_default = True
    output_field = models.BigIntegerField()

    def as_sql(self, compiler: Any, connection: Any, *_: Any, **__: Any) -> Any:
        return CURRENT[connection.vendor], []


class DefaultArrival(CurrentArrival):
    """The same as a column's default, which cannot ask SQLite's tables: whoever writes there has to say it."""

    def as_sqlite(self, *_: Any, **__: Any) -> Any:
        return "0", []


class ArrivalField(models.BigIntegerField):  # type: ignore[type-arg]  # not generic at run time
    """When a row was written last. Statements that bypass `save()` and `config.database.insertion` set it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"editable": False, "db_default": DefaultArrival(), **options})

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        return CurrentArrival()


def take_mark() -> str:
    """A mark of what the next statements of this transaction see at least, and all later ones.

    Where it is remembered, this transaction has to commit.
    """
    with connection.cursor() as cursor:
        cursor.execute(_SNAPSHOT if connection.vendor == "postgresql" else _NEXT_EPOCH)
        [mark] = cursor.fetchone()
    return str(mark)


def is_mark_of_here(mark: str) -> bool:
    """Whether the mark was taken in this database, and not in one that this one was restored from.

    A copy of the files of a cluster has the same identifier, but where the mark is ahead of its transactions.
    """
    if connection.vendor != "postgresql":
        return mark.isdecimal()
    with connection.cursor() as cursor:
        cursor.execute(_HERE)
        [identifier, following] = cursor.fetchone()
    taken_in, _, rest = mark.partition(" ")
    return bool(taken_in == identifier and int(rest.split(":")[1]) <= following)


def arrived_since(mark: str, column: str) -> tuple[str, list[Any]]:
    """A condition in SQL, and its parameters: the row's arrival, in this column, was not seen by who took the mark."""
    if connection.vendor != "postgresql":
        return f"{column} >= %s", [int(mark)]
    _, snapshot, own = mark.split(" ")
    _, following, under_way = snapshot.split(":")
    unseen = [number for number in map(int, filter(None, [own, *under_way.split(",")])) if number]
    later = f"{column} >= %s AND {column} <= {_NEWEST}"
    # Each by its number: one that has been under way for long is no reason to look at all that came after it.
    return (
        (f"({later} OR {column} = ANY (%s))", [int(following), unseen]) if unseen else (f"({later})", [int(following)])
    )
