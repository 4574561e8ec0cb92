"""Comparing the stored aggregates of an experiment with those computed again from all events and exposures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from math import isclose
from typing import Literal, TypeVar

from django.db import OperationalError, connection, transaction

from config.database.group_commit import is_conflict
from experiments.aggregates.dialects import planned
from experiments.aggregates.refresh import refresh_locked
from experiments.aggregates.statements import IN_ONE_PASS, TotalsQuery
from experiments.aggregates.update import AggregateUpdater
from experiments.aggregates.variant_sums import (
    EXPOSURES,
    NAMES,
    Caps,
    DailySums,
    VariantTotals,
    counted,
    read_days,
    sum_by_day,
)
from experiments.metrics.documents import definitions_of
from experiments.models import AggregateState, Experiment
from experiments.models.locks import lock_aggregates

Result = TypeVar("Result")

_MOST_ATTEMPTS = 20
_NEAR = 1e-9
"""The tolerance: SQLite adds the amounts of one user as floats, in any order."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A stored number that differs from the one computed again: in the sums, in the sums of the totals, or a cap.

    `whose` is the variant, the phase and the day of the exposures. `metric` is None for counts of the exposures.
    """

    where: Literal["sums", "totals", "caps"]
    metric: str | None
    whose: tuple[str, int, date] | None
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
            *_other_caps(keys, updater.caps, updater.find_caps()),
        ]

    return _in_one_snapshot(experiment, compare)


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
    with planned(**IN_ONE_PASS):
        return sum_by_day(f"({query.totals(None)}) AS computed", counted(experiment, caps), query.parameters)


def _kept(experiment: Experiment) -> DailySums:
    return {key: sums for key, sums in read_days(experiment) if any(sums.values())}


def _other_sums(
    where: Literal["sums", "totals"], keys: Sequence[str], kept: DailySums, right: DailySums
) -> Iterator[Difference]:
    for key in sorted(kept.keys() | right.keys()):
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


def _metric(keys: Sequence[str], metric_index: int) -> str | None:
    if metric_index == EXPOSURES:
        return None
    return keys[metric_index] if metric_index < len(keys) else f"number {metric_index + 1}"
