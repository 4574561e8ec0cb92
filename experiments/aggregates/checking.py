"""Holding what is kept of an experiment against what all its events and exposures give."""

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
"""SQLite adds up the amounts of one user as floats, in any order."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A figure that is not what events and exposures give: of sums that are kept, of sums of the totals, or a cap.

    `whose` is the variant, and the phase and the day of the exposures. `metric` is None where the exposures themselves
    are counted.
    """

    where: Literal["sums", "totals", "caps"]
    metric: str | None
    whose: tuple[str, int, date] | None
    name: str
    kept: float | None
    computed: float | None


def check_sums(experiment: Experiment, at: datetime) -> list[Difference]:
    """Bring a started experiment up to date, and find where what is kept differs from what is computed from scratch.

    Of one that is frozen nothing can be said, for its events may be gone. Whoever reads its results meanwhile waits.
    """

    def compare(held: AggregateState) -> list[Difference]:
        refresh_locked(held, at)
        current = Experiment.objects.get(pk=held.pk)
        updater, keys = AggregateUpdater(held, current), [each.key for each in definitions_of(current)]
        right = sums_from_scratch(current, updater.caps)
        return [
            *_other_sums("sums", keys, _kept(current), right),
            *_other_sums("totals", keys, updater.sums_of_totals(), right),
            *_other_caps(keys, updater.caps, updater.find_caps()),
        ]

    return _in_one_snapshot(experiment, compare)


def _in_one_snapshot(experiment: Experiment, work: Callable[[AggregateState], Result]) -> Result:
    """Work on an experiment whose fold is held, in a transaction of its own that sees one moment of the database.

    What came between two statements would else be a difference. A transaction begins to see before it can hold: where
    somebody else has changed the fold meanwhile, it begins again.
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
        with transaction.atomic():  # until whoever was first is done
            lock_aggregates([experiment.pk])
    raise AssertionError("the last attempt returns or raises")


def sums_from_scratch(experiment: Experiment, caps: Caps) -> DailySums:
    """The sums as one pass over all events gives them. It reads, and writes nothing."""
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
        for name, one, other in zip(NAMES, *both, strict=True):
            if not isclose(one, other, rel_tol=_NEAR):
                yield Difference(where, _metric(keys, key[0]), key[1:], name, float(one), float(other))


def _other_caps(keys: Sequence[str], kept: Caps, right: Caps) -> Iterator[Difference]:
    for place in sorted(kept.keys() | right.keys()):
        if kept.get(place) != right.get(place):
            yield Difference("caps", _metric(keys, place), None, "cap", kept.get(place), right.get(place))


def _metric(keys: Sequence[str], place: int) -> str | None:
    if place == EXPOSURES:
        return None
    return keys[place] if place < len(keys) else f"number {place + 1}"
