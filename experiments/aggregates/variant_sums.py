"""Adding up what the totals of users come to: all that statistics need of them, in one pass over their figures.

Reading what the totals of users come to: call `totals.folding.fold` first. Each function makes one statement."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from operator import attrgetter
from typing import Any

from django.db import connection
from django.db.models import Count, Q, QuerySet, Sum

from config.timestamps import floor_to_second
from experiments.aggregates.dialects import Parameters, dialect, fetch
from experiments.aggregates.metric_columns import Layout, names_of
from experiments.aggregates.statements import exposed_users
from experiments.metrics.definition import Definition
from experiments.metrics.documents import definitions_of
from experiments.models import AggregateState, Experiment, UserTotal, VariantSums
from experiments.models.fields import EXACT, ExactField, ExactSum

EXPOSURES = -1
"""The place of the exposures themselves, beside those of the metrics: `users` and `several` are all that it has."""

_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class VariantTotals:
    """Exact sums over the users of one variant, by one metric; see `models.VariantSums`."""

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
    events: int = 0
    foreign: int = 0

    def __add__(self, other: VariantTotals) -> VariantTotals:
        return VariantTotals(*map(_add, self.values(), other.values()))

    def __neg__(self) -> VariantTotals:
        return VariantTotals(*map(_negate, self.values()))

    def values(self) -> tuple[Any, ...]:
        """In the order of NAMES."""
        values: tuple[Any, ...] = _values(self)
        return values

    def document(self) -> dict[str, Any]:
        return dict(zip(NAMES, self.values(), strict=True))


NAMES = tuple(field.name for field in fields(VariantTotals))
_values = attrgetter(*NAMES)
_KINDS: Mapping[str, type[Any]] = {field.name: type(field.default) for field in fields(VariantTotals)}


def as_totals(**values: Any) -> VariantTotals:
    """The sums of these names, however the database has handed them over."""
    return VariantTotals(**{name: _KINDS[name](value or 0) for name, value in values.items()})


def _negate(one: Any) -> Any:
    return one.copy_negate() if isinstance(one, Decimal) else -one  # where a decimal's own operator would round


def _add(one: Any, other: Any) -> Any:
    return EXACT.add(one, other) if isinstance(one, Decimal) else one + other


Sums = dict[tuple[Any, ...], VariantTotals]
"""By the label of what is counted (EXPOSURES: the exposures), and then by what users were grouped by."""

KEY = ("metric", "variant", "phase", "day")
"""What sums are kept by, for each experiment."""

DailySums = dict[tuple[int, str, int, date], VariantTotals]
"""By the place of the metric, the variant, the phase of the exposures, and their day in UTC."""

Caps = Mapping[int, float]
"""The value that greater ones count as, by the place of the metric."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The figures of a metric, under a label: what is above the cap counts as the cap. `figure` finds them by name."""

    label: int
    definition: Definition
    cap: float | None
    figure: Callable[[str], str]


def counted(experiment: Experiment, caps: Caps) -> list[Counted]:
    """All metrics of an experiment, under their places."""
    definitions = definitions_of(experiment)
    figure = Layout(definitions).figure
    return [Counted(at, each, caps.get(at), partial(figure, at)) for at, each in enumerate(definitions)]


def sum_up(rows: str, keys: Sequence[str], counted: Sequence[Counted], parameters: Parameters) -> Sums:
    """The sums of users by these expressions. `rows` follows FROM, has the columns of totals, and these parameters."""
    names = [f"key_{at}" for at in range(len(keys))]
    values = {"is_in_several_variants": "is_in_several_variants", **dict(zip(names, keys, strict=True))}
    sums = {
        (EXPOSURES, "users"): "COUNT(*)",
        (EXPOSURES, "several"): "COUNT(*) FILTER (WHERE is_in_several_variants)",
    }
    for each in counted:
        measured = Measured(each, parameters)
        values |= measured.values
        sums |= {(each.label, name): column for name, column in measured.sums()}
    # What sums are made of is computed once for each user, not once for each sum.
    users = f"SELECT {_named(values)} FROM {rows} {dialect().fence}"  # noqa: S608 (no data)
    grouped = ", ".join(names)
    statement = f"SELECT {', '.join([*names, *sums.values()])} FROM ({users}) AS users GROUP BY {grouped}"  # noqa: S608
    found = fetch(statement, parameters)
    return {(label, *row[: len(keys)]): of for row in found for label, of in _by_label([*sums], row[len(keys) :])}


