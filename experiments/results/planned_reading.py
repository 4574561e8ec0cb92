"""Readings of a sequential analysis at its planned size, which go on to count when more users come.

The boundary of a plan holds up to the planned users. So for each treatment and each window of a goal, a reading is
stored: the sums as of the second in which this treatment and the control had their planned users who are mature. It
does not matter whether somebody looks then. Late events change it for one more day, as they change the reading of a
fixed analysis.

Sums come from the values of users. Those of a mature user no longer change, so they can be summed up at any later time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Count, QuerySet

from config.documents import Document
from config.timestamps import floor_to_second
from experiments.metrics.definition import definitions_of
from experiments.models import EXPOSURE, Experiment, ResultState, UserValue, VariantSums
from experiments.models.locks import lock_results
from experiments.models.phases import group_by_split, numbers
from experiments.results.caps import find_cap
from experiments.results.expressions import FloorSecond
from experiments.results.fixed_reading import (
    FOR_LATE_EVENTS,
    FixedReading,
    is_due_again,
    parse_reading,
    quantiles_as_of,
    reading_as_json,
)
from experiments.results.maturity import read_mature
from experiments.results.study import measure_of, plan_of, weights_of
from experiments.results.sums import Caps, ExactSums, MetricSums, SumsAsOf, read_caps, sum_values, summing_of
from experiments.results.values import as_if_stopped, stored_values
from experiments.stats.plans import PlannedPair, planned_pair
from experiments.stats.types import Design, Measure, Stratum, Sums

_SECOND = timedelta(seconds=1)

Place = tuple[int, str]
"""The number of a phase, and the key of a variant."""

Goals = Mapping[timedelta, Sequence[int]]
"""The numbers of the goals that the start registered, by the length of their delay and window."""


@dataclass(frozen=True, slots=True)
class PlannedReading:
    """The sums of the goals with a span over the planned users of a treatment and the control.

    All variants have their users as of then.
    """

    variant: str
    span: timedelta
    reading: FixedReading


def planned_readings(experiment: Experiment, now: datetime) -> Sequence[PlannedReading]:
    """Return the readings at the planned size that are due, and store those that are new.

    Readers first call `results.refresh.bring_up_to_date`. The first call after the instant of a reading stores it, in a
    transaction of its own or the caller's.
    """
    goals = _goals_of(experiment)
    pairs = _pairs(experiment, goals)
    if not pairs:
        return []
    stored = ResultState.objects.filter(experiment=experiment).values_list("reading", flat=True).first()
    if _is_work_due(stored, experiment, goals, pairs, now):
        with transaction.atomic():
            [state] = lock_results([experiment.pk])
            experiment.result_state = state
            entries = _update(state, experiment, goals, pairs, now)
            stored = {"planned": entries}
            ResultState.objects.filter(pk=state.pk).update(reading=stored)
    readings = [_parse(entry) for entry in _entries(stored)]
    end = experiment.counted_by(now)
    return [each for each in readings if each.reading.instant <= end]


def _goals_of(experiment: Experiment) -> Goals:
    goals: dict[timedelta, list[int]] = {}
    for number, definition in enumerate(definitions_of(experiment)):
        if definition.is_registered_goal and definition.span is not None:
            goals.setdefault(definition.span, []).append(number)
    return goals


def _pairs(experiment: Experiment, goals: Goals) -> Mapping[str, PlannedPair]:
    """Return the planned users of each treatment and the control; empty where no boundary follows from a plan."""
    if not goals or experiment.started_at is None:
        return {}
    design, measure = _design(experiment), _measure(experiment, goals)
    pairs = {key: planned_pair(design, measure, key) for key in experiment.variant_keys[1:]}
    return {key: pair for key, pair in pairs.items() if pair is not None}


def _design(experiment: Experiment) -> Design:
    variants = weights_of(experiment.variants)
    return Design(variants, experiment.variant_keys[0], is_running=True, plan=plan_of(experiment))


def _measure(experiment: Experiment, goals: Goals) -> Measure:
    """Return the first goal with a window. All of them have the same planned users."""
    first = min(number for of_span in goals.values() for number in of_span)
    return replace(measure_of(definitions_of(experiment)[first]), counts_mature_users=True)


# what is stored


def _entries(stored: Document | None) -> list[Document]:
    return list((stored or {}).get("planned", ()))


def _is_work_due(
    stored: Document | None, experiment: Experiment, goals: Goals, pairs: Mapping[str, PlannedPair], now: datetime
) -> bool:
    """Return whether a reading is missing, or is to be computed again. Those of frozen results stay as they are."""
    entries = {_name(entry): entry for entry in _entries(stored)}
    if experiment.frozen_at is None and any(is_due_again(entry, experiment, now) for entry in entries.values()):
        return True
    missing = {key for key in pairs for span in goals if (key, span) not in entries}
    if not missing:
        return False
    users = _Exposed(experiment)
    seconds = {key: users.planned_second(_measure(experiment, goals), key, pairs[key]) for key in missing}
    end = experiment.counted_by(now)
    return any(
        (second := seconds.get(key)) is not None and (key, span) not in entries and second + span <= end
        for key in pairs
        for span in goals
    )


def _update(
    state: ResultState, experiment: Experiment, goals: Goals, pairs: Mapping[str, PlannedPair], now: datetime
) -> list[Document]:
    """Return all readings that are due, of which those that are final stay as they are."""
    stored = ResultState.objects.values_list("reading", flat=True).get(pk=state.pk)
    entries = {_name(entry): entry for entry in _entries(stored)}
    users, measure, end = _Exposed(experiment), _measure(experiment, goals), experiment.counted_by(now)
    updated = []
    for key, pair in pairs.items():
        second = users.planned_second(measure, key, pair)
        for span, of_span in goals.items():
            before = entries.get((key, span))
            if before is not None and ("openUntil" not in before or experiment.frozen_at is not None):
                updated.append(before)
            elif second is not None and second + span <= end:
                until = _parse(before).reading.open_until if before else now + FOR_LATE_EVENTS
                is_open = until is not None and now < until and experiment.frozen_at is None
                reading = _compute(experiment, second, span, of_span)
                as_json = reading_as_json(replace(reading, open_until=until if is_open else None), state.watermark)
                updated.append({"variant": key, "seconds": span // _SECOND, **as_json})
    return updated


def _name(entry: Document) -> tuple[str, timedelta]:
    return entry["variant"], entry["seconds"] * _SECOND


def _parse(entry: Document) -> PlannedReading:
    return PlannedReading(*_name(entry), parse_reading(entry))


# the second of the planned users


class _Exposed:
    """The exposed users of an experiment by phase and variant, in the order of their exposures."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._by_day: dict[date, Counter[Place]] = {}
        rows = VariantSums.objects.filter(experiment=experiment, metric=EXPOSURE).order_by("day")
        for day, phase, variant, users in rows.values_list("day", "phase", "variant", "users"):
            self._by_day.setdefault(day, Counter())[phase, variant] += users

    def planned_second(self, measure: Measure, key: str, pair: PlannedPair) -> datetime | None:
        """Return the second in which the last planned user of a treatment and the control was exposed, if it has been.

        Where weights have changed, the planned information counts in place of the planned users.
        """
        both = (key, self._experiment.variant_keys[0])
        if sum(users for day in self._by_day.values() for (_, name), users in day.items() if name in both) < pair.least:
            return None
        users: Counter[Place] = Counter()
        for day, more in self._by_day.items():
            if self._share(measure, key, pair, users + more) >= 1:
                return self._second_of(day, users, measure, key, pair)
            users += more
        return None

    def _second_of(
        self, day: date, before: Counter[Place], measure: Measure, key: str, pair: PlannedPair
    ) -> datetime | None:
        until: dict[datetime, Counter[Place]] = {}
        users = before
        for second, place, number in self._of_day(day):
            users = users + Counter({place: number})
            until[second] = users
        seconds = list(until)
        found = bisect_left(seconds, True, key=lambda second: self._share(measure, key, pair, until[second]) >= 1)
        return seconds[min(found, len(seconds) - 1)] if seconds else None

    def _of_day(self, day: date) -> list[tuple[datetime, Place, int]]:
        rows = stored_values(self._experiment).filter(metric=EXPOSURE, day=day)
        by_second = rows.annotate(second=FloorSecond("exposed_at")).values_list("second", "phase", "variant_number")
        keys = self._experiment.variant_keys
        counted = by_second.annotate(users=Count("user_id")).order_by("second", "phase", "variant_number")
        return [(second, (phase, keys[variant]), users) for second, phase, variant, users in counted]

    def _share(self, measure: Measure, key: str, pair: PlannedPair, users: Mapping[Place, int]) -> float:
        """Return the part of the planned information that these users give."""
        from experiments.stats.strata import group_variants, share_of_plan  # noqa: PLC0415 (see `results.study`)

        control, *treatments = self._experiment.variant_keys
        strata = self._strata(users)
        group = group_variants(measure, [stratum.sums[0] for stratum in strata], control, treatments)[key]
        return share_of_plan(pair, group, strata, (key, control)) or 0.0

    def _strata(self, users: Mapping[Place, int]) -> list[Stratum]:
        phases = self._experiment.phases
        strata = []
        for of_split in group_by_split(phases, numbers(phases)):
            by_variant: Counter[str] = Counter()
            for (phase, variant), number in users.items():
                if phase in of_split:
                    by_variant[variant] += number
            if by_variant:
                sums = {variant: Sums(n=number) for variant, number in by_variant.items()}
                strata.append(Stratum(weights_of(phases[of_split[-1] - 1]["variants"]), by_variant, [sums], of_split))
        return strata


