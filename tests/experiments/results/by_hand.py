"""Values of users and sums in plain and slow Python, from all stored events and exposures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from statistics import fmean
from typing import Any

from events.models import Event
from experiments.metrics.conditions import meets
from experiments.metrics.definition import Definition, Quantity, definitions_of
from experiments.models import Experiment, Exposure
from experiments.results.sums import EXPOSURE, ExactSums, step_number

Row = tuple[str, int, date, float, float, float, float, int, int, int, int]
"""What is stored of one user and metric: variant, phase and day of exposure, and the columns of FIGURES."""

FIGURES = (
    *("value", "denominator", "value_before", "denominator_before"),
    *("events", "other_currency", "without_number", "steps"),
)

Sums = dict[tuple[int, str, int, date], ExactSums]
"""Sums by the index of the metric, the variant, and the phase and day of exposure."""


def values_by_hand(experiment: Experiment) -> dict[tuple[int, str], Row]:
    """Return the values by metric and user. Users with only zeros are left out."""
    exposures, events = exposed(experiment), list(Event.objects.filter(environment=experiment.environment))
    values = {
        (metric, exposure.user_id): row_of(
            definition, exposure, counting_events(events, exposure, experiment, definition)
        )
        for metric, definition in enumerate(definitions_of(experiment))
        for exposure in exposures
    }
    return {key: row for key, row in values.items() if any(row[3:])}


def sums_by_hand(experiment: Experiment, is_counted: Callable[[Exposure], bool] = lambda _: True) -> Sums:
    """Return the sums of the capped totals over the users who count, and of their exposures.

    Caps are those of all users.
    """
    sums: Sums = {}
    users = [exposure for exposure in exposed(experiment) if is_counted(exposure)]
    counted = {exposure.user_id for exposure in users}
    for exposure in users:
        several = int(is_in_several(exposure, experiment))
        add(
            sums,
            (EXPOSURE, exposure.variant, exposure.phase, day_of(exposure)),
            ExactSums(users=1, in_several_variants=several),
        )
    values = values_by_hand(experiment)
    for metric, definition in enumerate(definitions_of(experiment)):
        of_metric = {user_id: row for (number, user_id), row in values.items() if number == metric}
        cap = cap_by_hand(definition, [row[3] for row in of_metric.values()])
        of_counted = (row for user_id, row in of_metric.items() if user_id in counted)
        for variant, phase, day, y, d, x, *others, steps in of_counted:
            capped = sums_of(min(y, cap), d, min(x, cap), *others)
            numbers = {"nonzero": nonzero_of(definition, y), "active": active_of(definition, y, d)}
            add(sums, (metric, variant, phase, day), replace(capped, **numbers))
            for step in range(1, steps + 1):
                add(sums, (step_number(metric, step), variant, phase, day), ExactSums(users=1))
    return sums


def add(sums: Sums, key: tuple[int, str, int, date], more: ExactSums) -> None:
    sums[key] = sums.get(key, ExactSums()) + more


PRODUCTS = {
    "value": "y",
    "value_squared": "yy",
    "denominator": "d",
    "denominator_squared": "dd",
    "value_denominator": "yd",
    "value_before": "x",
    "value_before_squared": "xx",
    "value_value_before": "xy",
    "denominator_before": "e",
    "denominator_before_squared": "ee",
    "value_before_denominator_before": "xe",
    "value_denominator_before": "ye",
    "denominator_value_before": "dx",
    "denominator_denominator_before": "de",
}


def sums_of(y: float, d: float, x: float, e: float, events: int, other_currency: int, without: int) -> ExactSums:
    values = {"y": y, "d": d, "x": x, "e": e}
    exact = {name: Decimal(repr(math.prod(values[factor] for factor in factors))) for name, factors in PRODUCTS.items()}
    counts = {"events": events, "other_currency": other_currency, "without_number": without}
    return ExactSums(users=int(events > 0), positive=int(y > 0), **exact, **counts)


def nonzero_of(definition: Definition, y: float) -> int:
    return int((definition.cap_percentile is not None or definition.adds_amounts) and y != 0)


def active_of(definition: Definition, y: float, d: float) -> int:
    return int(definition.type == "ratio" and (y != 0 or d != 0))


def cap_by_hand(definition: Definition, values: Iterable[float]) -> float:
    if definition.cap_percentile is None:
        return math.inf if definition.cap_value is None else definition.cap_value
    ordered = sorted(value for value in values if value)
    if not ordered:
        return math.inf
    cap = ordered[math.ceil(definition.cap_percentile * len(ordered) / 100) - 1]
    return cap if cap > 0 else math.inf


def exposed(experiment: Experiment) -> list[Exposure]:
    end = experiment.stopped_at or datetime.max.replace(tzinfo=UTC)
    exposures = Exposure.objects.filter(experiment=experiment)
    return [exposure for exposure in exposures if exposure.exposed_at <= end]


def is_in_several(exposure: Exposure, experiment: Experiment) -> bool:
    since, end = exposure.in_several_since, experiment.stopped_at
    return exposure.is_in_several_variants and not (since and end and since > end)


def last_moment(experiment: Experiment) -> datetime:
    """Return when the last event counts for a metric with a window."""
    return experiment.counts_until or experiment.stopped_at or datetime.max.replace(tzinfo=UTC)


def counting_events(
    events: Iterable[Event], exposure: Exposure, experiment: Experiment, definition: Definition
) -> list[Event]:
    """Return the events of the exposed user that count for a metric of the experiment, of any name."""
    own = ("", experiment.key, str(experiment.pk))
    end = experiment.stopped_at or datetime.max.replace(tzinfo=UTC)
    if definition.window is not None:
        end = last_moment(experiment)
    of_user = (event for event in events if event.user_id == exposure.user_id)
    return [event for event in of_user if event.experiment in own and counted_at(event) <= end]


def counted_at(event: Event) -> datetime:
    return min(event.timestamp, event.received_at)


def day_of(exposure: Exposure) -> date:
    return exposure.exposed_at.astimezone(UTC).date()


def row_of(definition: Definition, exposure: Exposure, events: list[Event]) -> Row:
    base = exposure.exposed_at.replace(microsecond=0)

    def between(start: timedelta, end: timedelta | None) -> list[Event]:
        ages = ((event, counted_at(event) - base) for event in events)
        return [event for event, age in ages if start <= age and (end is None or age < end)]

    quantity, denominator = definition.quantity, definition.denominator
    window = between(definition.delay, None if definition.window is None else definition.delay + definition.window)
    before, since = between(-lookback_by_hand(exposure.experiment), timedelta(0)), between(timedelta(0), None)
    steps = steps_passed(definition.steps, window)
    has_history = definition.type not in ("funnel", "quantile")
    return (
        exposure.variant,
        exposure.phase,
        day_of(exposure),
        int(steps == len(definition.steps)) if definition.steps else value_of(definition, quantity, window),
        value_of(definition, denominator, window) if denominator else 0,
        value_of(definition, quantity, before) if has_history else 0,
        value_of(definition, denominator, before) if denominator else 0,
        sum(is_of(quantity, event) for event in since),
        sum(any(is_in_other_currency(part, event) for part in (quantity, denominator) if part) for event in window),
        sum(lacks_number(definition, event) for event in since),
        steps,
    )


def lookback_by_hand(experiment: Experiment) -> timedelta:
    return timedelta(days=(experiment.registration or {}).get("lookbackDays", 0))


def is_of(quantity: Quantity, event: Event) -> bool:
    return event.name == quantity.event and meets(event.properties, quantity.where)


def steps_passed(steps: Sequence[Quantity], events: Iterable[Event]) -> int:
    passed = 0
    for _, met in sorted(
        (counted_at(event), [n for n, step in enumerate(steps) if is_of(step, event)]) for event in events
    ):
        if passed in met:
            passed += 1
    return passed


def distinct_of(quantity: Quantity, events: Iterable[Event]) -> int:
    """Return the number of different values: texts, numbers and booleans, where 1 and 1.0 are equal, but not true."""
    if not quantity.property:
        return len({counted_at(event).astimezone(UTC).date() for event in events})
    values = [event.properties.get(quantity.property) for event in events]
    return len({(isinstance(value, bool), value) for value in values if isinstance(value, str | int | float)})


def value_of(definition: Definition, quantity: Quantity, events: Iterable[Event]) -> float:
    named = [event for event in events if is_of(quantity, event)]
    if definition.type == "distinct":
        return distinct_of(quantity, named)
    if definition.is_share or not quantity.property:
        return int(bool(named)) if definition.is_share else len(named)
    if definition.type == "quantile":
        return len(amounts_of(quantity, named))
    amounts = amounts_of(quantity, named)
    summarise: Callable[[list[float]], float] = fmean if definition.type == "mean" else math.fsum
    return summarise(amounts) if amounts else 0


def amounts_of(quantity: Quantity, events: Iterable[Event]) -> list[float]:
    """Return the numbers that these events have in the quantity's property and currency."""
    return [amount for event in events if (amount := amount_of(quantity, event.properties)) is not None]


def amount_of(quantity: Quantity, properties: Mapping[str, Any]) -> float | None:
    if quantity.currency and str(properties.get("currency")).upper() != quantity.currency:
        return None
    value = properties.get(quantity.property)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return 0 if abs(value) < 1e-100 else max(-1e100, min(1e100, value))


def lacks_number(definition: Definition, event: Event) -> bool:
    """Return whether an event has something else where a quantity of the metric needs a number."""
    parts = [part for part in (definition.quantity, definition.denominator) if part and part.property]
    if definition.type == "distinct":
        return False
    return any(
        event.name == part.event
        and meets(event.properties, [condition for condition in part.where if condition.property != part.property])
        and isinstance(event.properties.get(part.property), str | bool | list | dict)
        for part in parts
    )


def is_in_other_currency(quantity: Quantity, event: Event) -> bool:
    if not quantity.currency or not is_of(quantity, event) or "revenue" not in event.properties:
        return False
    return str(event.properties.get("currency")).upper() != quantity.currency
