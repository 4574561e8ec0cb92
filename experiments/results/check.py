"""Comparing the stored values and sums of an experiment with those computed again from all events and exposures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime, timedelta
from math import isclose
from typing import Any, Literal, TypeVar

from django.db import OperationalError, connection, transaction
from django.db.models import Count

from config.database.engines import is_distributed
from config.database.group_commit import is_conflict
from config.database.planning import IN_ONE_PASS, planned
from config.database.selects import rows_of
from config.database.transactions import keep_first_snapshot
from experiments.metrics.definition import definitions_of
from experiments.models import EXPOSURE, DayValue, Experiment, ResultState
from experiments.models.locks import lock_results
from experiments.results.expressions import UTCDay
from experiments.results.maturity import boundaries_of, read_mature
from experiments.results.quantiles import compute_quantiles, read_quantiles, stored_sets
from experiments.results.refresh import refresh_locked
from experiments.results.series import select_day_values, sum_day_values
from experiments.results.sums import (
    NAMES,
    Caps,
    ExactSums,
    StoredSums,
    numbers_of,
    read_changes,
    read_days,
    step_of,
    sum_values,
    summing_of,
)
from experiments.results.update import Update
from experiments.results.values import computed_values, in_several_variants, source_of

Result = TypeVar("Result")

_Sums = Mapping[tuple[Any, ...], ExactSums]

_MAX_ATTEMPTS = 20
_MAX_LOOKS = 5
_NEAR = 1e-9
"""The tolerance: SQLite adds the amounts of one user as floats, in any order."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A stored number that differs from the one computed again.

    It is one of the sums, of the sums over the stored values, of the sums over mature users, of the changes by day, a
    cap or a quantile. `whose` is the variant, the phase and the day of the exposures, or of a change; the day is None
    for mature users, who are of all days. `metric` is None for counts of the exposures.
    """

    where: Literal["sums", "values", "mature", "series", "caps", "quantiles"]
    metric: str | None
    whose: tuple[str, int, date | None] | None
    name: str
    kept: float | None
    computed: float | None


def check_sums(experiment: Experiment, now: datetime) -> list[Difference]:
    """Bring a started experiment up to date, and return where its results differ from those computed again.

    A frozen experiment cannot be checked, because its events may be gone. Readers of its results wait meanwhile.
    """

    def compare(state: ResultState) -> list[Difference]:
        refresh_locked(state, now)
        current = Experiment.objects.get(pk=state.experiment_id)
        update, keys = Update(state, current), [definition.key for definition in definitions_of(current)]
        right = sums_from_scratch(current, update.caps)
        return [
            *_other_sums("sums", keys, {key: sums for key, sums in read_days(current) if sums}, right),
            *_other_sums("values", keys, update.sums_of_values(), right),
            *_other_sums("mature", keys, *_mature_sums(current, now, update.caps)),
            *_other_sums("series", keys, *_daily_sums(state, current, update.caps)),
            *_other_caps(keys, update.caps, update.find_caps()),
            *_other_quantiles(current, now, keys, state.quantiles or {}),
        ]

    differences = _in_one_snapshot(experiment, compare)
    # No snapshot of Citus covers all servers at one moment. What is wrong is found again.
    for _ in range(_MAX_LOOKS - 1):
        if not differences or not is_distributed():
            break
        differences = _in_one_snapshot(experiment, compare)
    return differences


def _in_one_snapshot(experiment: Experiment, work: Callable[[ResultState], Result]) -> Result:
    """Lock the results and work in a transaction of its own that sees one moment of the database.

    Otherwise, what is committed between two statements would be a difference. The snapshot is taken before the lock,
    so if another transaction changed the results in between, the work begins again.
    """
    if connection.in_atomic_block:
        return work(*lock_results([experiment.pk]))
    for attempt in range(_MAX_ATTEMPTS):
        try:
            with transaction.atomic():
                keep_first_snapshot()
                return work(*lock_results([experiment.pk]))
        except OperationalError as error:
            if not is_conflict(error) or attempt == _MAX_ATTEMPTS - 1:
                raise
        with transaction.atomic():  # waits until the other transaction ends
            lock_results([experiment.pk])
    raise AssertionError("the last attempt returns or raises")


def sums_from_scratch(experiment: Experiment, caps: Caps) -> StoredSums:
    """Return the sums computed in one pass over all events, without writing anything."""
    source = source_of(experiment)
    day = UTCDay("exposed_at")
    with transaction.atomic(), planned(**IN_ONE_PASS):  # planner settings last until the transaction ends
        exposed = source.exposures.annotate(day=day).values_list("variant", "phase", "day")
        several = Count("user_id", filter=in_several_variants(experiment))
        sums = {
            (EXPOSURE, variant, phase, on): ExactSums(users=users, in_several_variants=number)
            for variant, phase, on, users, number in exposed.annotate(users=Count("user_id"), several=several)
        }
        return sums | sum_values(computed_values(source), summing_of(experiment, caps))


def _daily_sums(state: ResultState, experiment: Experiment, caps: Caps) -> tuple[_Sums, _Sums]:
    """Return the stored changes by day, and those computed again, of the metrics of which there are any."""
    if not state.daily_metrics:
        return {}, {}
    summing = summing_of(experiment, caps).of_metrics(state.daily_metrics)
    with planned(**IN_ONE_PASS):
        rows = rows_of(DayValue, select_day_values(source_of(experiment).of_metrics(state.daily_metrics)))
        computed = sum_day_values(rows, summing)
    return dict(read_changes(experiment)), computed


def _mature_sums(experiment: Experiment, now: datetime, caps: Caps) -> tuple[_Sums, _Sums]:
    """Return the sums over mature users as they are read, and as one pass over all events gives them.

    The numbers of mature users are in the sums of the exposures, with the span in place of the metric.
    """
    source = source_of(experiment)
    read, boundaries = read_mature(experiment, now, caps), boundaries_of(experiment, now, source.definitions.values())
    windowed = [number for number, definition in source.definitions.items() if definition.span is not None]
    if not windowed:
        return {}, {}
    users: dict[tuple[Any, ...], ExactSums] = {
        (span, variant, phase): ExactSums(users=number)
        for span, by_phase in read.mature.items()
        for phase, by_variant in by_phase.items()
        for variant, number in by_variant.items()
    }
    wanted = {number for metric in windowed for number in numbers_of(metric, source.definitions[metric])}
    sums = {
        (number, variant, phase): of_variant
        for phase, by_metric in read.sums.by_phase.items()
        for number, by_variant in by_metric.items()
        for variant, of_variant in by_variant.items()
        if number in wanted
    }
    computed: dict[tuple[Any, ...], ExactSums] = {}
    with planned(**IN_ONE_PASS):
        for span, before in boundaries.items():
            mature = source.exposures.filter(exposed_at__lt=before).values_list("variant", "phase")
            for variant, phase, number in mature.annotate(users=Count("user_id")):
                computed[span, variant, phase] = ExactSums(users=number)
        values = computed_values(replace(source.of_metrics(windowed), mature_by=boundaries))
        computed |= sum_values(values, summing_of(experiment, caps).of_metrics(windowed), ("phase",))
    return {**users, **sums}, computed


def _other_sums(
    where: Literal["sums", "values", "mature", "series"],
    keys: Sequence[str],
    stored: _Sums,
    right: _Sums,
) -> Iterator[Difference]:
    for key in sorted(stored.keys() | right.keys(), key=str):
        number, variant, phase, *day = key
        whose: tuple[str, int, date | None] = variant, phase, day[0] if day else None
        both = (sums.get(key, ExactSums()).values() for sums in (stored, right))
        for name, before, computed in zip(NAMES, *both, strict=True):
            if not isclose(before, computed, rel_tol=_NEAR):
                yield Difference(where, _metric(keys, number), whose, name, float(before), float(computed))


def _other_caps(keys: Sequence[str], kept: Caps, right: Caps) -> Iterator[Difference]:
    for number in sorted(kept.keys() | right.keys()):
        if kept.get(number) != right.get(number):
            yield Difference("caps", _metric(keys, number), None, "cap", kept.get(number), right.get(number))


def _other_quantiles(
    experiment: Experiment, now: datetime, keys: Sequence[str], stored: Mapping[str, Any]
) -> Iterator[Difference]:
    """Yield the stored quantiles that differ, of those that are still in use."""
    for phases, maturity in stored_sets(stored):
        kept, right = (
            {
                (index, key, name): value
                for index, by_variant in quantiles.items()
                for key, quantile in by_variant.items()
                for name, value in asdict(quantile).items()
            }
            for quantiles in (
                read_quantiles(experiment, now, phases, maturity),
                compute_quantiles(experiment, now, phases, maturity),
            )
        )
        for index, key, name in sorted(kept.keys() | right.keys()):
            value, computed = kept.get((index, key, name), 0), right.get((index, key, name), 0)
            if not isclose(value, computed, rel_tol=_NEAR):
                yield Difference("quantiles", keys[index], (key, max(phases), None), name, value, computed)


def _metric(keys: Sequence[str], number: int | timedelta) -> str | None:
    """Return the name of a metric or of a step of a funnel. Metrics may be missing where sums are wrong."""
    if number == EXPOSURE:
        return None
    if isinstance(number, timedelta):
        return f"users after {number}"
    if step := step_of(number):
        return f"step {step[1]} of {_metric(keys, step[0])}"
    return keys[number] if number < len(keys) else f"number {number + 1}"
