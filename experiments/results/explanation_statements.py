"""The SQL of explanations, for both databases: from raw events to the number that each condition leaves.

It shares nothing with the SQL of the totals, so that an explanation is an independent check of them. Quantiles are
counted alike, and caps are found alike, but the events are selected here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from django.db import connection

from config.database.insertion import adapt_row
from events.models import Event
from experiments.aggregates.dialects import Parameters
from experiments.aggregates.ranks import find_by_rank
from experiments.aggregates.value_counts import ValueCounts
from experiments.models import Experiment, Exposure

_LARGEST, _SMALLEST = "1e100", "1e-100"
"""A number beyond the first counts as the first, and a number nearer to 0 than the second counts as 0."""

_SCALAR = "CASE WHEN type IN ('true', 'false') THEN CAST(type AS BLOB) ELSE value END"
"""The value of a row of SQLite's `json_each`, where a boolean is 0 or 1. A BLOB differs from all texts and numbers."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The SQL expressions that differ between the two databases.

    The placeholder of a property is its name.
    """

    counted_at: str
    base: str  # the exposure, floored to its second
    later: str  # some seconds after that
    amount: str  # a property where it is a number, else NULL
    scalar: str  # what is different for different texts, numbers and booleans; NULL for a property of another type
    day: str  # the day of an event, in UTC
    currency: str  # in upper case
    stored: str  # a property; NULL where it is missing or null
    compared: str  # what a comparison says of the `value` of a property that has one of some types, else NULL
    types: Mapping[type, str]  # the JSON types by the types of Python
    is_wanted: str  # whether `value` is in a JSON list
    wanted: str  # a number, from JSON
    position: str  # of a text in `value`, from 1; 0 where it is not in there
    digits: str  # the order of a text of digits
    least: str


_DIALECTS = {
    "postgresql": Dialect(
        counted_at="LEAST(event.timestamp, event.received_at)",
        base="date_trunc('second', exposed_at)",
        later="base + make_interval(secs => %s)",
        amount=f"(SELECT CASE WHEN ABS(value::text::numeric) < {_SMALLEST} THEN 0 "  # noqa: S608 (no data)
        f"ELSE GREATEST(-{_LARGEST}, LEAST({_LARGEST}, value::text::numeric))::float8 END "
        "FROM (SELECT properties -> %s::text AS value) AS read WHERE jsonb_typeof(value) = 'number')",
        # JSON has quotes around a text, so that it differs from a number and from a boolean.
        scalar="(SELECT CASE jsonb_typeof(value) WHEN 'number' THEN trim_scale(value::text::numeric)::text "
        "WHEN 'string' THEN value::text WHEN 'boolean' THEN value::text END COLLATE \"C\" "
        "FROM (SELECT properties -> %s::text AS value) AS read)",
        day="date_trunc('day', LEAST(event.timestamp, event.received_at) AT TIME ZONE 'UTC')",
        currency="upper(properties ->> 'currency' COLLATE \"C\")",
        stored="(properties ->> %s::text)",
        compared="(SELECT {} FROM (SELECT properties -> %s::text AS value) AS read WHERE jsonb_typeof(value) IN ({}))",
        types={str: "'string'", bool: "'boolean'", int: "'number'", float: "'number'"},
        is_wanted="%s::jsonb @> value",
        wanted="%s::jsonb",
        position="position(%s::text IN value #>> '{}')",
        digits='{} COLLATE "C"',
        least="LEAST",
    ),
    # SQLite stores moments as text. A moment of a whole second sorts before all others in that second.
    "sqlite": Dialect(
        counted_at="MIN(event.timestamp, event.received_at)",
        base="substr(exposed_at, 1, 19)",
        later="datetime(base, %s || ' seconds')",
        amount=f"(SELECT CASE WHEN value > -{_SMALLEST} AND value < {_SMALLEST} THEN 0.0 "  # noqa: S608 (no data)
        f"ELSE CAST(MAX(-{_LARGEST}, MIN({_LARGEST}, value)) AS REAL) END FROM json_each(properties) "
        "WHERE key = %s AND type IN ('integer', 'real'))",
        scalar=f"(SELECT {_SCALAR} FROM json_each(properties) "  # noqa: S608 (no data)
        "WHERE key = %s AND type IN ('text', 'integer', 'real', 'true', 'false'))",
        day="substr(MIN(event.timestamp, event.received_at), 1, 10)",
        currency="upper(json_extract(properties, '$.currency'))",
        stored="(SELECT value FROM json_each(properties) WHERE key = %s)",
        compared="(SELECT {} FROM json_each(properties) WHERE key = %s AND type IN ({}))",
        types={str: "'text'", bool: "'true', 'false'", int: "'integer', 'real'", float: "'integer', 'real'"},
        is_wanted=f"{_SCALAR} IN (SELECT {_SCALAR} FROM json_each(%s))",  # noqa: S608 (no data)
        wanted="(SELECT value FROM json_each(%s))",
        position="instr(value, %s)",
        digits="{}",
        least="MIN",
    ),
}


@dataclass(frozen=True, slots=True)
class Sql:
    """An SQL expression or a query, and its parameters."""

    text: str
    parameters: Sequence[Any] = ()


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

    `summary` is one of `any`, `number`, `sum`, `mean` and `distinct`. The latter three are those of `value`, which is
    SQL over the columns of an event. Of a funnel with `steps`, `value` has the digits of the steps that the event
    meets, from 0; as with one more condition for each step, the events of the users count who passed it.
    """

    events: Sequence[str]
    conditions: Sequence[Condition]
    summary: str
    value: Sql
    steps: int = 0

    @property
    def length(self) -> int:
        """Return the number of conditions and steps that an event passes in order to count."""
        return len(self.conditions) + self.steps


