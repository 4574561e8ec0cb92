"""Explaining metrics with conditions on properties, funnels, distinct values and quantiles, one event after the other.

SQL selects the events by user and time; what follows is plain Python, so that it shares nothing with the SQL of the
totals.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from fractions import Fraction
from statistics import fmean
from typing import Any

from experiments.metrics.conditions import count_steps_passed, is_of, meets
from experiments.metrics.definition import Definition, Quantity
from experiments.models import Experiment
from experiments.results.explanation_statements import Row, Selection, StepCounts, count_steps, read_rows

_LARGEST, _SMALLEST = 1e100, 1e-100
_TYPES = ("distinct", "funnel", "quantile")


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on the properties of an event, in words and as a function."""

    name: str
    description: str
    test: Callable[[Row], bool]


@dataclass(frozen=True, slots=True)
class EventCounts:
    """The counts by phase (see `count_steps`), and for a quantile the values of its events by phase.

    `of_all` are the values of the events of all variants.
    """

    by_phase: Mapping[int | None, StepCounts]
    values: Mapping[int, Sequence[float]] = field(default_factory=dict)
    of_all: Mapping[int, Sequence[float]] = field(default_factory=dict)


def needs_events(definition: Definition) -> bool:
    """Return whether a metric is explained event by event."""
    parts = [definition.quantity, *definition.steps, *([definition.denominator] if definition.denominator else [])]
    return definition.type in _TYPES or any(part.where for part in parts)


def filters_of(definition: Definition, quantity: Quantity) -> list[Filter]:
    """Return the conditions on the properties of the events of a quantity; those of a funnel belong to its steps."""
    if definition.type == "funnel":
        return [Filter("with_the_properties", "That meet the conditions of a step.", _is_of_a_step(definition))]
    filters = []
    if quantity.where:
        description = "That meet the conditions on their properties."
        filters.append(Filter("with_the_properties", description, lambda row: meets(row.properties, quantity.where)))
    if quantity.currency:
        description = f"In the currency {quantity.currency}."
        filters.append(Filter("of_the_currency", description, lambda row: _currency(row) == quantity.currency))
    if quantity.property and definition.type == "distinct":
        description = f"With a text, a number or a boolean as {quantity.property}."
        has_value = _has_scalar(quantity.property)
        filters.append(Filter("with_the_value", description, has_value))
    elif quantity.property:
        description = f"With a number as {quantity.property}."
        filters.append(Filter("with_the_value", description, lambda row: _amount(row, quantity.property) is not None))
    return filters


def funnel_steps(definition: Definition) -> list[tuple[str, str]]:
    """Return the name and the description of the step of an explanation for each step of a funnel."""
    return [
        ("passed_the_step", f"By users who passed step {number}, {step.event}, and all steps before it in order.")
        for number, step in enumerate(definition.steps, 1)
    ]


