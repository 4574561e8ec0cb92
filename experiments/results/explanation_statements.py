"""The statements behind explanations: from raw events to what each condition leaves of them, on either database.

They share nothing with those of the totals, whose check they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from config.database.insertion import adapt_row
from events.models import Event
from experiments.models import Experiment, Exposure

_LARGEST, _SMALLEST = "1e100", "1e-100"
"""What a greater number counts as, and what is nearer to 0 and counts as that."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """What the two databases write differently."""

    counted_at: str
    base: str  # the exposure, floored to its second
    later: str  # some seconds after that
    amount: str  # a property where it is a number, else NULL
    currency: str
    least: str


_DIALECTS = {
    "postgresql": Dialect(
        counted_at="LEAST(event.timestamp, event.received_at)",
        base="date_trunc('second', exposed_at)",
        later="base + make_interval(secs => %s)",
        amount=f"(SELECT CASE WHEN ABS(value::text::numeric) < {_SMALLEST} THEN 0 "  # noqa: S608 (no data)
        f"ELSE GREATEST(-{_LARGEST}, LEAST({_LARGEST}, value::text::numeric))::float8 END "
        "FROM (SELECT event.properties -> %s::text AS value) AS found WHERE jsonb_typeof(value) = 'number')",
        currency="event.properties ->> 'currency'",
        least="LEAST",
    ),
    # Moments are texts there, of which those of whole seconds come before all others in their second.
    "sqlite": Dialect(
        counted_at="MIN(event.timestamp, event.received_at)",
        base="substr(exposed_at, 1, 19)",
        later="datetime(base, %s || ' seconds')",
        amount=f"(SELECT CASE WHEN value > -{_SMALLEST} AND value < {_SMALLEST} THEN 0.0 "  # noqa: S608 (no data)
        f"ELSE CAST(MAX(-{_LARGEST}, MIN({_LARGEST}, value)) AS REAL) END FROM json_each(event.properties) "
        "WHERE key = %s AND type IN ('integer', 'real'))",
        currency="json_extract(event.properties, '$.currency')",
        least="MIN",
    ),
}


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition under which an event counts, in words and in SQL over the columns of `happened`."""

    name: str
    description: str
    sql: str
    parameters: Sequence[Any] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """Which events are asked about, under which conditions they count, and what is made of those of one user.

    `value` is one of `any`, `number`, `sum` and `mean`; these last two are of `property`.
    """

    event: str
    conditions: Sequence[Condition]
    value: str
    property: str


@dataclass(frozen=True, slots=True)
class Answer:
    """`left` has, for the name alone and then for each condition more, how many events are left, and of how many users.

    `total` adds up the values of the users, each at most the cap; `capped` users have a greater one.
    """

    left: Sequence[tuple[int, int]]
    total: float
    capped: int

    def __add__(self, other: Answer) -> Answer:
        """Of other users."""
        both = zip(self.left, other.left, strict=True)
        left = [(rows + more, users + others) for (rows, users), (more, others) in both]
        return Answer(left, self.total + other.total, self.capped + other.capped)


def dialect() -> Dialect:
    return _DIALECTS[connection.vendor]


def count(experiment: Experiment, variant: str, question: Question, cap: float | None) -> Mapping[int | None, Answer]:
    """By the phase of the users' exposures; under None, of those who were not exposed to the variant.

    One statement. Reads all events of the name in the environment.
    """
    query, parameters = _of_users(experiment, question, variant)
    steps = range(len(question.conditions) + 1)
    figures = [f"COALESCE(SUM(left_{at}), 0), COUNT(*) FILTER (WHERE left_{at} > 0)" for at in steps]
    if cap is None:
        figures.append("COALESCE(SUM(y), 0), 0")
    else:
        figures.append(f"COALESCE(SUM({dialect().least}(y, %s)), 0), COUNT(*) FILTER (WHERE y > %s)")
        parameters += [cap, cap]
    statement = f"{query} SELECT phase, {', '.join(figures)} FROM of_user GROUP BY phase"  # noqa: S608 (no data)
    found = {phase: _answer(*figures) for phase, *figures in _fetch(statement, parameters)}
    nothing = Answer([(0, 0) for _ in steps], 0.0, 0)
    return {phase: found.get(phase, nothing) for phase in (None, *range(1, max(1, len(experiment.phases)) + 1))}