_SUMMARIES = {
    "any": "1",
    "number": "COUNT(*)",
    "sum": "SUM(value)",
    "mean": "AVG(value)",
    "distinct": "COUNT(DISTINCT value)",
}
"""The value of a user from the events that count."""


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
    steps = range(selection.length + 1)
    figures = [f"COALESCE(SUM(left_{step}), 0), COUNT(*) FILTER (WHERE left_{step} > 0)" for step in steps]
    if cap is None:
        figures.append("COALESCE(SUM(y), 0), 0")
    else:
        figures.append(f"COALESCE(SUM({dialect().least}(y, %s)), 0), COUNT(*) FILTER (WHERE y > %s)")
        parameters += [cap, cap]
    statement = f"{query} SELECT phase, {', '.join(figures)} FROM of_user GROUP BY phase"  # noqa: S608 (no data)
    by_phase = {phase: _step_counts(*row) for phase, *row in fetch(Sql(statement, parameters))}
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
    [[users]] = fetch(Sql(f"{query} SELECT COUNT(*) FROM of_user WHERE y <> 0", parameters))  # noqa: S608 (no data)
    if not users:
        return None
    rank = users - math.ceil(Fraction(str(percent)) * users / 100)
    named = Parameters()
    measured = named.put_all(f"{query} SELECT y FROM of_user WHERE y <> 0", parameters)  # noqa: S608 (no data)
    value = find_by_rank("y", f"({measured}) AS measured", named, rank)
    return value if value is not None and value > 0 else None


def count_values(
    experiment: Experiment, selection: Selection, phases: Sequence[int], users: Mapping[str, int]
) -> ValueCounts:
    """Return the values of the events that count, of the users exposed in these phases, by their variants.

    `users` are the numbers of these users. The keys of the groups are the variants.
    """
    every, parameters = select_values(experiment, selection), Parameters()
    named = parameters.put_all(every.text, every.parameters)
    within = ", ".join(map(parameters.put, phases))
    valued = f"SELECT variant, user_id, value FROM ({named}) AS every WHERE phase IN ({within})"  # noqa: S608 (no data)
    return ValueCounts(valued, ["variant"], parameters, {(variant,): number for variant, number in users.items()})


def select_values(experiment: Experiment, selection: Selection) -> Sql:
    """Return a query of the phase, the variant and the user of each event that counts, in all variants, and its value.

    The columns are `phase`, `variant`, `user_id` and `value`.
    """
    query, parameters = _tested(experiment, selection, None)
    columns = "phase, variant, user_id, value"
    return Sql(f"{query} SELECT {columns} FROM tested WHERE passed = {selection.length}", parameters)  # noqa: S608 (no data)


def fetch(query: Sql) -> list[Any]:
    """Execute a query and return its rows."""
    values = adapt_row(query.parameters) if connection.vendor == "sqlite" else query.parameters
    with connection.cursor() as cursor:
        cursor.execute(query.text, values)
        rows: list[Any] = cursor.fetchall()
    return rows


