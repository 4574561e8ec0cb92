"""Totals and sums in plain Python, from all events and exposures that are stored, with no thought of speed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from statistics import fmean
from typing import Any

from events.models import Event
from experiments.aggregates.variant_sums import EXPOSURES, VariantTotals
from experiments.metrics.definition import Definition, Quantity
from experiments.metrics.documents import definitions_of
from experiments.models import Experiment, Exposure

Total = tuple[str, int, date, float, float, float, int, int]
"""Of one user: variant, phase and day of exposure, y, d, x, events, foreign."""

Sums = dict[tuple[int, str, int, date], VariantTotals]
"""By the place of the metric, the variant, and the phase and the day of exposure."""


def totals_by_hand(experiment: Experiment) -> dict[tuple[int, str], Total]:
    """By the place of the metric and the user. Users for whom all is 0 are left out."""
    exposures, events = exposed(experiment), list(Event.objects.filter(environment=experiment.environment))
    totals = {
        (place, exposure.user_id): total_of(definition, exposure, counting(events, exposure, experiment))
        for place, definition in enumerate(definitions_of(experiment))
        for exposure in exposures
    }
    return {key: total for key, total in totals.items() if any(total[3:])}


def sums_by_hand(experiment: Experiment) -> Sums:
    """The sums of those totals, capped, and of the exposures."""
    sums: Sums = {}
    for exposure in exposed(experiment):
        several = int(exposure.is_in_several_variants)
        add(
            sums,
            (EXPOSURES, exposure.variant, exposure.phase, day_of(exposure)),
            VariantTotals(users=1, several=several),
        )
    totals = totals_by_hand(experiment)
    for place, definition in enumerate(definitions_of(experiment)):
        mine = [total for (at, _), total in totals.items() if at == place]
        cap = cap_by_hand(definition, [total[3] for total in mine])
        for variant, phase, day, *values in mine:
            capped = sums_of(min(values[0], cap), values[1], min(values[2], cap), *values[3:])
            measured = int(definition.cap_percentile is not None and values[0] != 0)
            add(sums, (place, variant, phase, day), replace(capped, measured=measured))
    return sums


def add(sums: Sums, key: tuple[int, str, int, date], more: VariantTotals) -> None:
    sums[key] = sums.get(key, VariantTotals()) + more


def sums_of(y: float, d: float, x: float, events: int, foreign: int) -> VariantTotals:
    products = {"y": y, "yy": y * y, "d": d, "dd": d * d, "yd": y * d, "x": x, "xx": x * x, "xy": x * y}
    exact = {name: Decimal(repr(value)) for name, value in products.items()}
    return VariantTotals(users=int(events > 0), positive=int(y > 0), **exact, events=events, foreign=foreign)


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
    return [each for each in Exposure.objects.filter(experiment=experiment) if each.exposed_at <= end]


def counting(events: Iterable[Event], exposure: Exposure, experiment: Experiment) -> list[Event]:
    """Those of the user that count for the experiment, whatever their name."""
    own = ("", experiment.key, str(experiment.pk))
    end = experiment.stopped_at or datetime.max.replace(tzinfo=UTC)
    theirs = (event for event in events if event.user_id == exposure.user_id)
    return [event for event in theirs if event.experiment in own and counted_at(event) <= end]


def counted_at(event: Event) -> datetime:
    return min(event.timestamp, event.received_at)


def day_of(exposure: Exposure) -> date:
    return exposure.exposed_at.astimezone(UTC).date()


def total_of(definition: Definition, exposure: Exposure, events: list[Event]) -> Total:
    base = exposure.exposed_at.replace(microsecond=0)

    def between(start: timedelta, end: timedelta | None) -> list[Event]:
        ages = ((event, counted_at(event) - base) for event in events)
        return [event for event, age in ages if start <= age and (end is None or age < end)]

    quantity, denominator = definition.quantity, definition.denominator
    window = between(definition.delay, None if definition.window is None else definition.delay + definition.window)
    before, since = between(timedelta(days=-14), timedelta(0)), between(timedelta(0), None)
    return (
        exposure.variant,
        exposure.phase,
        day_of(exposure),
        value_of(definition, quantity, window),
        value_of(definition, denominator, window) if denominator else 0,
        0 if denominator else value_of(definition, quantity, before),
        sum(event.name == quantity.event for event in since),
        sum(any(is_foreign(each, event) for each in (quantity, denominator) if each) for event in window),
    )


def value_of(definition: Definition, quantity: Quantity, events: Iterable[Event]) -> float:
    named = [event for event in events if event.name == quantity.event]
    if not quantity.property:
        return int(bool(named)) if definition.is_share else len(named)
    amounts = [amount for event in named if (amount := amount_of(quantity, event.properties)) is not None]
    summarise: Callable[[list[float]], float] = fmean if definition.type == "mean" else math.fsum
    return summarise(amounts) if amounts else 0


def amount_of(quantity: Quantity, properties: Mapping[str, Any]) -> float | None:
    if quantity.currency and properties.get("currency") != quantity.currency:
        return None
    value = properties.get(quantity.property)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return 0 if abs(value) < 1e-100 else max(-1e100, min(1e100, value))


def is_foreign(quantity: Quantity, event: Event) -> bool:
    if not quantity.currency or event.name != quantity.event or "revenue" not in event.properties:
        return False
    return event.properties.get("currency") != quantity.currency
