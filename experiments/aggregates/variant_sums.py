"""Sums over the totals of users by variant, which are all that the statistics need, and reading them.

`sum_statements` computes them. Call `experiments.exposures.up_to_date.bring_up_to_date` before reading. Each function
makes one statement.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import date, timedelta
from decimal import Decimal
from operator import attrgetter
from typing import Any

from django.db.models import QuerySet, Sum

from experiments.models import AggregateState, Experiment, VariantSums
from experiments.models.fields import EXACT, ExactField, ExactSum

EXPOSURES = -1
"""The metric index that stands for the exposures themselves; its sums have only `users` and `several`."""

_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class VariantTotals:
    """Exact sums over the users of one variant for one metric (see `models.VariantSums`)."""

    users: int = 0
    several: int = 0
    positive: int = 0
    measured: int = 0
    y: Decimal = _ZERO
    yy: Decimal = _ZERO
    d: Decimal = _ZERO
    dd: Decimal = _ZERO
    yd: Decimal = _ZERO
    x: Decimal = _ZERO
    xx: Decimal = _ZERO
    xy: Decimal = _ZERO
    e: Decimal = _ZERO
    ee: Decimal = _ZERO
    xe: Decimal = _ZERO
    ye: Decimal = _ZERO
    dx: Decimal = _ZERO
    de: Decimal = _ZERO
    events: int = 0
    foreign: int = 0

    def __add__(self, other: VariantTotals) -> VariantTotals:
        return VariantTotals(*map(_add, self.values(), other.values()))

    def __neg__(self) -> VariantTotals:
        return VariantTotals(*map(_negate, self.values()))

    def values(self) -> tuple[Any, ...]:
        """Return the sums in the order of NAMES."""
        values: tuple[Any, ...] = _values(self)
        return values

    @property
    def is_non_negative(self) -> bool:
        """Return whether no user has a value y below 0, for a metric that adds amounts.

        Sums that were frozen by an older version lack `measured`: they say so only where no user has a value above 0.
        """
        return self.measured == self.positive

    def document(self) -> dict[str, Any]:
        """Return the sums by name."""
        return dict(zip(NAMES, self.values(), strict=True))


NAMES = tuple(field.name for field in fields(VariantTotals))
_values = attrgetter(*NAMES)
KINDS: Mapping[str, type[Any]] = {field.name: type(field.default) for field in fields(VariantTotals)}


def as_totals(**values: Any) -> VariantTotals:
    """Return sums from the values that the database returned, by name."""
    return VariantTotals(**{name: KINDS[name](value or 0) for name, value in values.items()})


def _negate(value: Any) -> Any:
    return value.copy_negate() if isinstance(value, Decimal) else -value  # a decimal's own operator would round


def _add(left: Any, right: Any) -> Any:
    return EXACT.add(left, right) if isinstance(left, Decimal) else left + right


Sums = dict[tuple[Any, ...], VariantTotals]
"""Sums by the label of what is counted, followed by the values grouped by.

