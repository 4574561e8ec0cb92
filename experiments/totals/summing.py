"""Adding up what the totals of users come to: all that statistics need of them, in one pass over their figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date
from decimal import Decimal
from typing import Any

from experiments.fields import EXACT
from experiments.metrics.definition import Definition
from experiments.metrics.frozen import definitions_of
from experiments.models import FIGURES, Experiment
from experiments.totals.dialects import Parameters, dialect, fetch

EXPOSURES = -1
"""The place of the exposures themselves, beside those of the metrics: `users` and `several` are all that it has."""

_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class VariantTotals:
    """Exact sums over the users of one variant, by one metric; see `models.VariantSums`."""

    users: int = 0
    several: int = 0
    positive: int = 0
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
        return tuple(getattr(self, name) for name in NAMES)

    def document(self) -> dict[str, Any]:
        return dict(zip(NAMES, self.values(), strict=True))


NAMES = tuple(field.name for field in fields(VariantTotals))
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

DailySums = dict[tuple[int, str, date], VariantTotals]
"""By the place of the metric, the variant, and the day of the exposures in UTC."""

Caps = Mapping[int, float]
"""The value that greater ones count as, by the place of the metric."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The figures of the metric at one place, under a label: what is above the cap counts as the cap."""

    label: int
    place: int
    definition: Definition
    cap: float | None


def counted(experiment: Experiment, caps: Caps) -> list[Counted]:
    """All metrics of an experiment, under their places."""
    return [Counted(place, place, each, caps.get(place)) for place, each in enumerate(definitions_of(experiment))]


def sum_up(rows: str, keys: Sequence[str], counted: Sequence[Counted], parameters: Parameters) -> Sums:
    """The sums of users by these expressions. `rows` follows FROM, has the columns of totals, and these parameters."""
    columns = [
        (EXPOSURES, "users", "COUNT(*)"),
        (EXPOSURES, "several", "COUNT(*) FILTER (WHERE is_in_several_variants)"),
    ]
    for each in counted:
        columns += [(each.label, name, column) for name, column in _columns(each, parameters)]
    selected = ", ".join([*keys, *(column for _, _, column in columns)])
    grouped = ", ".join(str(at + 1) for at in range(len(keys)))
    found = fetch(f"SELECT {selected} FROM {rows} GROUP BY {grouped}", parameters)  # noqa: S608 (no data)
    names = [(label, name) for label, name, _ in columns]
    return {(label, *row[: len(keys)]): sums for row in found for label, sums in _by_label(names, row[len(keys) :])}


def sum_by_day(rows: str, counted: Sequence[Counted], parameters: Parameters) -> DailySums:
    """The sums of users by variant and by the day of their exposure."""
    found = sum_up(rows, ["variant", dialect().day], counted, parameters)
    return {
        (label, variant, day if isinstance(day, date) else date.fromisoformat(day)): sums
        for (label, variant, day), sums in found.items()
    }


def _by_label(names: Sequence[tuple[int, str]], values: Sequence[Any]) -> Iterator[tuple[int, VariantTotals]]:
    """The sums that are not 0, where values have labels and names."""
    by_label: dict[int, dict[str, Any]] = {}
    for (label, name), value in zip(names, values, strict=True):
        by_label.setdefault(label, {})[name] = value
    summed = ((label, as_totals(**sums)) for label, sums in by_label.items())
    return ((label, sums) for label, sums in summed if any(sums.values()))


def _columns(counted: Counted, parameters: Parameters) -> Iterator[tuple[str, str]]:
    """The sums that a metric has, by name; all others are 0."""
    definition, cap = counted.definition, None if counted.cap is None else parameters.put(counted.cap)
    y, d, x, events, foreign = (figure(counted.place, name) for name in FIGURES)
    y, x = _capped(y, cap), _capped(x, cap)
    is_whole = not any(each.property for each in (definition.quantity, definition.denominator) if each) and not cap
    add = (dialect().whole_sum if is_whole else dialect().exact_sum).format
    product = ("({}) * ({})" if is_whole else dialect().product).format
    yield "users", f"COUNT(*) FILTER (WHERE {events} > 0)"
    yield "positive", f"COUNT(*) FILTER (WHERE {y} > 0)"
    yield from (("y", add(y)), ("yy", add(product(y, y))))
    if definition.denominator:
        yield from (("d", add(d)), ("dd", add(product(d, d))), ("yd", add(product(y, d))))
    else:
        yield from (("x", add(x)), ("xx", add(product(x, x))), ("xy", add(product(x, y))))
    yield "events", dialect().whole_sum.format(events)
    if definition.quantity.currency or (definition.denominator and definition.denominator.currency):
        yield "foreign", dialect().whole_sum.format(foreign)


def figure(place: int, name: str) -> str:
    """One of the figures in a row of totals."""
    return dialect().figure.format(place * len(FIGURES) + FIGURES.index(name))


def _capped(value: str, cap: str | None) -> str:
    return value if cap is None else f"CASE WHEN {value} > {cap} THEN {cap} ELSE {value} END"