def _answer(*figures: Any) -> Answer:
    *counts, total, capped = figures
    left = [(int(rows), users) for rows, users in zip(counts[::2], counts[1::2], strict=True)]
    return Answer(left, float(total), capped)


def percentile(experiment: Experiment, question: Question, percent: float) -> float | None:
    """The value, among those of the users of all variants that are not 0, which `percent` of them do not exceed.

    None where there are none, or where it lies below 0, as which users without events count.
    """
    query, parameters = _of_users(experiment, question, None)
    ranked = "SELECT y, ROW_NUMBER() OVER (ORDER BY y) AS place, COUNT(*) OVER () AS users FROM of_user WHERE y <> 0"
    nearest = f"SELECT y FROM ({ranked}) AS ranked WHERE 100 * place >= %s * users ORDER BY place LIMIT 1"  # noqa: S608 (no data)
    found = _fetch(f"{query} {nearest}", [*parameters, percent])
    return float(found[0][0]) if found and found[0][0] > 0 else None


def _of_users(experiment: Experiment, question: Question, variant: str | None) -> tuple[str, list[Any]]:
    """A query, to be continued, with a row for each user who has events of the name: what is left of them, and `y`.

    Without a variant, users of all variants are exposed users.
    """
    conditions = question.conditions
    passed = " ".join(f"WHEN ({each.sql}) IS NOT TRUE THEN {at}" for at, each in enumerate(conditions))
    left = [f"COUNT(*) FILTER (WHERE passed >= {at}) AS left_{at}" for at in range(len(conditions) + 1)]
    exposed, parameters = _exposed(experiment, variant)
    own = dialect()
    query = f"""
        WITH exposed AS ({exposed}), happened AS (
            SELECT event.user_id, event.experiment, {own.counted_at} AS counted_at, base, phase,
                {own.amount} AS amount, {own.currency} AS currency
            FROM {Event._meta.db_table} AS event LEFT JOIN exposed ON exposed.user_id = event.user_id
            WHERE event.environment_id = %s AND event.name = %s
        ), judged AS (
            SELECT user_id, phase, amount, CASE {passed} ELSE {len(conditions)} END AS passed FROM happened
        ), of_user AS (
            SELECT user_id, phase, {", ".join(left)}, {_value(question)} AS y FROM judged GROUP BY user_id, phase
        )"""  # noqa: S608 (no data)
    tested = [parameter for condition in conditions for parameter in condition.parameters]
    return query, [*parameters, question.property, experiment.environment_id, question.event, *tested]


def _exposed(experiment: Experiment, variant: str | None) -> tuple[str, list[Any]]:
    wanted: Mapping[str, Any] = {
        "experiment_id = %s": experiment.pk,
        "variant = %s": variant,
        "exposed_at <= %s": experiment.stopped_at,
    }
    conditions = [condition for condition, value in wanted.items() if value is not None]
    columns, table = f"user_id, phase, {dialect().base} AS base", Exposure._meta.db_table
    statement = f"SELECT {columns} FROM {table} WHERE {' AND '.join(conditions)}"  # noqa: S608 (no data)
    return statement, [value for value in wanted.values() if value is not None]


def _value(question: Question) -> str:
    counts = f"FILTER (WHERE passed = {len(question.conditions)})"
    return {
        "any": f"CASE WHEN COUNT(*) {counts} > 0 THEN 1 ELSE 0 END",
        "number": f"COUNT(*) {counts}",
        "sum": f"COALESCE(SUM(amount) {counts}, 0)",
        "mean": f"COALESCE(AVG(amount) {counts}, 0)",
    }[question.value]


def _fetch(statement: str, parameters: Sequence[Any]) -> list[Any]:
    values = adapt_row(parameters) if connection.vendor == "sqlite" else parameters
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        rows: list[Any] = cursor.fetchall()
    return rows
