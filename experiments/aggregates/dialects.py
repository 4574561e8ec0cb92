"""The parts of the statements on totals that SQLite and PostgreSQL write differently."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import orjson
from django.db import connection

from config.database.engines import Engine, engine, is_distributed
from config.database.insertion import adapt_row, array

_ROWS_AT_ONCE = 10_000
_LARGEST, _SMALLEST = "1e100", "1e-100"
"""Greater numbers count as the largest, and smaller ones as 0, so that floats can hold the squares of all values."""


JSON_TEXT = """CASE
    WHEN type IN ('true', 'false') THEN type
    WHEN type = 'real' AND value = CAST(value AS INTEGER) THEN json_quote(CAST(value AS INTEGER))
    ELSE json_quote(value)
END"""
"""SQLite's JSON of a row of `json_each`, so that `true`, 1 and "1" differ, but 1 and 1.0 do not."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """Pieces of SQL for one database. Timestamps on SQLite are texts that sort by time."""

    counted_at: str  # the moment of an event
    base: str  # the exposure, floored to its second
    later: str  # the base plus a number of seconds
    day: str  # of the exposure, in UTC
    day_of: str  # of a moment, in UTC
    effective_day: str  # of an event, in UTC, or of the exposure if that is later
    days_between: str  # the number of whole days from a moment to a later one
    microseconds: str  # the number of microseconds from 1970 to a moment, exact until 2106
    number: str  # the property with a name if it is a number, else NULL
    text: str  # the property with a name if it is a text, else NULL
    upper: str  # a text with the letters A to Z in upper case
    scalar: str  # the property with a name as JSON if it is a text, a number or a boolean, else NULL
    event_day: str  # the day of an event, in UTC
    list_of: str  # an aggregate: the list of some values
    distinct: str  # the number of different values of such a list
    sort_key: str  # a moment as a text of 26 characters that sorts by time
    letters: str  # such a list in order, as a table with the text after all keys as its column `letters`
    is_chosen: str  # whether a user is in an array, which is JSON on SQLite
    figures: str  # builds the column `figures` from values
    stored_figure: str  # one of these values
    between_figures: str
    no_figures: str
    figure: str  # a value of a column such as `figures`, by its index from 0
    stored: str  # a number as it is read from such a column after it was stored
    added_amount: str  # a float plus an amount, which is NULL where there is nothing to add
    exact: str  # a float as an exact number
    exact_sum: str
    exact_difference: str  # the sum of exact numbers, minus the sum of others
    exact_added: str  # a stored exact sum plus another one
    place: str  # of a user's row in its table, until the row is written again
    looked_up: str  # joins the row of each user in a table with the key (experiment_id, user_id)
    fence: str  # keeps the planner from merging a subquery into its surroundings
    fence_column: str  # does so as the last column of a subquery that only adds expressions


