"""Bulk inserts with an `ON CONFLICT` and a `RETURNING` clause, which the ORM cannot express."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from itertools import chain
from typing import Any
from uuid import UUID

import orjson
from django.db import IntegrityError, InternalError, OperationalError, connection, transaction
from django.db.models import JSONField, Model

from config.database.commit_order import CURRENT, ArrivalField
from config.database.engines import is_distributed, is_spread
from config.database.outages import is_outage

_MAX_ROWS = 1000
"""In one statement. SQLite limits the number of parameters, and each value is one."""


def insert(
    model: type[Model], columns: Sequence[str], rows: Sequence[Sequence[Any]], then: str, *, only: str = ""
) -> list[Any]:
    """Insert rows in order, in the caller's transaction, and return the rows that the statement returns.

    Each row has one value per column. `then` is the end of the statement: `ON CONFLICT ...` and `RETURNING ...`. SQLite
    returns UUIDs as texts (see `as_uuid`).

    Callers that must leave some rows out join or filter them by `only`: PostgreSQL has them as the elements `new_row`,
    SQLite as the table `new_row` with these columns. Tables that are spread have no `only`.
    """
    return execute_all(prepare(model, columns, rows, then, only=only))


def insert_arrays(
    model: type[Model], same: Mapping[str, Any], columns: Mapping[str, Sequence[str | None]], then: str
) -> int:
    """Insert rows into a table of PostgreSQL, and return how many it wrote.

    `same` has the columns that are the same in all rows, and `columns` the values of the others as texts: PostgreSQL
    takes two thirds of the time of `insert`.
    """
    # Casting to a type with a length would cut off longer texts.
    types = {field.column: str(field.db_type(connection)).partition("(")[0] for field in model._meta.concrete_fields}
    names, arrays = ", ".join(columns), ", ".join(f"%s::{types[column]}[]" for column in columns)
    statement = (
        f"INSERT INTO {model._meta.db_table} ({', '.join(same)}, {names}) "  # noqa: S608 (no data)
        f"SELECT {', '.join(['%s'] * len(same))}, {names} FROM unnest({arrays}) AS new_row({names}) {then}"
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, [*same.values(), *map(array, columns.values())])
        return int(cursor.rowcount)


def copy(model: type[Model], columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Copy rows into a table of PostgreSQL. None of them may be there. The driver writes texts the fastest."""
    command = f"COPY {model._meta.db_table} ({', '.join(map(connection.ops.quote_name, columns))}) FROM STDIN"
    with connection.cursor() as cursor, connection.wrap_database_errors, cursor.copy(command) as copying:
        for row in rows:
            copying.write_row(row)


