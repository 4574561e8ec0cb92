"""Reading the sums of totals by the values of a user attribute, in one statement."""

from __future__ import annotations

from dataclasses import dataclass, field

import orjson
from django.db import connection

from experiments.aggregates.dialects import Parameters
from experiments.aggregates.variant_sums import EXPOSURES, Caps, Phases, VariantTotals, counted, sum_up
from experiments.models import Experiment, Exposure, UserTotal

MOST_VALUES = 20
_MOST_EXACT = 2.0**53

# The value is JSON, so that `true`, 1 and "1" differ, but 1 and 1.0 do not. SQLite's JSON paths are avoided because
# their meaning differs between versions.
_VALUE = {
    "postgresql": "attributes -> {}::text",
    "sqlite": """(
        SELECT CASE
            WHEN type IN ('true', 'false') THEN type
            WHEN type = 'real' AND value = CAST(value AS INTEGER) THEN json_quote(CAST(value AS INTEGER))
            ELSE json_quote(value)
        END
        FROM json_each(attributes) WHERE key = {}
    )""",
}


@dataclass(slots=True)
class Slice:
    """The users with one value of the attribute; None where no value was recorded. `is_rest` means all other values."""

    value: str | bool | float | None
    is_rest: bool
    totals: dict[int, dict[str, VariantTotals]] = field(default_factory=dict)

    @property
    def users(self) -> int:
        return sum(totals.users for totals in self.totals.get(EXPOSURES, {}).values())


def read_breakdown(
    experiment: Experiment, attribute: str, caps: Caps, phases: Phases = None, most: int = MOST_VALUES
) -> list[Slice]:
    """Return the sums of the users of these phases by attribute value, the most frequent first, and the rest last.

    `caps` are those in force (see `variant_sums.read_caps`); at most `most` values have a slice of their own.
    """
    parameters = Parameters()
    rows = _with_values(experiment, attribute, phases, most, parameters)
    slices: dict[tuple[str | None, bool], Slice] = {}
    summed = sum_up(rows, ["name", "is_rest", "variant"], counted(experiment, caps), parameters)
    for (metric_index, name, is_rest, variant), totals in summed.items():
        part = slices.setdefault((name, bool(is_rest)), Slice(_parse(name), bool(is_rest)))
        part.totals.setdefault(metric_index, {})[variant] = totals
    return sorted(slices.values(), key=lambda part: (part.is_rest, -part.users, str(part.value)))


def _with_values(experiment: Experiment, attribute: str, phases: Phases, most: int, parameters: Parameters) -> str:
    """Return SQL for the rows of totals, each with its value as `name`, or with `is_rest`."""
    put = parameters.put
    until = "" if experiment.stopped_at is None else f" AND exposed_at <= {put(experiment.stopped_at)}"
    within = "" if phases is None else f" AND phase IN ({', '.join(map(put, sorted(phases)))})"
    return f"""(
        WITH exposed AS (
            SELECT user_id, {_VALUE[connection.vendor].format(put(attribute))} AS value
            FROM {Exposure._meta.db_table} WHERE experiment_id = {put(experiment.pk)}{until}{within}
        ), named AS (
            SELECT value AS name FROM exposed WHERE value IS NOT NULL
            GROUP BY value ORDER BY COUNT(*) DESC, value LIMIT {put(most)}
        )
        SELECT total.*, name, value IS NOT NULL AND name IS NULL AS is_rest
        FROM {UserTotal._meta.db_table} AS total JOIN exposed ON exposed.user_id = total.user_id
            LEFT JOIN named ON name = value
        WHERE total.experiment_id = {put(experiment.pk)}
    ) AS sliced"""  # noqa: S608 (no data)


def _parse(name: str | None) -> str | bool | float | None:
    """Return the value of this JSON. 1 and 1.0 are equal, and PostgreSQL returns either of them."""
    value: str | bool | float | None = None if name is None else orjson.loads(name)
    return int(value) if isinstance(value, float) and abs(value) < _MOST_EXACT and value.is_integer() else value