The label is EXPOSURES for the exposures, and a moment for the users who were exposed before it.
"""

KEY = ("metric", "variant", "phase", "day")
"""The columns by which the sums of an experiment are stored."""

DailySums = dict[tuple[int, str, int, date], VariantTotals]
"""Sums by metric index, variant, phase of the exposures, and day of the exposures in UTC."""

Caps = Mapping[int, float]
"""The cap of each metric that has one, by metric index."""


def step_index(metric_index: int, step: int) -> int:
    """Return the metric index that stands for a step of a funnel, counting from 1.

    Its sums have only `users`: those who passed this step and all steps before it.
    """
    return (metric_index + 1) * _STEPS + step


def step_of(index: int) -> tuple[int, int] | None:
    """Return the metric index and the number of the step that an index stands for, or None for a metric."""
    return (index // _STEPS - 1, index % _STEPS) if index > _STEPS else None


_STEPS = 100  # more than an experiment has metrics, and than a funnel has steps


_USERS_AT_ONCE = 2000

Totals = Mapping[int, Mapping[str, VariantTotals]]
"""Sums by metric index (EXPOSURES for the exposures), then by variant, without entries for variants without users."""

Phases = Collection[int] | None
"""The numbers of the phases whose exposures count; None means all."""

Mature = Mapping[timedelta, Mapping[int, Mapping[str, int]]]
"""The number of users who count for the metrics with a window: by the length of delay and window, phase and variant."""


@dataclass(frozen=True, slots=True)
class SumsAsOf:
    """The sums as of a moment, by phase. Metrics with a window count mature users only, whose number is in `mature`."""

    by_phase: Mapping[int, Totals]
    mature: Mature


def read_sums(experiment: Experiment) -> Totals:
    """Return the sums over all users."""
    return pool(read_phases(experiment))


def read_phases(experiment: Experiment) -> Mapping[int, Totals]:
    """Return the sums over the users who were exposed in each phase, by phase number."""
    return sum_by_phase(_sums(experiment))


def sum_by_phase(stored: QuerySet[VariantSums]) -> dict[int, dict[int, dict[str, VariantTotals]]]:
    """Return the sums over the days of some stored sums, by phase number."""
    summed = {f"sum_{name}": _sum(VariantSums._meta.get_field(name)) for name in NAMES}
    by_phase: dict[int, dict[int, dict[str, VariantTotals]]] = {}
    rows = stored.values_list("phase", "metric", "variant").annotate(**summed)
    for phase, metric_index, variant, *values in rows:
        of_metric = by_phase.setdefault(phase, {}).setdefault(metric_index, {})
        of_metric[variant] = as_totals(**dict(zip(NAMES, values, strict=True)))
    return by_phase


def pool(by_phase: Mapping[int, Totals], phases: Phases = None) -> Totals:
    """Return the sums over the users of these phases together."""
    pooled: dict[int, dict[str, VariantTotals]] = {}
    for totals in (of_phase for phase, of_phase in by_phase.items() if phases is None or phase in phases):
        for metric_index, of_variant in totals.items():
            of_metric = pooled.setdefault(metric_index, {})
            for variant, sums in of_variant.items():
                of_metric[variant] = of_metric[variant] + sums if variant in of_metric else sums
    return pooled


def _sum(field: Any) -> Any:
    return ExactSum(field.name) if isinstance(field, ExactField) else Sum(field.name)


def read_daily(
    experiment: Experiment, phases: Phases = None
) -> Mapping[int, Mapping[str, Mapping[date, VariantTotals]]]:
    """Return the sums over the users of these phases by the day of their exposure, in UTC and in order."""
    daily: dict[int, dict[str, dict[date, VariantTotals]]] = {}
    for (metric_index, variant, _, day), sums in read_days(experiment, phases):
        of_day = daily.setdefault(metric_index, {}).setdefault(variant, {})
        of_day[day] = of_day[day] + sums if day in of_day else sums
    return daily


def read_days(
    experiment: Experiment, phases: Phases = None
) -> Iterator[tuple[tuple[int, str, int, date], VariantTotals]]:
    """Yield the stored sums with their metric index, variant, phase and day, in the order of the days."""
    kept = _sums(experiment) if phases is None else _sums(experiment).filter(phase__in=phases)
    for metric_index, variant, phase, day, *values in kept.order_by("day").values_list(*KEY, *NAMES):
        yield (metric_index, variant, phase, day), VariantTotals(*values)


def read_caps(experiment: Experiment) -> Mapping[int, float]:
    """Return the caps in force, fixed ones and percentiles, by metric index."""
    caps = AggregateState.objects.filter(experiment=experiment).values_list("caps", flat=True).first() or {}
    return {int(metric_index): cap for metric_index, cap in caps.items()}


def _sums(experiment: Experiment) -> QuerySet[VariantSums]:
    return VariantSums.objects.filter(experiment=experiment)
