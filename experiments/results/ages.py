"""The values of one metric by days since the exposure, which show whether an effect wears off or grows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db.models import Count, F, IntegerField, Q, Value
from django.db.models.lookups import GreaterThanOrEqual, LessThan

from config.database.planning import IN_ONE_PASS, planned
from config.database.selects import Column
from config.timestamps import floor_to_second
from experiments.metrics.definition import Definition
from experiments.models import EXPOSURE, Experiment
from experiments.results.expressions import DaysBetween, FloorSecond
from experiments.results.metrics import BASE, COUNTED_AT, ZERO
from experiments.results.sums import Caps, ExactSums, MetricSums, Phases, Summing, sum_values
from experiments.results.values import computed_values, source_of

ByPhase = Mapping[int, MetricSums]
"""Sums by phase, metric (EXPOSURE for the users) and variant."""


def can_be_split(definition: Definition) -> bool:
    """Return whether the metric has a value for each day: a quantile is none of users."""
    return definition.type != "quantile"


def read_ages(
    experiment: Experiment, metric: int, now: datetime, caps: Caps, phases: Phases = None
) -> Sequence[ByPhase]:
    """Return, for each day since the exposure, the sums of the values of that day alone.

    Day 0 is the first 24 hours. On each day, the users count who were exposed so long ago that it is over, now or at
    the end of counting; their number is in the sums of EXPOSURE. Delay and window of the metric do not matter, and a
    metric of retention asks whether users were active on the day. It takes one pass over the events of the metric, and
    returns nothing where events may have been deleted since the results were frozen.
    """
    if not Experiment.objects.measured_by_events().filter(pk=experiment.pk).exists():
        return []
    source = source_of(experiment)
    until = source.until_of(source.definitions[metric])
    end = floor_to_second(now if until is None else min(now, until))
    over = DaysBetween(FloorSecond(F("exposed_at")), Value(end))
    exposures = source.exposures if phases is None else source.exposures.filter(phase__in=sorted(phases))
    users = exposures.annotate(over=over).filter(over__gt=0).values_list("variant", "phase", "over")
    days = _count_users({tuple(key): number for *key, number in users.annotate(users=Count("user_id"))})
    kind = "conversion" if source.definitions[metric].type == "retention" else source.definitions[metric].type
    definition = replace(source.definitions[metric], type=kind, delay=ZERO, window=None, cap_percentile=None)
    age = DaysBetween(BASE, COUNTED_AT)
    of_days = replace(
        source,
        exposures=exposures,
        definitions={metric: definition},
        lookback=ZERO,
        until=until,
        keys={"age": age},
        condition=Q(GreaterThanOrEqual(COUNTED_AT, BASE)) & Q(LessThan(age, over)),
    )
    cap = {metric: caps[metric]} if metric in caps else {}
    with planned(**IN_ONE_PASS):
        values = computed_values(of_days).annotate(since_exposure=Column("age", IntegerField()))
        summing = Summing({metric: definition}, cap, experiment.variant_keys, has_history=False)
        summed = sum_values(values, summing, ("phase", "since_exposure"))
    for (number, variant, phase, day), sums in summed.items():
        if number == metric:
            days[day][phase].setdefault(metric, {})[variant] = sums
    return days


def _count_users(users: Mapping[tuple[Any, ...], int]) -> list[dict[int, dict[int, dict[str, ExactSums]]]]:
    """Return the days, each with the number of its users by phase and variant.

    `users` has the numbers of users by variant, phase and the number of days that are over for them.
    """
    days: list[dict[int, dict[int, dict[str, ExactSums]]]] = [{} for _ in range(max((d for *_, d in users), default=0))]
    for (variant, phase, over), number in users.items():
        for day in days[:over]:
            of_phase = day.setdefault(phase, {}).setdefault(EXPOSURE, {})
            of_phase[variant] = of_phase.get(variant, ExactSums()) + ExactSums(users=number)
    return days