def _named(values: Mapping[str, str]) -> str:
    return ", ".join(f"{value} AS {name}" for name, value in values.items())


def sum_by_day(rows: str, counted: Sequence[Counted], parameters: Parameters) -> DailySums:
    """The sums of users by variant, and by the phase and the day of their exposure."""
    found = sum_up(rows, ["variant", "phase", dialect().day], counted, parameters)
    return {
        (label, variant, phase, day if isinstance(day, date) else date.fromisoformat(day)): sums
        for (label, variant, phase, day), sums in found.items()
    }


def _by_label(names: Sequence[tuple[int, str]], values: Sequence[Any]) -> Iterator[tuple[int, VariantTotals]]:
    """The sums that are not 0, where values have labels and names."""
    by_label: dict[int, dict[str, Any]] = {}
    for (label, name), value in zip(names, values, strict=True):
        by_label.setdefault(label, {})[name] = value
    summed = ((label, as_totals(**sums)) for label, sums in by_label.items())
    return ((label, sums) for label, sums in summed if any(sums.values()))


class Measured:
    """What a metric makes of each user, as columns by name, and the sums of these."""

    def __init__(self, counted: Counted, parameters: Parameters) -> None:
        self._definition = counted.definition
        cap = None if counted.cap is None else parameters.put(counted.cap)
        parts = [each for each in (counted.definition.quantity, counted.definition.denominator) if each]
        self._is_whole = cap is None and not any(each.property for each in parts)  # floats add these up exactly
        self._column = {name: f"{name}_{counted.label}" for name in names_of(counted.definition)}
        figures = {name: counted.figure(name) for name in self._column}
        for name in {"y", "x"} & figures.keys():
            figures[name] = _capped(figures[name], cap)
        if not self._is_whole:
            figures |= {name: dialect().exact.format(figures[name]) for name in {"y", "d", "x"} & figures.keys()}
        self.values = {column: figures[name] for name, column in self._column.items()}

    def sums(self) -> Iterator[tuple[str, str]]:
        """The sums that the metric has, by name; all others are 0."""
        yield "users", f"COUNT(*) FILTER (WHERE {self._column['events']} > 0)"
        yield "positive", f"COUNT(*) FILTER (WHERE {self._column['y']} > 0)"
        if self._definition.cap_percentile is not None:
            yield "measured", f"COUNT(*) FILTER (WHERE {self._column['y']} <> 0)"
        names = ("y", "yy", "d", "dd", "yd") if self._definition.denominator else ("y", "yy", "x", "xx", "xy")
        for name in names:
            yield name, self._add(" * ".join(self._column[each] for each in name))
        yield "events", f"SUM({self._column['events']})"
        if "foreign" in self._column:
            yield "foreign", f"SUM({self._column['foreign']})"

    def _add(self, value: str) -> str:
        return f"SUM({value})" if self._is_whole else dialect().exact_sum.format(value)


def _capped(value: str, cap: str | None) -> str:
    return value if cap is None else f"CASE WHEN {value} > {cap} THEN {cap} ELSE {value} END"


_USERS_AT_ONCE = 2000

Totals = Mapping[int, Mapping[str, VariantTotals]]
"""By the place of the metric (EXPOSURES: of the exposures), then by variant. What has no users is not in it."""

Phases = Collection[int] | None
"""The numbers of those whose exposures count; None stands for all."""


def read_sums(experiment: Experiment) -> Totals:
    """The sums of all users."""
    return pool(read_phases(experiment))


def read_phases(experiment: Experiment) -> Mapping[int, Totals]:
    """The sums of the users who were exposed in each phase."""
    summed = {f"sum_{name}": _sum(VariantSums._meta.get_field(name)) for name in NAMES}
    found: dict[int, dict[int, dict[str, VariantTotals]]] = {}
    rows = _sums(experiment).values_list("phase", "metric", "variant").annotate(**summed)
    for phase, place, variant, *values in rows:
        of_metric = found.setdefault(phase, {}).setdefault(place, {})
        of_metric[variant] = as_totals(**dict(zip(NAMES, values, strict=True)))
    return found