def insert_each(model: type[Model], columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Insert rows into a table of SQLite one by one, which is faster than `insert` where none of them is there."""
    placeholders = ["%s"] * len(columns) + [CURRENT["sqlite"]] * len(arrival_columns(model))
    statement = f"{_insert(model, (*columns, *arrival_columns(model)))} VALUES ({', '.join(placeholders)})"
    with connection.cursor() as cursor:
        cursor.executemany(statement, [adapt_row(row) for row in rows])


def find_rows(
    model: type[Model], keys: tuple[str, str], wanted: Mapping[Any, Sequence[Any]], columns: Sequence[str]
) -> list[tuple[Any, ...]]:
    """Return rows by pairs of two keys: `wanted` has, by the first key, the second keys that are looked for.

    Each row has both keys and then these columns. For one row, the ORM spends half of its time on making the statement.
    """
    first, second = keys
    conditions = " OR ".join(
        f"{first} = %s AND {second} IN ({', '.join(['%s'] * len(seconds))})" for seconds in wanted.values()
    )
    selected = f"SELECT {', '.join((*keys, *columns))} FROM {model._meta.db_table}"  # noqa: S608 (no data)
    with connection.cursor() as cursor:
        cursor.execute(f"{selected} WHERE {conditions}", [value for key in wanted for value in (key, *wanted[key])])
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


# A temporary table cannot refer to others. The table that the rows are copied to does.
_reference = re.compile(r' REFERENCES "\w+" \("\w+"\)( DEFERRABLE INITIALLY DEFERRED)?')

Statement = tuple[str, list[Any]]
"""A statement, or its beginning, and its parameters."""

Make = Callable[[type[Model], Sequence[str], Sequence[Sequence[Any]], str], Iterable[Statement]]
"""Either `prepare` or `stage`."""


def prepare(
    model: type[Model], columns: Sequence[str], rows: Sequence[Sequence[Any]], then: str, *, only: str = ""
) -> Iterator[Statement]:
    """Yield the statements of `insert`, so that callers can make them before their transaction begins."""
    make_statement = _with_json if connection.vendor == "postgresql" and not is_spread(model) else _with_values
    for start in range(0, len(rows), _MAX_ROWS):
        statement, parameters = make_statement(model, tuple(columns), rows[start : start + _MAX_ROWS], only)
        yield f"{statement} {then}", parameters


def stage(model: type[Model], columns: Sequence[str], rows: Sequence[Sequence[Any]], then: str) -> Sequence[Statement]:
    """Return the statements of `insert`, made so that their transaction is short. They are for `unchecked`.

    On SQLite, this puts the rows into a temporary table, which no other process waits for. It has the
    constraints of the model's table, so that the statements, which only copy the rows, need not check them again.
    """
    if connection.vendor == "postgresql" or not rows:
        return list(prepare(model, columns, rows, then))
    table, names = model._meta.db_table, ", ".join(map(connection.ops.quote_name, columns))
    staged = f"staged_{table}"
    with connection.cursor() as cursor:
        cursor.execute("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = %s", [table])
        [definition] = cursor.fetchone()
        cursor.execute(f"DROP TABLE IF EXISTS temp.{staged}")
        cursor.execute(f"CREATE TEMP TABLE {staged} ({_reference.sub('', definition.partition('(')[2])}")
    for statement, values in prepare(model, columns, rows, ""):
        execute_all([(statement.replace(table, staged, 1), values)])
    copy = f"INSERT INTO {table} ({names}) SELECT {names} FROM {staged} ORDER BY rowid {then}"  # noqa: S608 (no data)
    return [(copy, []), (f"DROP TABLE {staged}", [])]


@contextmanager
def unchecked() -> Iterator[None]:
    """Leave out the checks of rows that were staged. PostgreSQL makes them all the same."""
    if connection.vendor == "postgresql":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA ignore_check_constraints = ON")
        try:
            yield
        finally:
            cursor.execute("PRAGMA ignore_check_constraints = OFF")


def execute_all(statements: Iterable[Statement]) -> list[Any]:
    """Execute statements in order, and return the rows that they return."""
    returned: list[Any] = []
    for statement, parameters in statements:
        with connection.cursor() as cursor:
            cursor.execute(statement, parameters)
            if cursor.description is not None:
                returned += cursor.fetchall()
    return returned


def were_all_new(write: Callable[[], object]) -> bool:
    """Write rows in the caller's transaction, and return whether that broke no constraint. If so, nothing is written.

    A row that exists breaks one. Or else the next statement fails for the same reason. Raises OperationalError if the
    transaction cannot go on.
    """
    try:
        with transaction.atomic():
            write()
    except (IntegrityError, InternalError) as error:
        if not breaks_constraint(error):
            raise
        # Django says nothing of a savepoint that could not be restored, for example because a worker has been lost.
        if transaction.get_rollback():
            raise OperationalError("The database could not roll back to a savepoint.") from error
        return False
    return True


def breaks_constraint(error: Exception) -> bool:
    if isinstance(error, InternalError):  # so Citus reports what a worker says of a copy
        return is_distributed() and not is_outage(error)
    return isinstance(error, IntegrityError)


def replacing(unique: Sequence[str], columns: Sequence[str]) -> str:
    """Return the end of a statement that replaces the values of a row that has the same unique columns."""
    others = (connection.ops.quote_name(column) for column in columns if column not in unique)
    return updating(unique, {name: f"excluded.{name}" for name in others})


def adding(model: type[Model], unique: Sequence[str], columns: Sequence[str]) -> str:
    """Return the end of a statement that adds to the values of a row that has the same unique columns."""
    table = model._meta.db_table
    return updating(unique, {column: f"{table}.{column} + excluded.{column}" for column in columns})


def updating(unique: Sequence[str], values: Mapping[str, str], returning: Sequence[str] = ()) -> str:
    """Return the end of a statement that gives a row with the same unique columns these values, which are expressions.

    They may name the row as it is stored by its table, and the one that was not inserted as `excluded`.
    """
    changes = ", ".join(f"{name} = {value}" for name, value in values.items())
    end = f" RETURNING {', '.join(returning)}" if returning else ""
    return f"ON CONFLICT ({', '.join(unique)}) DO UPDATE SET {changes}{end}"


def array(texts: Sequence[str | None]) -> str | None:
    """Return texts as PostgreSQL reads an array, or None if there is no text among them.

    Making it at once takes the driver's time for a few elements. No text may contain U+0000.
    """
    if None in texts:
        quoted = ("NULL" if text is None else f'"{_escape(text)}"' for text in texts)
        return None if texts.count(None) == len(texts) else f"{{{','.join(quoted)}}}"
    joined = _escape("\0".join(texts)).replace("\0", '","')  # type: ignore[arg-type]
    return f'{{"{joined}"}}' if texts else None


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def as_uuid(value: UUID | str) -> UUID:
    return value if isinstance(value, UUID) else UUID(value)


def _with_json(model: type[Model], columns: tuple[str, ...], rows: Sequence[Sequence[Any]], only: str) -> Statement:
    """Pass all rows as one parameter, which takes the driver a third of the time of one parameter for each value."""
    return f"{_insert_json(model, columns)} {only}", [orjson.dumps(rows).decode()]


@lru_cache
def _insert_json(model: type[Model], columns: tuple[str, ...]) -> str:
    fields = {field.column: field for field in model._meta.concrete_fields}
    values = [
        f"NULLIF(new_row -> {index}, 'null')"
        if isinstance(field, JSONField)
        else f"(new_row ->> {index})::{field.db_type(connection)}"
        for index, field in enumerate(map(fields.__getitem__, columns))
    ]
    rows = "FROM jsonb_array_elements(%s) AS new_row"
    return f"{_insert(model, columns)} SELECT {', '.join(values)} {rows}"


def _with_values(model: type[Model], columns: tuple[str, ...], rows: Sequence[Sequence[Any]], only: str) -> Statement:
    """Pass each value as a parameter of its own.

    This is for SQLite and for Citus, which sends such rows right to their servers. Of a query that makes rows, Citus
    stores the result on all servers first: 30 rows take 20 times as long.
    """
    arrivals: tuple[str, ...]
    if connection.vendor == "postgresql":
        parameters, arrivals = [*map(as_json, chain.from_iterable(rows))], ()
    else:
        parameters = [value for row in rows for value in adapt_row(row)]
        arrivals = arrival_columns(model)  # SQLite has no default for them
    row = f"({', '.join(['%s'] * len(columns) + [CURRENT['sqlite']] * len(arrivals))})"
    values = f"VALUES {', '.join([row] * len(rows))}"
    if only:
        names = ", ".join(columns + arrivals)
        chosen = f"WITH new_row({names}) AS ({values}) SELECT new_row.* FROM new_row {only}"  # noqa: S608 (no data)
        values = f"SELECT * FROM ({chosen}) WHERE true"  # noqa: S608 (no data)
    return f"{_insert(model, columns + arrivals)} {values}", parameters


def as_json(value: Any) -> Any:
    return orjson.dumps(value).decode() if isinstance(value, (dict, list)) else value


def _insert(model: type[Model], columns: tuple[str, ...]) -> str:
    return f"INSERT INTO {model._meta.db_table} ({', '.join(map(connection.ops.quote_name, columns))})"


@lru_cache
def arrival_columns(model: type[Model]) -> tuple[str, ...]:
    return tuple(field.attname for field in model._meta.concrete_fields if isinstance(field, ArrivalField))


def adapt_row(row: Sequence[Any]) -> list[Any]:
    """Return the values as SQLite's driver accepts them, and as Django's fields store them."""
    return [_adapters.get(type(value), _unchanged)(value) for value in row]


def _unchanged(value: Any) -> Any:
    return value


_adapters: dict[type, Callable[[Any], Any]] = {
    UUID: lambda value: value.hex,
    datetime: lambda value: connection.ops.adapt_datetimefield_value(value),
    dict: lambda value: orjson.dumps(value).decode(),
    list: lambda value: orjson.dumps(value).decode(),
}
