"""Reading what totals come to by the values of an attribute of users: one statement over all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from django.db import connection

from experiments.models import Experiment, Exposure, UserTotal
from experiments.totals.dialects import as_stored
from experiments.totals.sums import EXPOSURES, VariantTotals, as_totals

MOST_VALUES = 20
_MOST_EXACT = 2.0**53

# The value as JSON, so that `true`, 1 and "1" are three, but 1 and 1.0 one. SQLite's paths mean different things in
# different versions.
_VALUE = {
    "postgresql": "attributes -> %s::text",
    "sqlite": """(
        SELECT CASE
            WHEN type IN ('true', 'false') THEN type
            WHEN type = 'real' AND value = CAST(value AS INTEGER) THEN json_quote(CAST(value AS INTEGER))
            ELSE json_quote(value)
        END
        FROM json_each(attributes) WHERE key = %s
    )""",
}
_STATEMENT = f"""
    WITH exposed AS (
        SELECT user_id, variant, is_in_several_variants, {{value}} AS value
        FROM {Exposure._meta.db_table} WHERE experiment_id = %s{{until}}
    ), named AS (
        SELECT value AS name FROM exposed WHERE value IS NOT NULL GROUP BY value ORDER BY COUNT(*) DESC, value LIMIT %s
    ), sliced AS (
        SELECT user_id, variant, is_in_several_variants, name, value IS NOT NULL AND name IS NULL AS is_rest
        FROM exposed LEFT JOIN named ON name = value
    ), capped AS (
        SELECT user_id, metric, variant, y AS uncapped, {{cap}} AS cap, d, x AS uncapped_x, events, "foreign"
        FROM {UserTotal._meta.db_table} WHERE experiment_id = %s
    ), of_user AS (
        SELECT user_id, metric, variant, d, events, "foreign",
            CASE WHEN uncapped > cap THEN cap ELSE uncapped END AS y,
            CASE WHEN uncapped_x > cap THEN cap ELSE uncapped_x END AS x
        FROM capped
    )
    SELECT name, is_rest, {EXPOSURES} AS metric, variant,
        COUNT(*), SUM(CASE WHEN is_in_several_variants THEN 1 ELSE 0 END), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
    FROM sliced GROUP BY name, is_rest, variant
    UNION ALL
    SELECT name, is_rest, metric, of_user.variant,
        SUM(CASE WHEN events > 0 THEN 1 ELSE 0 END), 0, SUM(CASE WHEN y > 0 THEN 1 ELSE 0 END),
        SUM(y), SUM(y * y), SUM(d), SUM(d * d), SUM(y * d), SUM(x), SUM(x * x), SUM(x * y),
        SUM(events), SUM("foreign")
    FROM of_user JOIN sliced ON sliced.user_id = of_user.user_id GROUP BY name, is_rest, metric, of_user.variant
"""  # noqa: S608 (no data)


@dataclass(slots=True)
class Slice:
    """The users with one value of the attribute: None where none was recorded, or `is_rest`, all other values."""

    value: str | bool | float | None
    is_rest: bool
    totals: dict[int, dict[str, VariantTotals]] = field(default_factory=dict)

    @property
    def users(self) -> int:
        return sum(each.users for each in self.totals.get(EXPOSURES, {}).values())


def read_breakdown(
    experiment: Experiment, attribute: str, caps: Mapping[int, float], most: int = MOST_VALUES
) -> list[Slice]:
    """The sums by the values that most users have, in that order; then those of all other values.

    `caps` are those in force, by the place of the metric: see `sums.read_caps`.
    """
    slices: dict[tuple[str | None, bool], Slice] = {}
    for name, is_rest, place, variant, *values in _rows(experiment, attribute, caps, most):
        found = slices.setdefault((name, bool(is_rest)), Slice(_parse(name), bool(is_rest)))
        found.totals.setdefault(place, {})[variant] = as_totals(values)
    return sorted(slices.values(), key=lambda each: (each.is_rest, -each.users, str(each.value)))


def _parse(name: str | None) -> str | bool | float | None:
    """The value of this JSON. Of 1 and 1.0, which are one, PostgreSQL tells the one or the other."""
    value: str | bool | float | None = None if name is None else orjson.loads(name)
    return int(value) if isinstance(value, float) and abs(value) < _MOST_EXACT and value.is_integer() else value


def _rows(experiment: Experiment, attribute: str, caps: Mapping[int, float], most: int) -> list[Any]:
    cases = "".join([" WHEN %s THEN %s"] * len(caps))
    until = "" if experiment.stopped_at is None else " AND exposed_at <= %s"
    statement = _STATEMENT.format(
        value=_VALUE[connection.vendor],
        until=until,
        cap=f"CASE metric{cases} END" if caps else "NULL::float8" if connection.vendor == "postgresql" else "NULL",
    )
    parameters: Sequence[Any] = [
        attribute,
        experiment.pk,
        *([experiment.stopped_at] if until else []),
        most,
        *(value for place_and_cap in caps.items() for value in place_and_cap),
        experiment.pk,
    ]
    with connection.cursor() as cursor:
        cursor.execute(statement, as_stored(parameters))
        rows: list[Any] = cursor.fetchall()
    return rows
