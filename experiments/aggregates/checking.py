"""Comparing the stored aggregates of an experiment with those computed again from all events and exposures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime, timedelta
from math import isclose
from typing import Any, Literal, TypeVar

from django.db import OperationalError, connection, transaction

from config.database.consistent_reads import begin_on_workers
from config.database.engines import is_distributed
from config.database.group_commit import is_conflict
from experiments.aggregates.daily_changes import changes_to_check
from experiments.aggregates.dialects import planned
from experiments.aggregates.mature_sums import boundaries_of, indexes_of, read_mature
from experiments.aggregates.quantiles import compute_quantiles, read_quantiles, stored_sets
from experiments.aggregates.refresh import refresh_locked
from experiments.aggregates.statements import IN_ONE_PASS, TotalsQuery
from experiments.aggregates.sum_statements import counted, sum_by_day, sum_up
from experiments.aggregates.update import AggregateUpdater
from experiments.aggregates.variant_sums import EXPOSURES, NAMES, Caps, DailySums, VariantTotals, read_days, step_of
from experiments.metrics.documents import definitions_of
from experiments.models import AggregateState, Experiment
from experiments.models.locks import lock_aggregates

Result = TypeVar("Result")

_Sums = dict[tuple[Any, str, int, date | None], VariantTotals]

_MOST_ATTEMPTS = 20
_MOST_LOOKS = 5
_NEAR = 1e-9
"""The tolerance: SQLite adds the amounts of one user as floats, in any order."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A stored number that differs from the one computed again.

    It is one of the sums, of the sums of the totals, of the sums over mature users, of the daily changes behind series,
    a cap, the number of users near a cap who are not marked, or a quantile. `whose` is the variant, the phase and the
    day of the exposures, or of a daily change; the day is None for mature users, who are of all days. `metric` is None
    for counts of the exposures.
    """

    where: Literal["sums", "totals", "mature", "series", "caps", "quantiles"]
    metric: str | None
    whose: tuple[str, int, date | None] | None
    name: str
    kept: float | None
    computed: float | None


def check_sums(experiment: Experiment, at: datetime) -> list[Difference]:
    """Bring a started experiment up to date, and return where its aggregates differ from those computed again.

    A frozen experiment cannot be checked, because its events may be gone. Readers of its results wait meanwhile.
    """

    def compare(state: AggregateState) -> list[Difference]:
        refresh_locked(state, at)
        current = Experiment.objects.get(pk=state.pk)
        updater, keys = AggregateUpdater(state, current), [definition.key for definition in definitions_of(current)]
        right = sums_from_scratch(current, updater.caps)
        return [
            *_other_sums("sums", keys, _kept(current), right),
            *_other_sums("totals", keys, updater.sums_of_totals(), right),
            *_other_sums("mature", keys, *_mature_sums(current, at, updater.caps)),
            *_other_sums("series", keys, *changes_to_check(state, current)),
            *_other_caps(keys, updater.caps, updater.find_caps()),
            *_unmarked(keys, updater.count_unmarked()),
            *_other_quantiles(current, at, keys, state.quantiles or {}),
        ]

    differences = _in_one_snapshot(experiment, compare)
    # No snapshot of Citus covers all servers at one moment. What is wrong is found again.
    for _ in range(_MOST_LOOKS - 1):
        if not differences or not is_distributed():
            break
        differences = _in_one_snapshot(experiment, compare)
    return differences


def _in_one_snapshot(experiment: Experiment, work: Callable[[AggregateState], Result]) -> Result:
    """Lock the aggregates and work in a transaction of its own that sees one moment of the database.

    Otherwise, what is committed between two statements would be a difference. The snapshot is taken before the lock,
    so if another transaction changed the aggregates in between, the work begins again.
    """
    if connection.in_atomic_block:
        return work(*lock_aggregates([experiment.pk]))
    for attempt in range(_MOST_ATTEMPTS):
        try:
            with transaction.atomic():
                if connection.vendor == "postgresql":
                    with connection.cursor() as cursor:
                        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                    begin_on_workers()
                return work(*lock_aggregates([experiment.pk]))
        except OperationalError as error:
            if not is_conflict(error) or attempt == _MOST_ATTEMPTS - 1:
                raise
        with transaction.atomic():  # waits until the other transaction ends
            lock_aggregates([experiment.pk])
    raise AssertionError("the last attempt returns or raises")


def sums_from_scratch(experiment: Experiment, caps: Caps) -> DailySums:
    """Return the sums computed in one pass over all events, without writing anything."""
    query = TotalsQuery(experiment)
    with transaction.atomic(), planned(**IN_ONE_PASS):  # planner settings last until the transaction ends
        return sum_by_day(f"({query.totals(None)}) AS computed", counted(experiment, caps), query.parameters)


def _mature_sums(experiment: Experiment, at: datetime, caps: Caps) -> tuple[_Sums, _Sums]:
    """Return the sums over mature users as they are read, and as one pass over all events gives them.

    The numbers of mature users are in the sums of the exposures, with the span in place of the metric.
    """
    read, boundaries = read_mature(experiment, at, caps), boundaries_of(experiment, at, definitions_of(experiment))
    users: _Sums = {
        (span, variant, phase, None): VariantTotals(users=number)
        for span, by_phase in read.mature.items()
        for phase, by_variant in by_phase.items()
        for variant, number in by_variant.items()
    }
    with_window = [metric for metric in counted(experiment, caps) if metric.definition.span is not None]
    indexes = {index for metric in with_window for index in indexes_of(metric.label, metric.definition)}
    sums: _Sums = {
        (index, variant, phase, None): totals
        for phase, by_metric in read.sums.by_phase.items()
        for index, by_variant in by_metric.items()
        for variant, totals in by_variant.items()
        if index in indexes
    }
    query = TotalsQuery(experiment)
    mature = [replace(metric, before=boundaries[metric.definition.span or timedelta(0)]) for metric in with_window]
    with planned(**IN_ONE_PASS):
        summed = sum_up(f"({query.totals(None)}) AS computed", ["variant", "phase"], mature, query.parameters)
    computed: _Sums = {}
    for (label, variant, phase), totals in summed.items():
        for name in [span for span, before in boundaries.items() if before == label] or [label] * (label in indexes):
            computed[name, variant, phase, None] = totals
    return {**users, **sums}, computed


def _kept(experiment: Experiment) -> _Sums:
    return {key: sums for key, sums in read_days(experiment) if any(sums.values())}


def _other_sums(
    where: Literal["sums", "totals", "mature", "series"],
    keys: Sequence[str],
    kept: Mapping[Any, VariantTotals],
    right: Mapping[Any, VariantTotals],
) -> Iterator[Difference]:
    for key in sorted(kept.keys() | right.keys(), key=str):
        both = (sums.get(key, VariantTotals()).values() for sums in (kept, right))
        for name, stored, computed in zip(NAMES, *both, strict=True):
            if not isclose(stored, computed, rel_tol=_NEAR):
                yield Difference(where, _metric(keys, key[0]), key[1:], name, float(stored), float(computed))


def _other_caps(keys: Sequence[str], kept: Caps, right: Caps) -> Iterator[Difference]:
    for metric_index in sorted(kept.keys() | right.keys()):
        if kept.get(metric_index) != right.get(metric_index):
            yield Difference(
                "caps", _metric(keys, metric_index), None, "cap", kept.get(metric_index), right.get(metric_index)
            )


def _unmarked(keys: Sequence[str], numbers: Mapping[int, int]) -> Iterator[Difference]:
    for metric_index, number in numbers.items():
        if number:
            yield Difference("caps", _metric(keys, metric_index), None, "users who are not marked", number, 0)


def _other_quantiles(
    experiment: Experiment, at: datetime, keys: Sequence[str], stored: Mapping[str, Any]
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
                read_quantiles(experiment, at, phases, maturity),
                compute_quantiles(experiment, at, phases, maturity),
            )
        )
        for index, key, name in sorted(kept.keys() | right.keys()):
            value, computed = kept.get((index, key, name), 0), right.get((index, key, name), 0)
            if not isclose(value, computed, rel_tol=_NEAR):
                yield Difference("quantiles", keys[index], (key, max(phases), None), name, value, computed)


def _metric(keys: Sequence[str], metric_index: int | timedelta) -> str | None:
    """Return the name of a metric or of a step of a funnel. Metrics may be missing where sums are wrong."""
    if metric_index == EXPOSURES:
        return None
    if isinstance(metric_index, timedelta):
        return f"users after {metric_index}"
    if step := step_of(metric_index):
        return f"step {step[1]} of {_metric(keys, step[0])}"
    return keys[metric_index] if metric_index < len(keys) else f"number {metric_index + 1}"
