"""The SQL of explanations, for both databases: from raw events to the number that each condition leaves.

It shares nothing with the SQL of the totals, so that an explanation is an independent check of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any

import orjson
from django.db import connection

from config.database.insertion import adapt_row
from config.timestamps import parse_timestamp
from events.models import Event
from experiments.models import Experiment, Exposure

_LARGEST, _SMALLEST = "1e100", "1e-100"
"""A number beyond the first counts as the first, and a number nearer to 0 than the second counts as 0."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The SQL expressions that differ between the two databases."""

    counted_at: str
    base: str  # the exposure, floored to its second
    later: str  # some seconds after that
    amount: str  # a property where it is a number, else NULL
    currency: str  # in upper case
    least: str


_DIALECTS = {
    "postgresql": Dialect(
        counted_at="LEAST(event.timestamp, event.received_at)",
        base="date_trunc('second', exposed_at)",
        later="base + make_interval(secs => %s)",
        amount=f"(SELECT CASE WHEN ABS(value::text::numeric) < {_SMALLEST} THEN 0 "  # noqa: S608 (no data)
        f"ELSE GREATEST(-{_LARGEST}, LEAST({_LARGEST}, value::text::numeric))::float8 END "
        "FROM (SELECT event.properties -> %s::text AS value) AS read WHERE jsonb_typeof(value) = 'number')",
        currency="upper(event.properties ->> 'currency' COLLATE \"C\")",
        least="LEAST",
    ),
    # SQLite stores moments as text. A moment of a whole second sorts before all others in that second.
    "sqlite": Dialect(
        counted_at="MIN(event.timestamp, event.received_at)",
        base="substr(exposed_at, 1, 19)",
        later="datetime(base, %s || ' seconds')",
        amount=f"(SELECT CASE WHEN value > -{_SMALLEST} AND value < {_SMALLEST} THEN 0.0 "  # noqa: S608 (no data)
        f"ELSE CAST(MAX(-{_LARGEST}, MIN({_LARGEST}, value)) AS REAL) END FROM json_each(event.properties) "
        "WHERE key = %s AND type IN ('integer', 'real'))",
        currency="upper(json_extract(event.properties, '$.currency'))",
        least="MIN",
    ),
}


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition that an event must meet, in words and in SQL over the columns of `happened`."""

    name: str
    description: str
    sql: str
    parameters: Sequence[Any] = ()


@dataclass(frozen=True, slots=True)
class Selection:
    """The names of the events, the conditions under which they count, and how they give the value of one user.

    `value` is one of `any`, `number`, `sum` and `mean`. `sum` and `mean` are those of `property`.
    """

    events: Sequence[str]
    conditions: Sequence[Condition]
    value: str
    property: str


@dataclass(frozen=True, slots=True)
class StepCounts:
    """The numbers of events and users that the conditions leave, and what the values of these users add up to.

    `left` begins with the events of the name; each further entry applies one more condition. `total` is the sum of
    the values of the users, each at most the cap. `capped` is the number of users with a greater value.
    """

    left: Sequence[tuple[int, int]]
    total: float
    capped: int

    def __add__(self, other: StepCounts) -> StepCounts:
        """Return the counts of both groups of users, which have no user in common."""
        steps = zip(self.left, other.left, strict=True)
        left = [(rows + other_rows, users + other_users) for (rows, users), (other_rows, other_users) in steps]
        return StepCounts(left, self.total + other.total, self.capped + other.capped)


def dialect() -> Dialect:
    return _DIALECTS[connection.vendor]


def count_steps(
    experiment: Experiment, variant: str, selection: Selection, cap: float | None
) -> Mapping[int | None, StepCounts]:
    """Return the counts by phase of the exposure, and under None those of users not exposed to the variant.

    This takes one statement, which reads all events of the name in the environment.
    """
    query, parameters = _of_users(experiment, selection, variant, "LEFT JOIN")
    steps = range(len(selection.conditions) + 1)
    figures = [f"COALESCE(SUM(left_{step}), 0), COUNT(*) FILTER (WHERE left_{step} > 0)" for step in steps]
    if cap is None:
        figures.append("COALESCE(SUM(y), 0), 0")
    else:
        figures.append(f"COALESCE(SUM({dialect().least}(y, %s)), 0), COUNT(*) FILTER (WHERE y > %s)")
        parameters += [cap, cap]
    statement = f"{query} SELECT phase, {', '.join(figures)} FROM of_user GROUP BY phase"  # noqa: S608 (no data)
    by_phase = {phase: _step_counts(*row) for phase, *row in _fetch(statement, parameters)}
    nothing = StepCounts([(0, 0) for _ in steps], 0.0, 0)
    return {phase: by_phase.get(phase, nothing) for phase in (None, *range(1, max(1, len(experiment.phases)) + 1))}


def _step_counts(*figures: Any) -> StepCounts:
    *counts, total, capped = figures
    left = [(int(rows), users) for rows, users in zip(counts[::2], counts[1::2], strict=True)]
    return StepCounts(left, float(total), capped)


def find_percentile(experiment: Experiment, selection: Selection, percent: float) -> float | None:
    """Return a percentile (50 to 100) of the values other than 0 of the users of all variants, by nearest rank.

    Return None without such values, and where the percentile is below 0, because users without events count as 0.
    """
    query, parameters = _of_users(experiment, selection, None)
    [[users]] = _fetch(f"{query} SELECT COUNT(*) FROM of_user WHERE y <> 0", parameters)  # noqa: S608 (no data)
    if not users:
        return None
    # From above, few values are sorted, and sent by the workers of Citus, to which a rank for each user would be all.
    rank = users - math.ceil(Fraction(str(percent)) * users / 100)
    statement = f"{query} SELECT y FROM of_user WHERE y <> 0 ORDER BY y DESC LIMIT 1 OFFSET {rank}"  # noqa: S608 (no data)
    [[value]] = _fetch(statement, parameters)
    return float(value) if value > 0 else None


@dataclass(frozen=True, slots=True)
class Row:
    """An event of an exposed user."""

    user_id: str
    phase: int
    name: str
    counted_at: datetime
    properties: Mapping[str, Any]


def read_rows(experiment: Experiment, variant: str | None, selection: Selection) -> Iterator[Row]:
    """Yield the events that meet all conditions of a selection. Without a variant, those of all variants."""
    query, parameters = _tested(experiment, selection, variant)
    statement = f"""{query} SELECT user_id, phase, name, counted_at, properties FROM tested
        WHERE passed = {len(selection.conditions)}"""  # noqa: S608 (no data)
    for user_id, phase, name, counted_at, properties in _fetch(statement, parameters):
        moment = parse_timestamp(counted_at) if isinstance(counted_at, str) else counted_at
        read = orjson.loads(properties) if isinstance(properties, str) else properties
        yield Row(user_id, phase, name, moment, read)


def _of_users(
    experiment: Experiment, selection: Selection, variant: str | None, join: str = "JOIN"
) -> tuple[str, list[Any]]:
    """Return the beginning of a query that defines `of_user`, and its parameters.

    `of_user` has a row for each user with events of the name: how many each condition leaves, and the value `y`.
    """
    query, parameters = _tested(experiment, selection, variant, join)
    steps = range(len(selection.conditions) + 1)
    left = [f"COUNT(*) FILTER (WHERE passed >= {step}) AS left_{step}" for step in steps]
    columns = f"user_id, phase, {', '.join(left)}, {_value(selection)} AS y"
    return f"{query}, of_user AS (SELECT {columns} FROM tested GROUP BY user_id, phase)", parameters  # noqa: S608 (no data)


def _tested(
    experiment: Experiment, selection: Selection, variant: str | None, join: str = "JOIN"
) -> tuple[str, list[Any]]:
    """Return the beginning of a query that defines `tested`, and its parameters.

    `tested` has a row for each event of the name: how many of the conditions it passed. With LEFT JOIN it has those of
    users who are not exposed, too. Without a variant, the exposed users are those of all variants. Each part is used
    once, because Citus has the coordinator store what is used twice.
    """
    conditions = selection.conditions
    passed = " ".join(f"WHEN ({condition.sql}) IS NOT TRUE THEN {step}" for step, condition in enumerate(conditions))
    exposed, parameters = _exposed(experiment, variant)
    own = dialect()
    query = f"""
        WITH exposed AS ({exposed}), happened AS (
            SELECT event.user_id, event.experiment, {own.counted_at} AS counted_at, base, phase,
                event.name, event.properties, {own.amount} AS amount, {own.currency} AS currency
            FROM {Event._meta.db_table} AS event {join} exposed ON exposed.user_id = event.user_id
            WHERE event.environment_id = %s AND event.name IN ({", ".join(["%s"] * len(selection.events))})
        ), tested AS (
            SELECT user_id, phase, amount, name, counted_at, properties,
                CASE {passed} ELSE {len(conditions)} END AS passed FROM happened
        )"""  # noqa: S608 (no data)
    of_conditions = [parameter for condition in conditions for parameter in condition.parameters]
    return query, [*parameters, selection.property, experiment.environment_id, *selection.events, *of_conditions]


def _exposed(experiment: Experiment, variant: str | None) -> tuple[str, list[Any]]:
    required: Mapping[str, Any] = {
        "experiment_id = %s": experiment.pk,
        "variant = %s": variant,
        "exposed_at <= %s": experiment.stopped_at,
    }
    conditions = [condition for condition, value in required.items() if value is not None]
    columns, table = f"user_id, phase, {dialect().base} AS base", Exposure._meta.db_table
    statement = f"SELECT {columns} FROM {table} WHERE {' AND '.join(conditions)}"  # noqa: S608 (no data)
    return statement, [value for value in required.values() if value is not None]


def _value(selection: Selection) -> str:
    counts = f"FILTER (WHERE passed = {len(selection.conditions)})"
    return {
        "any": f"CASE WHEN COUNT(*) {counts} > 0 THEN 1 ELSE 0 END",
        "number": f"COUNT(*) {counts}",
        "sum": f"COALESCE(SUM(amount) {counts}, 0)",
        "mean": f"COALESCE(AVG(amount) {counts}, 0)",
    }[selection.value]


def _fetch(statement: str, parameters: Sequence[Any]) -> list[Any]:
    values = adapt_row(parameters) if connection.vendor == "sqlite" else parameters
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        rows: list[Any] = cursor.fetchall()
    return rows