# the sums over them


def _compute(experiment: Experiment, second: datetime, span: timedelta, goals: Sequence[int]) -> FixedReading:
    """Return the sums of these goals over the users who were exposed by a second."""
    instant, definitions = second + span, definitions_of(experiment)
    then = as_if_stopped(experiment, instant)
    ranked = [number for number in goals if definitions[number].cap_percentile is not None]
    caps = {number: cap for number, cap in read_caps(experiment).items() if number in goals and number not in ranked}
    found = read_mature(then, instant, caps)
    by_phase: dict[int, dict[int, Mapping[str, ExactSums]]] = {}
    mature = {phase: found.users_of(goals[0], phase) for phase in found.everybody}
    for phase, users in mature.items():
        of_phase = found.sums.by_phase.get(phase, {})
        by_phase[phase] = {number: of_phase[number] for number in goals if number in of_phase and number not in ranked}
        by_phase[phase][EXPOSURE] = {variant: ExactSums(users=number) for variant, number in users.items() if number}
    if ranked:
        caps |= _ranked_caps(experiment, instant, span, ranked)
        for phase, sums in _sum_ranked(experiment, second, ranked, caps).items():
            by_phase.setdefault(phase, {}).update(sums)
    has_quantiles = any(definitions[number].quantile is not None for number in goals) and experiment.frozen_at is None
    quantiles = quantiles_as_of(experiment, instant) if has_quantiles else {}
    return FixedReading(instant, SumsAsOf(by_phase, {span: mature}), quantiles, caps)