def pool(by_phase: Mapping[int, Totals], phases: Phases = None) -> Totals:
    """The sums of the users of these phases together."""
    pooled: dict[int, dict[str, VariantTotals]] = {}
    for totals in (of_phase for phase, of_phase in by_phase.items() if phases is None or phase in phases):
        for place, of_variant in totals.items():
            known = pooled.setdefault(place, {})
            for variant, sums in of_variant.items():
                known[variant] = known[variant] + sums if variant in known else sums
    return pooled


def _sum(field: Any) -> Any:
    return ExactSum(field.name) if isinstance(field, ExactField) else Sum(field.name)


def read_daily(
    experiment: Experiment, phases: Phases = None
) -> Mapping[int, Mapping[str, Mapping[date, VariantTotals]]]:
    """The sums of the users of these phases who were exposed on a day, in UTC, in the order of the days."""
    found: dict[int, dict[str, dict[date, VariantTotals]]] = {}
    for (place, variant, _, day), sums in read_days(experiment, phases):
        of_day = found.setdefault(place, {}).setdefault(variant, {})
        of_day[day] = of_day[day] + sums if day in of_day else sums
    return found


def read_days(
    experiment: Experiment, phases: Phases = None
) -> Iterator[tuple[tuple[int, str, int, date], VariantTotals]]:
    """The sums as they are kept, with the metric's place, variant, phase and day, in the order of the days."""
    kept = _sums(experiment) if phases is None else _sums(experiment).filter(phase__in=phases)
    for place, variant, phase, day, *values in kept.order_by("day").values_list(*KEY, *NAMES):
        yield (place, variant, phase, day), VariantTotals(*values)


def count_mature(
    experiment: Experiment, spans: Collection[timedelta], at: datetime, phases: Phases = None
) -> Mapping[timedelta, Mapping[str, int]]:
    """For each span, the users by variant whose exposure is that long ago: whose window has passed, if that is it.

    Of those who were exposed in these phases.
    """
    begun = {span: floor_to_second(at - span) for span in spans}
    counts = {
        f"span_{place}": Count("user_id", filter=Q(exposed_at__lt=moment + timedelta(seconds=1)))
        for place, moment in enumerate(begun.values())
    }
    exposed = exposed_users(experiment) if phases is None else exposed_users(experiment).filter(phase__in=phases)
    rows: Iterable[tuple[Any, ...]] = exposed.values_list("variant").annotate(**counts)
    counted = {variant: dict(zip(begun, users, strict=True)) for variant, *users in rows}
    return {span: {variant: users[span] for variant, users in counted.items()} for span in begun}


def read_caps(experiment: Experiment) -> Mapping[int, float]:
    """The value of each cap in force, fixed or a percentile, by the place of the metric."""
    caps = AggregateState.objects.filter(experiment=experiment).values_list("caps", flat=True).first() or {}
    return {int(place): cap for place, cap in caps.items()}


User = tuple[str, datetime, float, float, float]
"""The id, the moment of the exposure, y, d and x: capped, as in the sums."""


def read_users(experiment: Experiment, place: int) -> Iterator[User]:
    """What the metric at this place makes of each exposed user, in the order of the exposures."""
    cap, figure = read_caps(experiment).get(place, float("inf")), Layout(definitions_of(experiment)).figure
    parameters = Parameters()
    statement = f"""
        SELECT user_id, exposed_at, {figure(place, "y")}, {figure(place, "d")}, {figure(place, "x")}
        FROM {UserTotal._meta.db_table} WHERE experiment_id = {parameters.put(experiment.pk)}
        ORDER BY exposed_at, user_id
    """  # noqa: S608 (no data)
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters.stored())
        while rows := cursor.fetchmany(_USERS_AT_ONCE):
            for user_id, at, y, d, x in rows:
                yield user_id, at if at.tzinfo else at.replace(tzinfo=UTC), min(y, cap), d, min(x, cap)


def _sums(experiment: Experiment) -> QuerySet[VariantSums]:
    return VariantSums.objects.filter(experiment=experiment)