_DIALECTS = {
    Engine.POSTGRESQL: Dialect(
        counted_at="LEAST(timestamp, received_at)",
        # This rounds an exact half up. Truncating takes five times as long.
        base="(exposed_at - interval '0.5 seconds')::timestamptz(0)",
        later="{} + {} * interval '1 second'",
        day="(exposed_at AT TIME ZONE 'UTC')::date",
        day_of="(({}) AT TIME ZONE 'UTC')::date",
        effective_day="(GREATEST(LEAST(timestamp, received_at), exposed_at) AT TIME ZONE 'UTC')::date",
        days_between="FLOOR(EXTRACT(EPOCH FROM ({1}) - ({0})) / 86400)::int",
        microseconds="round(date_part('epoch', {}) * 1000000)",
        number="CASE WHEN jsonb_typeof(properties -> {0}::text) = 'number' THEN "
        f"CASE WHEN ABS((properties -> {{0}}::text)::numeric) < {_SMALLEST} THEN 0 ELSE "
        f"GREATEST(-{_LARGEST}, LEAST({_LARGEST}, (properties -> {{0}}::text)::numeric)) END END",
        text="properties ->> {}::text",
        upper='upper({} COLLATE "C")',
        scalar="CASE WHEN jsonb_typeof(properties -> {0}::text) IN ('string', 'number', 'boolean') "
        "THEN properties -> {0}::text END",
        event_day="(LEAST(timestamp, received_at) AT TIME ZONE 'UTC')::date",
        list_of="array_agg({})",
        distinct="(SELECT COUNT(DISTINCT listed) FROM unnest({}) AS listed)",
        sort_key="to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')",
        letters="(SELECT string_agg(substr(listed, 27), '' ORDER BY listed COLLATE \"C\") AS letters "
        "FROM unnest({}) AS listed) AS ordered",
        # A constant array, which PostgreSQL hashes if it compares each user of an experiment with it.
        is_chosen="{} = ANY ({}::text[])",
        figures="ARRAY[{}]::float8[]",
        # Most figures of most users are 0. In an array, NULL takes one bit, so that more totals fit into a page.
        stored_figure="NULLIF({}, 0)",
        between_figures=", ",
        no_figures="",
        figure="COALESCE({}[{} + 1], 0)",
        stored="{}",
        # A float becomes a decimal of 15 digits, so that 0.1 + 0.2 is 0.3, as a sum of decimals is.
        added_amount="CASE WHEN {1} IS NULL THEN {0} ELSE ({0}::numeric + {1})::float8 END",
        exact="{}::numeric",
        exact_sum="SUM({})",
        exact_difference="SUM({} - {})",
        exact_added="{} + {}",
        place="ctid",
        # An experiment that is new to the statistics seems to have one row, which any index on experiments finds. Only
        # the index of the key has the order, so it is chosen for certain where `enable_sort` is off. With an equality
        # in place of the two comparisons, there would be nothing to order.
        looked_up="JOIN LATERAL (SELECT {columns} FROM {table} AS {name} WHERE experiment_id = {experiment} "
        "AND {name}.user_id >= {user} AND {name}.user_id <= {user} ORDER BY {name}.user_id) AS {name} "
        "ON {name}.user_id = {user}",
        fence="OFFSET 0",
        fence_column="",
    ),
    # JSON paths mean different things in different versions, except for indexes of arrays.
    Engine.SQLITE: Dialect(
        counted_at="MIN(timestamp, received_at)",
        base="substr(exposed_at, 1, 19)",
        later="datetime({}, {} || ' seconds')",
        day="substr(exposed_at, 1, 10)",
        day_of="substr({}, 1, 10)",
        effective_day="substr(MAX(MIN(timestamp, received_at), exposed_at), 1, 10)",
        days_between="((CAST(strftime('%%s', substr({1}, 1, 19)) AS INTEGER) - CAST(strftime('%%s', {0}) AS INTEGER)) "
        "/ 86400)",
        microseconds="(CAST(strftime('%%s', substr({0}, 1, 19)) AS INTEGER) * 1000000 "
        "+ CAST(substr({0} || '.000000', 21, 6) AS INTEGER))",
        number=f"(SELECT CASE WHEN value > -{_SMALLEST} AND value < {_SMALLEST} THEN 0.0 "  # noqa: S608 (no data)
        f"ELSE CAST(MAX(-{_LARGEST}, MIN({_LARGEST}, value)) AS REAL) END FROM json_each(properties) "
        "WHERE key = {} AND type IN ('integer', 'real'))",
        text="(SELECT value FROM json_each(properties) WHERE key = {} AND type = 'text')",
        upper="upper({})",
        # `|| ''` makes it a text: a list would take in the JSON itself, where "true" is the type of a boolean, too.
        scalar=f"(SELECT {JSON_TEXT} || '' FROM json_each(properties) "  # noqa: S608 (no data)
        "WHERE key = {} AND type IN ('text', 'integer', 'real', 'true', 'false'))",
        event_day="substr(MIN(timestamp, received_at), 1, 10)",
        list_of="json_group_array({})",
        distinct="(SELECT COUNT(DISTINCT value) FROM json_each({}))",
        sort_key="substr({} || '.000000', 1, 26)",
        letters="(SELECT group_concat(substr(value, 27), '') AS letters "
        "FROM (SELECT value FROM json_each({}) ORDER BY value LIMIT -1)) AS ordered",
        is_chosen="{} IN (SELECT value FROM json_each({}))",
        # JSON by concatenation, because json_array() takes too few arguments.
        figures="'[' || {} || ']'",
        stored_figure="{}",
        between_figures=" || ',' || ",
        no_figures="''",
        figure="COALESCE(json_extract({}, '$[{}]'), 0)",
        stored="CAST({} || '' AS REAL)",  # texts have 15 digits
        added_amount="COALESCE({0} + {1}, {0})",
        exact="{}",
        exact_sum="exact_sum({})",
        exact_difference="exact_difference({}, {})",
        exact_added="exact_added({}, {})",
        place="rowid",
        looked_up="JOIN {table} AS {name} ON {name}.experiment_id = {experiment} AND {name}.user_id = {user}",
        fence="LIMIT -1",
        fence_column="",
    ),
}
# For a fence, Citus would send the rows of all users to the coordinator. A function that returns rows is kept apart,
# too, and Citus has workers execute it. By a constant array, Citus would leave out servers, and replace their tables by
# empty ones without keys, which statements need that group by these.
_DIALECTS[Engine.CITUS] = replace(
    _DIALECTS[Engine.POSTGRESQL],
    is_chosen="{} = ANY (ARRAY(SELECT unnest({}::text[])))",
    fence="",
    fence_column=", unnest(ARRAY[1]) AS fence",
)