def _ranked_caps(experiment: Experiment, instant: datetime, span: timedelta, goals: Sequence[int]) -> Caps:
    """Return the caps at a percentile of the users who were mature at the last midnight (UTC)."""
    midnight = datetime.combine(instant.astimezone(UTC).date(), time.min, UTC)
    users = _exposed_by(experiment, midnight - span)
    definitions = definitions_of(experiment)
    found = {
        number: find_cap(definitions[number], stored_values(experiment).filter(metric=number, user_id__in=users))
        for number in goals
    }
    return {number: cap for number, cap in found.items() if cap is not None}


def _sum_ranked(experiment: Experiment, second: datetime, goals: Sequence[int], caps: Caps) -> Mapping[int, MetricSums]:
    rows = stored_values(experiment).filter(metric__in=goals, user_id__in=_exposed_by(experiment, second))
    by_phase: dict[int, dict[int, dict[str, ExactSums]]] = {}
    sums = sum_values(rows, summing_of(experiment, caps).of_metrics(goals), ("phase",))
    for (number, variant, phase), of_variant in sums.items():
        by_phase.setdefault(phase, {}).setdefault(number, {})[variant] = of_variant
    return by_phase


def _exposed_by(experiment: Experiment, moment: datetime) -> QuerySet[UserValue, Any]:
    """Return the ids of the users who were exposed by the second of a moment."""
    exposures = stored_values(experiment).filter(metric=EXPOSURE, exposed_at__lt=floor_to_second(moment) + _SECOND)
    return exposures.values("user_id")