def _of_users(
    experiment: Experiment, selection: Selection, variant: str | None, join: str = "JOIN"
) -> tuple[str, list[Any]]:
    """Return the beginning of a query that defines `of_user`, and its parameters.

    `of_user` has a row for each user with events of the name: how many each condition leaves, and the value `y`. Events
    that passed as many conditions are counted first, because PostgreSQL would test each of them for each condition.
    """
    query, parameters = _tested(experiment, selection, variant, join)
    summary = _SUMMARIES[selection.summary]
    steps = range(selection.length + 1)
    left = [f"SUM(events) FILTER (WHERE passed >= {step}) AS left_{step}" for step in steps]
    y = f"COALESCE(MAX(summary) FILTER (WHERE passed = {selection.length}), 0) AS y"
    query = f"""{query}, of_passed AS (
            SELECT user_id, phase, passed, COUNT(*) AS events, {summary} AS summary
            FROM tested GROUP BY user_id, phase, passed
        ), of_user AS (SELECT user_id, phase, {", ".join(left)}, {y} FROM of_passed GROUP BY user_id, phase)"""  # noqa: S608 (no data)
    return query, parameters


def _tested(
    experiment: Experiment, selection: Selection, variant: str | None, join: str = "JOIN"
) -> tuple[str, list[Any]]:
    """Return the beginning of a query that defines `tested`, and its parameters.

    `tested` has a row for each event of the name: how many of the conditions and steps it passed. With LEFT JOIN it has
    those of users who are not exposed, too. Without a variant, the exposed users are those of all variants. Each part
    is used once, because Citus has the coordinator store what is used twice.
    """
    conditions = selection.conditions
    passed = " ".join(f"WHEN ({condition.sql}) IS NOT TRUE THEN {step}" for step, condition in enumerate(conditions))
    exposed, parameters = _exposed(experiment, variant)
    own = dialect()
    query = f"""
        WITH exposed AS ({exposed}), happened AS (
            SELECT event.user_id, event.experiment, {own.counted_at} AS counted_at, base, phase, exposed.variant,
                properties, {selection.value.text} AS value, {own.currency} AS currency
            FROM {Event._meta.db_table} AS event {join} exposed ON exposed.user_id = event.user_id
            WHERE event.environment_id = %s AND event.name IN ({", ".join(["%s"] * len(selection.events))})
        ), {"met" if selection.steps else "tested"} AS (
            SELECT user_id, phase, variant, value, counted_at,
                CASE {passed} ELSE {len(conditions)} END AS passed FROM happened
        )"""  # noqa: S608 (no data)
    if selection.steps:
        query = ", ".join([query, *_through_steps(len(conditions), selection.steps)])
    of_conditions = [parameter for condition in conditions for parameter in condition.parameters]
    value, events = selection.value.parameters, selection.events
    return query, [*parameters, *value, experiment.environment_id, *events, *of_conditions]


def _through_steps(conditions: int, steps: int) -> Iterator[str]:
    """Yield the parts of a query that define `tested` for a funnel, from the same columns of `met`.

    The first event of a user that meets step 1 passes it, then the first later one that meets step 2 passes that, and
    so on. Events of one moment are in the order of their steps (see `metrics.conditions.count_steps_passed`).
    """
    order = f"counted_at, {dialect().digits.format('value')}"
    yield f"""passed_0 AS (SELECT user_id, phase, variant, value, passed, 0 AS place_0,
        ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY {order}) AS place FROM met)"""  # noqa: S608 (no data)
    for step in range(steps):
        is_next = f"passed = {conditions} AND value LIKE '%%{step}%%' AND place > place_{step}"
        first = f"MIN(place) FILTER (WHERE {is_next}) OVER (PARTITION BY user_id)"
        yield f"passed_{step + 1} AS (SELECT *, {first} AS place_{step + 1} FROM passed_{step})"  # noqa: S608 (no data)
    failed = " ".join(f"WHEN place_{step + 1} IS NULL THEN {conditions + step}" for step in range(steps))
    passed = f"CASE WHEN passed < {conditions} THEN passed {failed} ELSE {conditions + steps} END"
    yield f"tested AS (SELECT user_id, phase, variant, value, {passed} AS passed FROM passed_{steps})"  # noqa: S608 (no data)


def _exposed(experiment: Experiment, variant: str | None) -> tuple[str, list[Any]]:
    required: Mapping[str, Any] = {
        "experiment_id = %s": experiment.pk,
        "variant = %s": variant,
        "exposed_at <= %s": experiment.stopped_at,
    }
    conditions = [condition for condition, value in required.items() if value is not None]
    columns, table = f"user_id, phase, variant, {dialect().base} AS base", Exposure._meta.db_table
    statement = f"SELECT {columns} FROM {table} WHERE {' AND '.join(conditions)}"  # noqa: S608 (no data)
    return statement, [value for value in required.values() if value is not None]
