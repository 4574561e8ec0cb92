"""What the two databases write differently in the statements of totals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import orjson
from django.db import connection

from config.database.insertion import adapted

_LARGEST, _SMALLEST = "1e100", "1e-100"
"""What a greater number counts as, and what is nearer to 0 and counts as that: floats hold the squares of the rest."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """What the two databases write differently. SQLite's moments are texts, in the order of time."""

    counted_at: str  # the moment of an event
    base: str  # the exposure, floored to its second
    later: str  # so many seconds after the base
    day: str  # of the exposure, in UTC
    number: str  # the property of a name where it is a number, else NULL
    text: str  # the same for a text
    is_chosen: str  # whether a user is one of those given, as JSON
    figures: str  # makes the column of that name from many
    between_figures: str
    no_figures: str
    figure: str  # takes one out of that column, counted from 0
    exact: str  # a float, or NULL for 0, so that products and sums of many are exact
    exact_sum: str
    fence: str  # what keeps a subquery from being executed in another way than by itself


_DIALECTS = {
    "postgresql": Dialect(
        counted_at="LEAST(timestamp, received_at)",
        # Of an exact half, this rounds up. To truncate takes five times as long.
        base="(exposed_at - interval '0.5 seconds')::timestamptz(0)",
        later="{} + {} * interval '1 second'",
        day="(exposed_at AT TIME ZONE 'UTC')::date",
        number="CASE WHEN jsonb_typeof(properties -> {0}::text) = 'number' THEN "
        f"CASE WHEN ABS((properties -> {{0}}::text)::numeric) < {_SMALLEST} THEN 0 ELSE "
        f"GREATEST(-{_LARGEST}, LEAST({_LARGEST}, (properties -> {{0}}::text)::numeric)) END END",
        text="properties ->> {}::text",
        is_chosen="{} = ANY (ARRAY(SELECT jsonb_array_elements_text({}::jsonb)))",
        figures="ARRAY[{}]::float8[]",
        between_figures=", ",
        no_figures="",
        figure="COALESCE(figures[{} + 1], 0)",
        exact="NULLIF({}, 0)::numeric",
        exact_sum="SUM({})",
        fence="OFFSET 0",
    ),
    # Its paths into JSON mean different things in different versions, but for places in arrays.
    "sqlite": Dialect(
        counted_at="MIN(timestamp, received_at)",
        base="substr(exposed_at, 1, 19)",
        later="datetime({}, {} || ' seconds')",
        day="substr(exposed_at, 1, 10)",
        number=f"(SELECT CASE WHEN value > -{_SMALLEST} AND value < {_SMALLEST} THEN 0.0 "  # noqa: S608 (no data)
        f"ELSE CAST(MAX(-{_LARGEST}, MIN({_LARGEST}, value)) AS REAL) END FROM json_each(properties) "
        "WHERE key = {} AND type IN ('integer', 'real'))",
        text="(SELECT value FROM json_each(properties) WHERE key = {} AND type = 'text')",
        is_chosen="{} IN (SELECT value FROM json_each({}))",
        # As JSON, which its own function cannot make of so many.
        figures="'[' || {} || ']'",
        between_figures=" || ',' || ",
        no_figures="''",
        figure="COALESCE(json_extract(figures, '$[{}]'), 0)",
        exact="NULLIF({}, 0)",
        exact_sum="exact_sum({})",
        fence="LIMIT -1",
    ),
}


def dialect() -> Dialect:
    return _DIALECTS[connection.vendor]


class Parameters:
    """The parameters of a statement, named as they come."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def put(self, value: Any) -> str:
        """Its place in the statement."""
        name = f"p{len(self._values)}"
        self._values[name] = value
        return f"%({name})s"

    def stored(self) -> Mapping[str, Any]:
        """As the driver takes them, and as Django's fields store them."""
        if connection.vendor == "postgresql":
            return self._values
        return dict(zip(self._values, adapted([*self._values.values()]), strict=True))


def figures(each: Iterable[str]) -> str:
    """The column `figures` made of these."""
    made = dialect().between_figures.join(each)
    return dialect().figures.format(made or dialect().no_figures)


def fetch(statement: str, parameters: Parameters) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters.stored())
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def execute(statement: str, parameters: Parameters) -> int:
    """The number of rows that it has written."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters.stored())
        return int(cursor.rowcount)


def is_chosen(column: str, users: Sequence[str], put: Callable[[Any], str]) -> str:
    """Whether a user is one of these, who are one parameter, however many they are."""
    return dialect().is_chosen.format(column, put(orjson.dumps(users).decode()))


@contextmanager
def planned(**settings: str) -> Iterator[None]:
    """Have PostgreSQL execute statements with these settings, for just after a large load it knows nothing of tables.

    Afterwards they are as they were before. In a transaction that is given up, they are by themselves.
    """
    if connection.vendor != "postgresql":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT array_agg(current_setting(name)) FROM unnest(%s::text[]) AS name", [[*settings]])
        [before] = cursor.fetchone()
        _set(cursor, [*settings], [*settings.values()])
        yield
        _set(cursor, [*settings], before)


def _set(cursor: Any, names: Sequence[str], values: Sequence[str]) -> None:
    """Until the transaction ends."""
    cursor.execute(
        "SELECT set_config(name, value, true) FROM unnest(%s::text[], %s::text[]) AS given (name, value)",
        [names, values],
    )
