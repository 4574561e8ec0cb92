"""Sums as of a moment in plain and slow Python, from all stored events and exposures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from events.models import Event
from experiments.metrics.definition import Definition, definitions_of
from experiments.models import Experiment, Exposure
from experiments.results.sums import EXPOSURE, ExactSums, Mature, MetricSums, step_of
from tests.experiments.results.by_hand import (
    active_of,
    cap_by_hand,
    counting_events,
    exposed,
    is_in_several,
    last_moment,
    nonzero_of,
    row_of,
    sums_of,
)

Sums = dict[tuple[Any, str, int], ExactSums]
"""Sums by metric index or span, variant and phase."""


def end_of(day: date) -> datetime:
    return datetime.combine(day, time.max, UTC)


def series_by_hand(experiment: Experiment, at: datetime, caps: Mapping[int, float]) -> dict[date, Sums]:
    """Return the sums as of the end of each finished day, without those that are 0."""
    last = min(at, last_moment(experiment)).astimezone(UTC).date() - timedelta(days=1)
    day = min((exposure.exposed_at.astimezone(UTC).date() for exposure in exposed(experiment)), default=last)
    days = (day + timedelta(days=number) for number in range((last - day).days + 1))
    return {day: sums for day in days if (sums := sums_until(experiment, end_of(day), caps))}


def stopped_at(experiment: Experiment, moment: datetime) -> Experiment:
    """Return a copy that ended at a moment, or at its own stop if that is earlier."""
    stopped = copy(experiment)
    stopped.stopped_at = min(filter(None, (moment, experiment.stopped_at)))
    stopped.counts_until = min(moment, last_moment(experiment))
    return stopped


def sums_until(
    experiment: Experiment, moment: datetime, caps: Mapping[int, float], *, has_events: bool = False
) -> Sums:
    """Return the sums as if the experiment had been stopped at a moment, without those that are 0.

    Series leave out what may happen after a window is over; with `has_events` it counts.
    """
    stopped, sums = stopped_at(experiment, moment), Sums()
    events, definitions = list(Event.objects.filter(environment=experiment.environment)), definitions_of(experiment)
    for exposure in exposed(stopped):
        key = exposure.variant, exposure.phase
        several = is_in_several(exposure, stopped)
        add(sums, (EXPOSURE, *key), ExactSums(users=1, in_several_variants=int(several)))
        for span in {definition.span for definition in definitions} - {None}:
            if is_mature(exposure, span, moment):
                add(sums, (span, *key), ExactSums(users=1))
        for index, definition in enumerate(definitions):
            if is_mature(exposure, definition.span, moment):
                of_user = counting_events(events, exposure, stopped, definition)
                add(
                    sums, (index, *key), values_of(definition, exposure, of_user, caps.get(index, math.inf), has_events)
                )
    return {key: totals for key, totals in sums.items() if any(totals.values())}


def is_mature(exposure: Exposure, span: timedelta | None, moment: datetime) -> bool:
    return span is None or exposure.exposed_at.replace(microsecond=0) + span <= moment


def values_of(
    definition: Definition, exposure: Exposure, events: list[Event], cap: float, has_events: bool
) -> ExactSums:
    _, _, _, y, d, x, e, *counts, _ = row_of(definition, exposure, events)
    values = sums_of(min(y, cap), d, min(x, cap), e, *counts)
    values = replace(values, nonzero=nonzero_of(definition, y), active=active_of(definition, y, d))
    return values if has_events or definition.span is None else without_events(values)


def without_events(values: ExactSums) -> ExactSums:
    return replace(values, users=0, events=0, without_number=0)


def add(sums: Sums, key: tuple[Any, str, int], more: ExactSums) -> None:
    sums[key] = sums.get(key, ExactSums()) + more


def by_label(by_phase: Mapping[int, MetricSums], mature: Mature) -> Sums:
    """Return sums in the form of this module, without the steps of funnels."""
    sums: Sums = {
        (index, variant, phase): totals
        for phase, by_metric in by_phase.items()
        for index, by_variant in by_metric.items()
        if step_of(index) is None
        for variant, totals in by_variant.items()
    }
    for span, users_by_phase in mature.items():
        for phase, users in users_by_phase.items():
            sums |= {(span, variant, phase): ExactSums(users=number) for variant, number in users.items()}
    return sums


def near(series: Mapping[Any, Sums]) -> dict[Any, Any]:
    """Round the sums to the digits that do not depend on the order of additions, and leave out zeros."""
    figures = {
        (day, *key): [f"{float(value) + 0.0:.9e}" for value in totals.values()]  # + 0.0 makes 0 of -0
        for day, sums in series.items()
        for key, totals in sums.items()
    }
    return {key: values for key, values in figures.items() if any(map(float, values))}


def caps_by_hand(experiment: Experiment) -> dict[int, float]:
    """Return the caps that the values of all exposed users give, until the stop."""
    events = list(Event.objects.filter(environment=experiment.environment))
    return {
        index: cap_by_hand(
            definition,
            [
                row_of(definition, exposure, counting_events(events, exposure, experiment, definition))[3]
                for exposure in exposed(experiment)
            ],
        )
        for index, definition in enumerate(definitions_of(experiment))
    }
