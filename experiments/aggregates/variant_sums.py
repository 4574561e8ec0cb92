"""Sums over the totals of users by variant, which are all that the statistics need: computing and reading them.

Call `experiments.exposures.up_to_date.bring_up_to_date` before reading. Each function makes one statement.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from operator import attrgetter
from typing import Any

from django.db import connection
from django.db.models import QuerySet, Sum

from experiments.aggregates.dialects import Parameters, dialect, fetch
from experiments.aggregates.metric_columns import Layout, later_names_of, names_of
from experiments.aggregates.statements import lookback_of
from experiments.metrics.definition import Definition
from experiments.metrics.documents import definitions_of
from experiments.models import AggregateState, Experiment, UserTotal, VariantSums
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

    def document(self) -> dict[str, Any]:
        """Return the sums by name."""
        return dict(zip(NAMES, self.values(), strict=True))


NAMES = tuple(field.name for field in fields(VariantTotals))
_values = attrgetter(*NAMES)
_KINDS: Mapping[str, type[Any]] = {field.name: type(field.default) for field in fields(VariantTotals)}


def as_totals(**values: Any) -> VariantTotals:
    """Return sums from the values that the database returned, by name."""
    return VariantTotals(**{name: _KINDS[name](value or 0) for name, value in values.items()})


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


@dataclass(frozen=True, slots=True)
class Counted:
    """A metric to sum up under a label, with its cap. `figure` returns SQL for a column by its name.

    Only users who were exposed before the moment `before` count, or all if it is None. Without history, x and e are 0.
    """

    label: int
    definition: Definition
    cap: float | None
    figure: Callable[[str], str]
    before: datetime | None = None
    has_history: bool = True


def counted(experiment: Experiment, caps: Caps) -> list[Counted]:
    """Return all metrics of an experiment, with their indexes as labels."""
    definitions, has_history = definitions_of(experiment), bool(lookback_of(experiment))
    figure = Layout(definitions).figure
    return [
        Counted(index, definition, caps.get(index), partial(figure, index), has_history=has_history)
        for index, definition in enumerate(definitions)
    ]


def step_index(metric_index: int, step: int) -> int:
    """Return the metric index that stands for a step of a funnel, counting from 1.

    Its sums have only `users`: those who passed this step and all steps before it.
    """
    return (metric_index + 1) * _STEPS + step


def step_of(index: int) -> tuple[int, int] | None:
    """Return the metric index and the number of the step that an index stands for, or None for a metric."""
    return (index // _STEPS - 1, index % _STEPS) if index > _STEPS else None


_STEPS = 100  # more than an experiment has metrics, and than a funnel has steps


def sum_up(
    rows: str,
    keys: Sequence[str],
    counted: Sequence[Counted],
    parameters: Parameters,
    moments: Collection[datetime] = (),
) -> Sums:
    """Return sums over users, grouped by the SQL expressions `keys`.

    `rows` is SQL that follows FROM and has the columns of totals; its parameters are in `parameters`. The users who
    were exposed before each of the `moments` are counted, and those exposed before the moments of the metrics.
    """
    names = [f"key_{at}" for at in range(len(keys))]
    values = {"is_in_several_variants": "is_in_several_variants", **dict(zip(names, keys, strict=True))}
    sums: dict[tuple[Any, str], str] = {
        (EXPOSURES, "users"): "COUNT(*)",
        (EXPOSURES, "several"): "COUNT(*) FILTER (WHERE is_in_several_variants)",
    }
    for before in sorted({*moments, *(metric.before for metric in counted if metric.before is not None)}):
        values["exposed_at"] = "exposed_at"
        sums[before, "users"] = f"COUNT(*) FILTER (WHERE exposed_at < {parameters.put(before)})"
    for metric in counted:
        measured = Measured(metric, parameters)
        values |= measured.values
        sums |= {(metric.label, name): column for name, column in measured.sums()}
        sums |= {(step_index(metric.label, step), "users"): column for step, column in measured.steps()}
    # The fence makes PostgreSQL compute each value once for each user, and not once for each sum.
    users = f"SELECT {_named(values)} FROM {rows} {dialect().fence}"  # noqa: S608 (no data)
    grouped = ", ".join(names)
    statement = f"SELECT {', '.join([*names, *sums.values()])} FROM ({users}) AS users GROUP BY {grouped}"  # noqa: S608
    return {
        (label, *row[: len(keys)]): totals
        for row in fetch(statement, parameters)
        for label, totals in _by_label([*sums], row[len(keys) :])
    }


def _named(values: Mapping[str, str]) -> str:
    return ", ".join(f"{value} AS {name}" for name, value in values.items())


def sum_by_day(rows: str, counted: Sequence[Counted], parameters: Parameters) -> DailySums:
    """Return sums over users by variant, and by the phase and day of their exposure."""
    summed = sum_up(rows, ["variant", "phase", dialect().day], counted, parameters)
    return {(label, variant, phase, as_day(day)): sums for (label, variant, phase, day), sums in summed.items()}


def as_day(day: date | str) -> date:
    """Return a day as the database returned it: SQLite returns texts."""
    return day if isinstance(day, date) else date.fromisoformat(day)


def _by_label(names: Sequence[tuple[Any, str]], values: Sequence[Any]) -> Iterator[tuple[Any, VariantTotals]]:
    """Yield the sums of each label, without labels whose sums are all 0."""
    by_label: dict[Any, dict[str, Any]] = {}
    for (label, name), value in zip(names, values, strict=True):
        by_label.setdefault(label, {})[name] = value
    summed = ((label, as_totals(**sums)) for label, sums in by_label.items())
    return ((label, sums) for label, sums in summed if any(sums.values()))


class Measured:
    """SQL for the values of each user by one metric, and for the sums of these values."""

    def __init__(self, counted: Counted, parameters: Parameters) -> None:
        self._definition, self._has_history = counted.definition, counted.has_history
        cap = None if counted.cap is None else parameters.put(counted.cap)
        # Floats sum whole numbers exactly.
        self._is_whole = cap is None and _is_whole(counted.definition)
        names = (*names_of(counted.definition), *later_names_of(counted.definition))
        self._column = {name: f"{name}_{counted.label}" for name in names}
        figures = {name: counted.figure(name) for name in self._column}
        if cap is not None:
            figures |= {name: _capped(figures[name], cap) for name in {"y", "x"} & figures.keys()}
        if not self._is_whole:
            figures |= {name: dialect().exact.format(figures[name]) for name in {*"ydxe"} & figures.keys()}
        if counted.before is not None:
            before = parameters.put(counted.before)
            figures = {name: f"CASE WHEN exposed_at < {before} THEN {value} END" for name, value in figures.items()}
        self.values = {column: figures[name] for name, column in self._column.items()}

    def sums(self) -> Iterator[tuple[str, str]]:
        """Yield name and SQL of each sum that the metric has; all others are 0."""
        yield "users", f"COUNT(*) FILTER (WHERE {self._column['events']} > 0)"
        yield "positive", f"COUNT(*) FILTER (WHERE {self._column['y']} > 0)"
        if self._definition.cap_percentile is not None:
            yield "measured", f"COUNT(*) FILTER (WHERE {self._column['y']} <> 0)"
        for name in self._products():
            yield name, self._add(" * ".join(self._column[factor] for factor in name))
        yield "events", f"SUM({self._column['events']})"
        if "foreign" in self._column:
            yield "foreign", f"SUM({self._column['foreign']})"

    def steps(self) -> Iterator[tuple[int, str]]:
        """Yield each step of a funnel with SQL for the number of users who passed it."""
        for step in range(1, len(self._definition.steps) + 1):
            yield step, f"COUNT(*) FILTER (WHERE {self._column['steps']} >= {step})"

    def _products(self) -> Iterator[str]:
        """Yield the names of sums of values and of products of two values, of those that the metric has."""
        for name in _PRODUCTS:
            if {*name} <= self._column.keys() and (self._has_history or not {*name} & {*"xe"}):
                yield name

    def _add(self, value: str) -> str:
        return f"SUM({value})" if self._is_whole else dialect().exact_sum.format(value)


_PRODUCTS = tuple(name for name, kind in _KINDS.items() if kind is Decimal)
_ALWAYS_WHOLE = ("distinct", "funnel", "quantile")


def _is_whole(definition: Definition) -> bool:
    """Return whether all values of users are whole numbers."""
    if definition.type in _ALWAYS_WHOLE:
        return True
    return not any(part.property for part in (definition.quantity, definition.denominator) if part)


def _capped(value: str, cap: str) -> str:
    return f"CASE WHEN {value} > {cap} THEN {cap} ELSE {value} END"


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


User = tuple[str, datetime, float, float, float, float]
"""The id, the moment of the exposure, and y, d, x and e, capped as in the sums."""


def read_users(experiment: Experiment, metric_index: int) -> Iterator[User]:
    """Yield the values of each exposed user by the metric with this index, in the order of the exposures."""
    cap = read_caps(experiment).get(metric_index, float("inf"))
    figure = Layout(definitions_of(experiment)).figure
    parameters = Parameters()
    statement = f"""
        SELECT user_id, exposed_at, {", ".join(figure(metric_index, name) for name in "ydxe")}
        FROM {UserTotal._meta.db_table} WHERE experiment_id = {parameters.put(experiment.pk)}
        ORDER BY exposed_at, user_id
    """  # noqa: S608 (no data)
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters.stored())
        while rows := cursor.fetchmany(_USERS_AT_ONCE):
            for user_id, at, y, d, x, e in rows:
                yield user_id, at if at.tzinfo else at.replace(tzinfo=UTC), min(y, cap), d, min(x, cap), e


def _sums(experiment: Experiment) -> QuerySet[VariantSums]:
    return VariantSums.objects.filter(experiment=experiment)