def count_events(
    experiment: Experiment,
    variant: str,
    definition: Definition,
    selection: Selection,
    filters: Sequence[Filter],
    cap: float | None,
) -> EventCounts:
    """Return what each condition leaves, by phase: first those of the selection, then the filters.

    A funnel continues with its steps. `cap` bounds the value of a user.
    """
    by_phase: dict[int, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in read_rows(experiment, variant, selection):
        by_phase[row.phase][row.user_id].append(row)
    counts: dict[int | None, StepCounts] = {}
    for phase, before in count_steps(experiment, variant, selection, None).items():
        users = by_phase.get(phase, {}) if phase is not None else {}
        counts[phase] = _count(definition, users, before, filters, cap, selection)
    if definition.type != "quantile":
        return EventCounts(counts)
    of_variant = (row for users in by_phase.values() for rows in users.values() for row in rows)
    of_all = read_rows(experiment, None, selection)
    return EventCounts(counts, *(_values(rows, selection, filters) for rows in (of_variant, of_all)))


def _values(rows: Iterable[Row], selection: Selection, filters: Sequence[Filter]) -> Mapping[int, Sequence[float]]:
    """Return the values of the events that pass the filters, by phase."""
    values: dict[int, list[float]] = defaultdict(list)
    for row in rows:
        values[row.phase] += _amounts(_passing([row], filters), selection.property)
    return values


def _count(
    definition: Definition,
    users: Mapping[str, Sequence[Row]],
    before: StepCounts,
    filters: Sequence[Filter],
    cap: float | None,
    selection: Selection,
) -> StepCounts:
    left = list(before.left)
    remaining: dict[str, Sequence[Row]] = dict(users)
    for number in range(len(filters)):
        remaining = {user: _passing(rows, filters[number : number + 1]) for user, rows in remaining.items()}
        remaining = {user: rows for user, rows in remaining.items() if rows}
        left.append((sum(map(len, remaining.values())), len(remaining)))
    for number in range(1, len(definition.steps) + 1):
        through = [rows for rows in remaining.values() if _steps_passed(definition, rows) >= number]
        left.append((sum(map(len, through)), len(through)))
    values = [_value(definition, selection, rows) for rows in remaining.values()]
    limit = math.inf if cap is None else cap
    return StepCounts(left, float(sum(min(value, limit) for value in values)), sum(value > limit for value in values))


def find_cap(
    experiment: Experiment, definition: Definition, selection: Selection, filters: Sequence[Filter], percent: float
) -> float | None:
    """Return a percentile of the values other than 0 of the users of all variants, by nearest rank.

    It is None where `explanation_statements.find_percentile` returns None.
    """
    by_user: dict[str, list[Row]] = defaultdict(list)
    for row in read_rows(experiment, None, selection):
        by_user[row.user_id].append(row)
    values = (_value(definition, selection, _passing(rows, filters)) for rows in by_user.values())
    cap = percentile([value for value in values if value], percent / 100)
    return cap if cap is not None and cap > 0 else None


def percentile(values: Iterable[float], share: float) -> float | None:
    """Return the smallest value such that at least this share of all values is not greater; None without values."""
    ordered = sorted(values)
    place = math.ceil(Fraction(str(share)) * len(ordered))
    return ordered[max(place, 1) - 1] if ordered else None


def _passing(rows: Sequence[Row], filters: Sequence[Filter]) -> list[Row]:
    return [row for row in rows if all(condition.test(row) for condition in filters)]


def _value(definition: Definition, selection: Selection, rows: Sequence[Row]) -> float:
    """Return the value of a user, given those of their events that count."""
    if definition.type == "funnel":
        return float(_steps_passed(definition, rows) == len(definition.steps))
    if definition.type == "distinct":
        return len({_distinct(row, selection.property) for row in rows})
    if selection.value == "any":
        return float(bool(rows))
    if selection.value == "number":
        return len(rows)
    amounts = _amounts(rows, selection.property)
    return (fmean(amounts) if selection.value == "mean" else math.fsum(amounts)) if amounts else 0.0


def _steps_passed(definition: Definition, rows: Iterable[Row]) -> int:
    return count_steps_passed(definition.steps, [(row.name, row.counted_at, row.properties) for row in rows])


def _is_of_a_step(definition: Definition) -> Callable[[Row], bool]:
    return lambda row: any(is_of(step, row.name, row.properties) for step in definition.steps)


def _has_scalar(name: str) -> Callable[[Row], bool]:
    return lambda row: isinstance(row.properties.get(name), str | bool | int | float)


def _distinct(row: Row, name: str) -> Any:
    """Return what is counted once: a value of the property with its type, or the day."""
    if not name:
        return row.counted_at.astimezone(UTC).date()
    value = row.properties[name]
    return isinstance(value, bool), isinstance(value, str), value


def _currency(row: Row) -> str:
    currency = row.properties.get("currency")
    return currency.upper() if isinstance(currency, str) else ""


def _amounts(rows: Iterable[Row], name: str) -> list[float]:
    return [amount for row in rows if (amount := _amount(row, name)) is not None]


def _amount(row: Row, name: str) -> float | None:
    """Return a property that is a number, within the limits of the totals."""
    value = row.properties.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return 0.0 if abs(value) < _SMALLEST else float(max(-_LARGEST, min(_LARGEST, value)))
