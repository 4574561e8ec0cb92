"""Sums over the values of users, which are all that the statistics need: computing, reading and changing them.

Call `results.refresh.bring_up_to_date` before reading. Each function that reads makes one statement.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date, timedelta
from decimal import Decimal
from functools import reduce
from operator import attrgetter, mul
from typing import Any
from uuid import UUID

from django.core.exceptions import EmptyResultSet
from django.db.models import Case, Count, F, Field, FloatField, Q, QuerySet, Sum, Value, When
from django.db.models.functions import Coalesce

from config.database.insertion import insert, replacing
from config.database.selects import Column, rows_of, select_of
from experiments.metrics.definition import Definition, definitions_of
from experiments.models import EXPOSURE, DailySums, DayValue, Experiment, ResultState, UserValue, VariantSums
from experiments.models.fields import EXACT, ExactField
from experiments.results.expressions import Exact, ExactSum
from experiments.results.values import lookback_of

_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class ExactSums:
    """Exact sums over the users of one variant for one metric (see `models.results.SumColumns`)."""

    users: int = 0
    in_several_variants: int = 0
    positive: int = 0
    nonzero: int = 0
    active: int = 0
    value: Decimal = _ZERO
    value_squared: Decimal = _ZERO
    denominator: Decimal = _ZERO
    denominator_squared: Decimal = _ZERO
    value_denominator: Decimal = _ZERO
    value_before: Decimal = _ZERO
    value_before_squared: Decimal = _ZERO
    value_value_before: Decimal = _ZERO
    denominator_before: Decimal = _ZERO
    denominator_before_squared: Decimal = _ZERO
    value_before_denominator_before: Decimal = _ZERO
    value_denominator_before: Decimal = _ZERO
    denominator_value_before: Decimal = _ZERO
    denominator_denominator_before: Decimal = _ZERO
    events: int = 0
    other_currency: int = 0
    without_number: int = 0

    def __add__(self, other: ExactSums) -> ExactSums:
        return ExactSums(*map(_add, self.values(), other.values()))

    def __neg__(self) -> ExactSums:
        return ExactSums(*map(_negate, self.values()))

    def __bool__(self) -> bool:
        return any(self.values())

    def values(self) -> tuple[Any, ...]:
        """Return the sums in the order of NAMES."""
        values: tuple[Any, ...] = _values(self)
        return values

    @property
    def is_non_negative(self) -> bool:
        """Return whether no user has a value below 0, for a metric that adds amounts."""
        return self.nonzero == self.positive

    def as_json(self) -> dict[str, Any]:
        """Return the sums by name, exact ones as texts, without zeros."""
        named = zip(NAMES, self.values(), strict=True)
        return {name: str(value) if isinstance(value, Decimal) else value for name, value in named if value}


NAMES = tuple(field.name for field in fields(ExactSums))
_values = attrgetter(*NAMES)
_TYPES: Mapping[str, type[Any]] = {field.name: type(field.default) for field in fields(ExactSums)}


def exact_sums(**values: Any) -> ExactSums:
    """Return sums from values as the database or JSON has them, by name."""
    return ExactSums(**{name: _TYPES[name](value or 0) for name, value in values.items()})


def _negate(value: Any) -> Any:
    return value.copy_negate() if isinstance(value, Decimal) else -value  # a decimal's own operator would round


def _add(left: Any, right: Any) -> Any:
    return EXACT.add(left, right) if isinstance(left, Decimal) else left + right


KEY = ("metric", "variant", "phase", "day")
"""The columns by which the sums of an experiment are stored."""

Grouped = dict[tuple[Any, ...], ExactSums]
"""Sums by the number of a metric (EXPOSURE for the exposures), followed by what the users are grouped by."""

StoredSums = dict[tuple[int, str, int, date], ExactSums]
"""Sums by the number of a metric, variant, phase of the exposures, and day of the exposures in UTC."""

Caps = Mapping[int, float]
"""The cap of each metric that has one, by the number of the metric."""

MetricSums = Mapping[int, Mapping[str, ExactSums]]
"""Sums by the number of a metric, then by variant, without entries for variants without users."""

SumsByPhase = dict[int, dict[int, dict[str, ExactSums]]]
"""Sums by the number of a phase, the number of a metric, and variant."""

Phases = Collection[int] | None
"""The numbers of the phases whose exposures count; None means all."""

Mature = Mapping[timedelta, Mapping[int, Mapping[str, int]]]
"""The number of users who count for the metrics with a window: by the length of delay and window, phase and variant."""


@dataclass(frozen=True, slots=True)
class SumsAsOf:
    """The sums as of a moment, by phase. Metrics with a window count mature users only, whose number is in `mature`."""

    by_phase: Mapping[int, MetricSums]
    mature: Mature


_STEPS = 100  # more than an experiment has metrics, and than a funnel has steps


def step_number(metric: int, step: int) -> int:
    """Return the number that stands in place of a metric's for a step of a funnel, counting from 1.

    Its sums have only `users`: those who passed this step and all steps before it.
    """
    return (metric + 1) * _STEPS + step


def step_of(number: int) -> tuple[int, int] | None:
    """Return the metric and the step that a number stands for, or None for a metric."""
    return (number // _STEPS - 1, number % _STEPS) if number > _STEPS else None


def numbers_of(metric: int, definition: Definition) -> list[int]:
    """Return the numbers that stand for a metric and for the steps of a funnel."""
    return [metric, *(step_number(metric, step) for step in range(1, len(definition.steps) + 1))]


# computing


@dataclass(frozen=True)
class Summing:
    """What is summed up: the metrics by number, their caps, the keys of the variants, and whether a history counts."""

    definitions: Mapping[int, Definition]
    caps: Caps
    variants: Sequence[str]
    has_history: bool

    def of_metrics(self, numbers: Collection[int]) -> Summing:
        chosen = {number: self.definitions[number] for number in numbers}
        return Summing(chosen, self.caps, self.variants, self.has_history)

    def is_whole(self, number: int) -> bool:
        """Return whether all values of users are whole numbers, which floats sum exactly."""
        definition = self.definitions[number]
        if number in self.caps or definition.cap_value is not None or definition.cap_percentile is not None:
            return False
        if definition.type in ("distinct", "funnel", "quantile"):
            return True
        return not any(part.property for part in (definition.quantity, definition.denominator) if part)


def summing_of(experiment: Experiment, caps: Caps) -> Summing:
    """Return what is summed up of an experiment: all of its metrics."""
    definitions = dict(enumerate(definitions_of(experiment)))
    return Summing(definitions, caps, experiment.variant_keys, bool(lookback_of(experiment)))


def sum_values(
    rows: QuerySet[UserValue] | QuerySet[DayValue],
    summing: Summing,
    keys: Sequence[str] = ("phase", "day"),
    *,
    has_exposures: bool = False,
) -> Grouped:
    """Return the sums over values of users, by metric, variant and these columns, without those that are all 0.

    `has_exposures` is whether there may be rows of EXPOSURE.
    """
    terms = _Terms(summing, has_exposures)
    groups = ("metric", "variant_number", *keys)
    try:
        select = select_of(rows.order_by().values(*groups, *terms.fields()).annotate(**terms.factors()))
    except EmptyResultSet:
        return {}
    computed = {key: Column(key, made.output_field) for key, made in rows.query.annotations.items() if key in keys}
    # A factor is converted once for each row, not once for each sum that it is in.
    once = rows_of(rows.model, select, is_fenced=True).annotate(**computed)
    grouped = once.values(*groups).annotate(**terms.aggregates())
    sums: Grouped = {}
    for row in grouped:
        variant = summing.variants[row["variant_number"]]
        for number, summed in terms.read(row):
            if summed:
                sums[(number, variant, *(row[key] for key in keys))] = summed
    return sums


_FACTORS = {
    "value": ("value",),
    "value_squared": ("value", "value"),
    "value_before": ("value_before",),
    "value_before_squared": ("value_before", "value_before"),
    "value_value_before": ("value", "value_before"),
    "denominator": ("denominator",),
    "denominator_squared": ("denominator", "denominator"),
    "value_denominator": ("value", "denominator"),
    "denominator_before": ("denominator_before",),
    "denominator_before_squared": ("denominator_before", "denominator_before"),
    "value_before_denominator_before": ("value_before", "denominator_before"),
    "value_denominator_before": ("value", "denominator_before"),
    "denominator_value_before": ("denominator", "value_before"),
    "denominator_denominator_before": ("denominator", "denominator_before"),
}
"""The columns of values whose product each sum adds up. NULL stands for 0."""
_CAPPED = ("value", "value_before")


class _Terms:
    """The aggregates over the values of several metrics in one statement, and what they say of each metric."""

    def __init__(self, summing: Summing, has_exposures: bool) -> None:
        self._summing, self._has_exposures = summing, has_exposures
        self._whole = {number for number in summing.definitions if summing.is_whole(number)}
        self._exact = summing.definitions.keys() - self._whole
        self._steps = max((len(definition.steps) for definition in summing.definitions.values()), default=0)

    def fields(self) -> list[str]:
        """Return the fields of values that the aggregates need besides the factors."""
        of_exposures = ["user_id", "in_several_variants"] if self._has_exposures else []
        if not self._summing.definitions:
            return of_exposures
        columns = ("events", "other_currency", "without_number", "value", "denominator")
        return [*of_exposures, *columns, *(["steps"] if self._steps else [])]

    def factors(self) -> dict[str, Any]:
        """Return the factors of products by name. Each is NULL in the rows of metrics of the other kind."""
        factors: dict[str, Any] = {}
        for name in ("value", "denominator", "value_before", "denominator_before"):
            if whole := self._with(name, self._whole):
                factors[f"whole_{name}_factor"] = _only(whole, self._exact, F(name))
            if exact := self._with(name, self._exact):
                factors[f"exact_{name}_factor"] = _only(exact, self._whole, Exact(_capped(name, self._summing.caps)))
        return factors

    def aggregates(self) -> dict[str, Any]:
        """Return the aggregates by name. Values that are 0 are NULL, and cost nothing."""
        aggregates: dict[str, Any] = {}
        if self._has_exposures:
            several = Count("user_id", filter=Q(in_several_variants=True))
            aggregates |= {"row_users": Count("user_id"), "row_several": several}
        if not self._summing.definitions:
            return aggregates
        aggregates |= {
            "row_active": Count("events"),
            "row_positive": Count("value", filter=Q(value__gt=0)),
            "row_nonzero": Count("value"),
            "row_either": Count(Coalesce("value", "denominator")),
            "row_events": Sum("events"),
            "row_other_currency": Sum("other_currency"),
            "row_without_number": Sum("without_number"),
        }
        for name, factors in _FACTORS.items():
            if self._with(name, self._whole):
                aggregates[f"whole_{name}"] = Sum(_product("whole", factors, FloatField()))
            if self._with(name, self._exact):
                aggregates[f"exact_{name}"] = ExactSum(_product("exact", factors, ExactField()))
        for step in range(1, self._steps + 1):
            aggregates[f"row_step_{step}"] = Count("steps", filter=Q(steps__gte=step))
        return aggregates

    def read(self, row: Mapping[str, Any]) -> Iterator[tuple[int, ExactSums]]:
        """Yield the sums of a row by the number of its metric, and those of the steps of a funnel."""
        number = row["metric"]
        if number == EXPOSURE:
            yield EXPOSURE, exact_sums(users=row["row_users"], in_several_variants=row["row_several"])
            return
        definition, kind = self._summing.definitions[number], "whole" if number in self._whole else "exact"
        products = {name: row[f"{kind}_{name}"] for name in _FACTORS if self._has(name, number)}
        counts_nonzero = definition.cap_percentile is not None or definition.adds_amounts
        yield (
            number,
            exact_sums(
                users=row["row_active"],
                positive=row["row_positive"],
                nonzero=row["row_nonzero"] if counts_nonzero else 0,
                active=row["row_either"] if definition.denominator else 0,
                events=row["row_events"],
                other_currency=row["row_other_currency"],
                without_number=row["row_without_number"],
                **products,
            ),
        )
        for step in range(1, len(definition.steps) + 1):
            yield step_number(number, step), exact_sums(users=row[f"row_step_{step}"])

    def _with(self, name: str, numbers: Collection[int]) -> list[int]:
        return sorted(number for number in numbers if self._has(name, number))

    def _has(self, name: str, number: int) -> bool:
        """Return whether a metric has the columns whose product is summed up."""
        definition, factors = self._summing.definitions[number], _FACTORS[name]
        has_before = self._summing.has_history and definition.type not in ("funnel", "quantile")
        return all(
            (has_before or not factor.endswith("before"))
            and (definition.denominator is not None or not factor.startswith("denominator"))
            for factor in factors
        )


def _only(numbers: Sequence[int], others: Collection[int], factor: Any) -> Any:
    """Return a factor in the rows of these metrics alone, where the statement sums up others in another way."""
    return Case(When(metric__in=numbers, then=factor)) if others else factor


def _product(kind: str, factors: Sequence[str], output_field: Field[Any, Any]) -> Any:
    return reduce(mul, (Column(f"{kind}_{factor}_factor", output_field) for factor in factors))


def _capped(column: str, caps: Caps) -> Any:
    if not caps or column not in _CAPPED:
        return F(column)
    whens = [When(Q(("metric", number), (f"{column}__gt", cap)), then=Value(cap)) for number, cap in caps.items()]
    return Case(*whens, default=F(column), output_field=FloatField())


# changing


class Change:
    """Amounts to add to sums."""

    def __init__(self) -> None:
        self.sums: Grouped = {}

    def add(self, sign: int, sums: Mapping[Any, ExactSums]) -> None:
        """Add sums where the sign is 1, and subtract them where it is -1."""
        for key, more in sums.items():
            change = more if sign == 1 else -more
            self.sums[key] = self.sums[key] + change if key in self.sums else change


def store_change(model: type[VariantSums | DailySums], experiment_id: UUID, change: Change) -> None:
    """Add the change to the stored sums, and delete those of which nothing is left. The caller holds their lock."""
    changed = {key: sums for key, sums in change.sums.items() if sums}
    if not changed:
        return
    stored = model._default_manager.filter(
        experiment=experiment_id,
        metric__in={number for number, *_ in changed},
        day__in={day for *_, day in changed},
    )
    for *key, values in _rows(stored):
        if tuple(key) in changed:
            changed[tuple(key)] += values
    for number, variant, phase, day in [key for key, sums in changed.items() if not sums]:
        stored.filter(metric=number, variant=variant, phase=phase, day=day).delete()
    columns = ["experiment_id", *KEY]
    rows = [
        [experiment_id, number, variant, phase, day.isoformat(), *map(str, sums.values())]
        for (number, variant, phase, day), sums in changed.items()
        if sums
    ]
    insert(model, [*columns, *NAMES], rows, replacing(columns, [*columns, *NAMES]))


# reading


def read_sums(experiment: Experiment) -> MetricSums:
    """Return the sums over all users."""
    return pool(read_phases(experiment))


def read_phases(experiment: Experiment) -> SumsByPhase:
    """Return the sums over the users who were exposed in each phase, by phase number."""
    [everybody] = read_parts(experiment, Value(0), 1)
    return everybody


def read_parts(experiment: Experiment, part: Any, number: int) -> Sequence[SumsByPhase]:
    """Return the sums over the days of exposure by phase number, for each number of a part.

    `part` is an expression over the stored sums, whose value is less than `number`.
    """
    summed = {f"sum_{name}": _sum(VariantSums._meta.get_field(name)) for name in NAMES}
    parts: list[SumsByPhase] = [{} for _ in range(number)]
    rows = _stored(experiment).annotate(part=part).values_list("part", "phase", "metric", "variant").annotate(**summed)
    for place, phase, metric, variant, *values in rows:
        of_metric = parts[place].setdefault(phase, {}).setdefault(metric, {})
        of_metric[variant] = exact_sums(**dict(zip(NAMES, values, strict=True)))
    return parts


def add_up(*all_sums: SumsByPhase) -> SumsByPhase:
    """Return the sums over the users of all of these."""
    total: SumsByPhase = {}
    for by_phase in all_sums:
        for phase, of_phase in by_phase.items():
            for metric, by_variant in of_phase.items():
                of_metric = total.setdefault(phase, {}).setdefault(metric, {})
                for variant, sums in by_variant.items():
                    of_metric[variant] = of_metric[variant] + sums if variant in of_metric else sums
    return total


def pool(by_phase: Mapping[int, MetricSums], phases: Phases = None) -> MetricSums:
    """Return the sums over the users of these phases together."""
    pooled: dict[int, dict[str, ExactSums]] = {}
    for sums in (of_phase for phase, of_phase in by_phase.items() if phases is None or phase in phases):
        for metric, by_variant in sums.items():
            of_metric = pooled.setdefault(metric, {})
            for variant, of_variant in by_variant.items():
                of_metric[variant] = of_metric[variant] + of_variant if variant in of_metric else of_variant
    return pooled


def _sum(field: Any) -> Any:
    return ExactSum(field.name) if isinstance(field, ExactField) else Sum(field.name)


def read_daily(experiment: Experiment, phases: Phases = None) -> Mapping[int, Mapping[str, Mapping[date, ExactSums]]]:
    """Return the sums over the users of these phases by the day of their exposure, in UTC and in order."""
    daily: dict[int, dict[str, dict[date, ExactSums]]] = {}
    for (metric, variant, _, day), sums in read_days(experiment, phases):
        of_day = daily.setdefault(metric, {}).setdefault(variant, {})
        of_day[day] = of_day[day] + sums if day in of_day else sums
    return daily


def read_days(experiment: Experiment, phases: Phases = None) -> Iterator[tuple[tuple[int, str, int, date], ExactSums]]:
    """Yield the stored sums with metric, variant, phase and day of exposure, in the order of the days."""
    stored = _stored(experiment) if phases is None else _stored(experiment).filter(phase__in=phases)
    for metric, variant, phase, day, sums in _rows(stored.order_by("day")):
        yield (metric, variant, phase, day), sums


def read_changes(experiment: Experiment) -> Iterator[tuple[tuple[int, str, int, date], ExactSums]]:
    """Yield by how much the stored sums of metrics without a window changed on each day."""
    for metric, variant, phase, day, sums in _rows(DailySums.objects.filter(experiment=experiment)):
        yield (metric, variant, phase, day), sums


def read_caps(experiment: Experiment) -> Caps:
    """Return the caps in force, fixed ones and percentiles, by the number of the metric."""
    caps = ResultState.objects.filter(experiment=experiment).values_list("caps", flat=True).first() or {}
    return {int(metric): cap for metric, cap in caps.items()}


def _stored(experiment: Experiment) -> QuerySet[VariantSums]:
    return VariantSums.objects.filter(experiment=experiment)


def _rows(stored: QuerySet[Any]) -> Iterator[tuple[int, str, int, date, ExactSums]]:
    for metric, variant, phase, day, *values in stored.values_list(*KEY, *NAMES):
        yield metric, variant, phase, day, ExactSums(*values)
