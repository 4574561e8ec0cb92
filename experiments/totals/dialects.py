"""What the two databases write differently in the statements of totals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import connection

from config.insertion import adapted

_LARGEST = "1e100"
"""What a greater number counts as, so that squares can always be added up."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """What the two databases write differently. SQLite's moments are texts, in the order of time."""

    counted_at: str
    base: str  # the exposure, floored to its second
    later: str  # so many seconds after the base
    day: str
    number: str  # the property of a name where it is a number, else NULL
    text: str  # the same for a text
    is_chosen: str  # whether the user is one of those given
    fence: str  # what keeps a subquery from being executed in another way than by itself
    barrier: str = ""  # a fence where it pays that columns are computed once, and not for each row of a join


_DIALECTS = {
    "postgresql": Dialect(
        counted_at="LEAST(timestamp, received_at)",
        base="date_trunc('second', exposed_at)",
        later="base + {} * interval '1 second'",
        day="(exposed_at AT TIME ZONE 'UTC')::date",
        number="CASE WHEN jsonb_typeof(properties -> {0}::text) = 'number' THEN "
        f"GREATEST(-{_LARGEST}, LEAST({_LARGEST}, (properties -> {{0}}::text)::numeric)) END",
        text="properties ->> {}::text",
        is_chosen="user_id = ANY (ARRAY(SELECT jsonb_array_elements_text({}::jsonb)))",
        fence="OFFSET 0",
        barrier="OFFSET 0",
    ),
    # Its paths into JSON mean different things in different versions.
    "sqlite": Dialect(
        counted_at="MIN(timestamp, received_at)",
        base="substr(exposed_at, 1, 19)",
        later="datetime(base, {} || ' seconds')",
        day="substr(exposed_at, 1, 10)",
        number=f"(SELECT CAST(MAX(-{_LARGEST}, MIN({_LARGEST}, value)) AS REAL) FROM json_each(properties) "  # noqa: S608 (no data)
        "WHERE key = {} AND type IN ('integer', 'real'))",
        text="(SELECT value FROM json_each(properties) WHERE key = {} AND type = 'text')",
        is_chosen="user_id IN (SELECT value FROM json_each({}))",
        fence="LIMIT -1",
    ),
}


def dialect() -> Dialect:
    return _DIALECTS[connection.vendor]


def as_stored(parameters: Sequence[Any]) -> Sequence[Any]:
    """Parameters as the driver takes them, and as Django's fields store them."""
    return parameters if connection.vendor == "postgresql" else adapted(parameters)


@contextmanager
def planned_without(*ways: str) -> Iterator[None]:
    """Have PostgreSQL avoid these ways to execute a statement, of which it thinks too well before it knows the tables.

    Just after a large load it knows nothing of them. In a transaction that is given up, all is as before.
    """
    settings = [f"enable_{way}" for way in ways] if connection.vendor == "postgresql" else []
    with connection.cursor() as cursor:
        for name in settings:
            cursor.execute(f"SET LOCAL {name} = off")
        yield
        for name in settings:
            cursor.execute(f"SET LOCAL {name} TO DEFAULT")
