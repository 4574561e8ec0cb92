"""Bulk inserts with an `ON CONFLICT` and a `RETURNING` clause, which the ORM cannot express."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

import orjson
from django.db import connection
from django.db.models import JSONField, Model

from config.database.commit_order import CURRENT, ArrivalField

_MOST_ROWS = 1000
"""In one statement. SQLite limits the number of parameters, and each value is one."""


def insert(
    model: type[Model], columns: Sequence[str], rows: Sequence[Sequence[Any]], then: str, *, only: str = ""
) -> list[Any]:
    """Insert rows in order, in the caller's transaction, and return the rows that the statement
    returns.

    Each row has one value per column. `then` is the end of the statement: `ON CONFLICT ...` and
    `RETURNING ...`. SQLite returns UUIDs as texts (see `as_uuid`). `only`, for callers that must
    leave some rows out, joins or filters the rows: PostgreSQL has them as the elements `given`,
    SQLite as the table `given` with these columns.
    """
    make_statement = _with_json if connection.vendor == "postgresql" else _with_values
    returned: list[Any] = []
    for start in range(0, len(rows), _MOST_ROWS):
        statement, parameters = make_statement(model, tuple(columns), rows[start : start + _MOST_ROWS], only)
        with connection.cursor() as cursor:
            cursor.execute(f"{statement} {then}", parameters)
            if "RETURNING" in then:
                returned += cursor.fetchall()
    return returned


def as_uuid(value: UUID | str) -> UUID:
    return value if isinstance(value, UUID) else UUID(value)


Statement = tuple[str, list[Any]]
"""The beginning of a statement, and its parameters."""


def _with_json(model: type[Model], columns: tuple[str, ...], rows: Sequence[Sequence[Any]], only: str) -> Statement:
    """Pass all rows as one parameter, which takes the driver a third of the time of one parameter
    per value.
    """
    return f"{_insert_json(model, columns)} {only}", [orjson.dumps(rows).decode()]


@lru_cache
def _insert_json(model: type[Model], columns: tuple[str, ...]) -> str:
    fields = {field.column: field for field in model._meta.concrete_fields}
    values = [
        f"NULLIF(given -> {at}, 'null')"
        if isinstance(field, JSONField)
        else f"(given ->> {at})::{field.db_type(connection)}"
        for at, field in enumerate(map(fields.__getitem__, columns))
    ]
    given = "FROM jsonb_array_elements(%s) AS given"
    return f"{_insert(model, columns)} SELECT {', '.join(values)} {given}"


def _with_values(model: type[Model], columns: tuple[str, ...], rows: Sequence[Sequence[Any]], only: str) -> Statement:
    arrivals = arrival_columns(model)  # SQLite has no default for them
    row = f"({', '.join(['%s'] * len(columns) + [CURRENT['sqlite']] * len(arrivals))})"
    parameters = [value for row in rows for value in adapt_row(row)]
    values = f"VALUES {', '.join([row] * len(rows))}"
    if only:
        names = ", ".join(columns + arrivals)
        chosen = f"WITH given({names}) AS ({values}) SELECT given.* FROM given {only}"  # noqa: S608 (no data)
        values = f"SELECT * FROM ({chosen}) WHERE true"  # noqa: S608 (no data)
    return f"{_insert(model, columns + arrivals)} {values}", parameters


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
}