def dialect() -> Dialect:
    return _DIALECTS[engine()]


class Parameters:
    """The parameters of a statement, named in the order in which they are added. Equal ones have one name."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._names: dict[tuple[type, Any], str] = {}

    def put(self, value: Any) -> str:
        """Add a parameter and return its placeholder."""
        same = tuple(value) if isinstance(value, list) else value
        name = self._names.setdefault((type(value), same), f"p{len(self._values)}")
        self._values[name] = value
        return f"%({name})s"

    def put_all(self, statement: str, values: Iterable[Any]) -> str:
        """Add the parameters of a statement whose placeholders have no names, and return it with names."""
        return statement.replace("%%", "%%%%") % tuple(map(self.put, values))

    def stored(self) -> Mapping[str, Any]:
        """Return the values as the driver takes them and as Django's fields store them."""
        if connection.vendor == "postgresql":
            return self._values
        return dict(zip(self._values, adapt_row([*self._values.values()]), strict=True))


def figures(values: Iterable[str]) -> str:
    """Return SQL that builds the column `figures` from these values."""
    joined = dialect().between_figures.join(map(dialect().stored_figure.format, values))
    return dialect().figures.format(joined or dialect().no_figures)


def fetch(statement: str, parameters: Parameters) -> list[tuple[Any, ...]]:
    """Execute a statement and return its rows."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters.stored())
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def fetch_in_chunks(statement: str, parameters: Parameters) -> Generator[tuple[Any, ...], None, None]:
    """Execute a statement and yield its rows, some thousands at a time. Call it within a transaction."""
    with connection.chunked_cursor() as cursor:
        cursor.execute(statement, parameters.stored())
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            yield from rows


def execute(statement: str, parameters: Parameters) -> int:
    """Execute a statement and return the number of rows that it wrote."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters.stored())
        return int(cursor.rowcount)


def is_chosen(column: str, users: Sequence[str], put: Callable[[Any], str]) -> str:
    """Return SQL that says whether a user is one of these; they are one parameter, however many there are."""
    given = array(users) or "{}" if connection.vendor == "postgresql" else orjson.dumps(users).decode()
    return dialect().is_chosen.format(column, put(given))


@contextmanager
def planned(**settings: str) -> Iterator[None]:
    """Have PostgreSQL execute statements with these planner settings; right after a large load it lacks statistics.

    The settings are put back at the end of the block. A rollback puts them back by itself.
    """
    if connection.vendor != "postgresql":
        yield
        return
    with connection.cursor() as cursor:
        before = _set(cursor, [*settings], [*settings.values()])
        yield
        _set(cursor, [*settings], before)


def _set(cursor: Any, names: Sequence[str], values: Sequence[str]) -> Sequence[str]:
    """Change settings until the transaction ends, and return what they were before."""
    if is_distributed():
        return _set_on_workers(cursor, names, values)
    cursor.execute(
        "WITH given AS MATERIALIZED (SELECT name, value, current_setting(name) AS before "
        "FROM unnest(%s::text[], %s::text[]) AS given (name, value)) "
        "SELECT array_agg(before), array_agg(set_config(name, value, true)) FROM given",
        [names, values],
    )
    before: Sequence[str] = cursor.fetchone()[0]
    return before


def _set_on_workers(cursor: Any, names: Sequence[str], values: Sequence[str]) -> Sequence[str]:
    """Do what `_set` does by commands, which Citus passes on to its workers, unlike functions."""
    cursor.execute("SELECT ARRAY(SELECT current_setting(name) FROM unnest(%s::text[]) AS name)", [names])
    before: Sequence[str] = cursor.fetchone()[0]
    cursor.execute("SET LOCAL citus.propagate_set_commands = 'local'")
    for name, value in zip(names, values, strict=True):
        cursor.execute(f"SET LOCAL {name} = %s", [value])
    return before
