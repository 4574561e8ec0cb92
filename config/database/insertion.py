"""Many rows by one statement that does what the ORM cannot: say which of them were new, or add to what was there."""

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
"""In one statement: SQLite has a bound for its parameters, of which each value is one."""


def insert(model: type[Model], columns: Sequence[str], rows: Sequence[Sequence[Any]], then: str) -> list[Any]:
    """Insert rows, in their order and the caller's transaction, and return what the statement returns.

    Each row has a value for each of the columns. `then` is the rest of the statement: `ON CONFLICT ...` and
    `RETURNING ...`, in which SQLite's UUIDs are texts (see `as_uuid`).
    """
    make = _with_json if connection.vendor == "postgresql" else _with_values
    returned: list[Any] = []
    for at in range(0, len(rows), _MOST_ROWS):
        statement, parameters = make(model, tuple(columns), rows[at : at + _MOST_ROWS])
        with connection.cursor() as cursor:
            cursor.execute(f"{statement} {then}", parameters)
            if "RETURNING" in then:
                returned += cursor.fetchall()
    return returned


def as_uuid(found: UUID | str) -> UUID:
    return found if isinstance(found, UUID) else UUID(found)


Made = tuple[str, list[Any]]
"""A statement without its end, and its parameters."""


def _with_json(model: type[Model], columns: tuple[str, ...], rows: Sequence[Sequence[Any]]) -> Made:
    """All rows as one parameter: the driver takes a third of the time that it needs for a parameter a value."""
    return _insert_json(model, columns), [orjson.dumps(rows).decode()]


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


def _with_values(model: type[Model], columns: tuple[str, ...], rows: Sequence[Sequence[Any]]) -> Made:
    arrivals = arrival_columns(model)  # of which SQLite knows no default
    row = f"({', '.join(['%s'] * len(columns) + [CURRENT['sqlite']] * len(arrivals))})"
    parameters = [value for row in rows for value in adapted(row)]
    return f"{_insert(model, columns + arrivals)} VALUES {', '.join([row] * len(rows))}", parameters


def _insert(model: type[Model], columns: tuple[str, ...]) -> str:
    return f"INSERT INTO {model._meta.db_table} ({', '.join(map(connection.ops.quote_name, columns))})"


@lru_cache
def arrival_columns(model: type[Model]) -> tuple[str, ...]:
    return tuple(field.attname for field in model._meta.concrete_fields if isinstance(field, ArrivalField))


def adapted(row: Sequence[Any]) -> list[Any]:
    """Values as SQLite's driver takes them, and as Django's fields store them there."""
    return [_adapters.get(type(value), _unchanged)(value) for value in row]


def _unchanged(value: Any) -> Any:
    return value


_adapters: dict[type, Callable[[Any], Any]] = {
    UUID: lambda value: value.hex,
    datetime: lambda value: connection.ops.adapt_datetimefield_value(value),
    dict: lambda value: orjson.dumps(value).decode(),
}
