"""The statements that sum up the figures of users by metric, and by how much such sums change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

from experiments.aggregates.dialects import Parameters, dialect, fetch
from experiments.aggregates.metric_columns import Layout, later_names_of, names_of
from experiments.aggregates.statements import lookback_of
from experiments.aggregates.variant_sums import (
    EXPOSURES,
    KINDS,
    Caps,
    DailySums,
    Sums,
    VariantTotals,
    as_totals,
    step_index,
)
from experiments.metrics.definition import Definition
from experiments.metrics.documents import definitions_of
from experiments.models import Experiment


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


def sum_up(
    rows: str,
    keys: Sequence[str],
    counted: Sequence[Counted],
    parameters: Parameters,
    moments: Collection[datetime] = (),
) -> Sums:
    """Return sums over users, grouped by the SQL expressions `keys`, without those of labels that are all 0.

    `rows` is SQL that follows FROM and has the columns of totals; its parameters are in `parameters`. The users who
    were exposed before each of the `moments` are counted, and those exposed before the moments of the metrics.
    """
    values = {"is_in_several_variants": "is_in_several_variants", **_named_keys(keys)}
    sums: dict[tuple[Any, str], str] = {
        (EXPOSURES, "users"): "COUNT(*)",
        (EXPOSURES, "several"): "COUNT(*) FILTER (WHERE is_in_several_variants)",
    }
    for before in sorted({*moments, *(metric.before for metric in counted if metric.before is not None)}):
        values["exposed_at"] = "exposed_at"
        sums[before, "users"] = f"COUNT(*) FILTER (WHERE exposed_at < {parameters.put(before)})"
    for metric in counted:
        measured = Measured(metric, parameters)
        values |= measured.values()
        sums |= {(metric.label, name): term.sum for name, term in measured.terms()}
        sums |= {(step_index(metric.label, step), "users"): column for step, column in measured.steps()}
    users = f"SELECT {_named(values)}{dialect().fence_column} FROM {rows}"  # noqa: S608 (no data)
    summed = _sum_up("", users, keys, sums, parameters)
    return {key: totals for key, totals in summed.items() if any(totals.values())}


def sum_changes(
    rows: str, keys: Sequence[str], metrics: Sequence[tuple[Counted, Counted]], parameters: Parameters, given: str = ""
) -> Sums:
    """Return by how much sums over users change, grouped by the SQL expressions `keys`.

    Each metric is a pair: as it counted before, and as it counts now. Both are figures of the same user in `rows`, so
    the numbers of exposures stay the same. Only users with another value cost an exact addition, and one for both
    values together. `given` is what precedes the statement, such as `WITH`.
    """
    read: dict[str, str] = {}  # the names of figures by their SQL: each is read once from its array
    values, sums = {name: name for name in _names(keys)}, dict[tuple[Any, str], str]()
    for metric in metrics:
        before, now = (
            Measured(_reading_once(part, read), parameters, suffix)
            for part, suffix in zip(metric, ("_before", "_now"), strict=True)
        )
        is_changed = before.differs_from(now)
        values |= before.values(is_changed) | now.values(is_changed)
        for (name, old), (_, new) in zip(before.terms(), now.terms(), strict=True):
            sums[metric[0].label, name] = new.less(old)
    figures = {name: figure for figure, name in read.items()}
    fence, fence_column = dialect().fence, dialect().fence_column
    every = f"SELECT {_named(_named_keys(keys) | figures)}{fence_column} FROM {rows} {fence}"  # noqa: S608 (no data)
    users = f"SELECT {_named(values)}{fence_column} FROM ({every}) AS every"  # noqa: S608 (no data)
    return _sum_up(given, users, keys, sums, parameters)


def sum_by_day(rows: str, counted: Sequence[Counted], parameters: Parameters) -> DailySums:
    """Return sums over users by variant, and by the phase and day of their exposure."""
    return _by_day(sum_up(rows, keys_of_days(), counted, parameters))


def sum_changes_by_day(rows: str, metrics: Sequence[tuple[Counted, Counted]], parameters: Parameters) -> DailySums:
    """Return by how much sums change (see `sum_changes`), as `sum_by_day` returns the sums."""
    return _by_day(sum_changes(rows, keys_of_days(), metrics, parameters))


def keys_of_days() -> list[str]:
    """Return the expressions to group by for sums by day."""
    return ["variant", "phase", dialect().day]


def _by_day(summed: Sums) -> DailySums:
    return {(label, variant, phase, as_day(day)): sums for (label, variant, phase, day), sums in summed.items()}


def _reading_once(metric: Counted, read: dict[str, str]) -> Counted:
    """Return the metric with names for its figures, which are added to those that are read."""
    return replace(metric, figure=lambda name: read.setdefault(metric.figure(name), f"figure_{len(read)}"))


def _sum_up(
    given: str, users: str, keys: Sequence[str], sums: Mapping[tuple[Any, str], str], parameters: Parameters
) -> Sums:
    """Return sums by label and keys. `users` is SQL for the values of each user and the keys by their names."""
    names = ", ".join(_names(keys))
    selected = ", ".join([names, *sums.values()])
    # The fence makes PostgreSQL compute each value once for each user, and not once for each sum.
    grouped = f"FROM ({users} {dialect().fence}) AS users GROUP BY {names}"
    return {
        (label, *row[: len(keys)]): totals
        for row in fetch(f"{given} SELECT {selected} {grouped}", parameters)
        for label, totals in _by_label([*sums], row[len(keys) :])
    }


def _by_label(names: Sequence[tuple[Any, str]], values: Sequence[Any]) -> Iterator[tuple[Any, VariantTotals]]:
    by_label: dict[Any, dict[str, Any]] = {}
    for (label, name), value in zip(names, values, strict=True):
        by_label.setdefault(label, {})[name] = value
    return ((label, as_totals(**sums)) for label, sums in by_label.items())


def _names(keys: Sequence[str]) -> list[str]:
    return [f"key_{at}" for at in range(len(keys))]


def _named_keys(keys: Sequence[str]) -> dict[str, str]:
    return dict(zip(_names(keys), keys, strict=True))


def _named(values: Mapping[str, str]) -> str:
    return ", ".join(f"{value} AS {name}" for name, value in values.items())


def as_day(day: date | str) -> date:
    """Return a day as the database returned it: SQLite returns texts."""
    return day if isinstance(day, date) else date.fromisoformat(day)


class Term(NamedTuple):
    """SQL for what a sum adds up, with templates for the sum, and for the sum of differences of two such terms."""

    value: str
    of_sum: str
    of_difference: str

    @property
    def sum(self) -> str:
        return self.of_sum.format(self.value)

    def less(self, other: Term) -> str:
        return self.of_difference.format(self.value, other.value)


def _count(condition: str) -> Term:
    number = "COUNT(*) FILTER (WHERE {})"
    return Term(condition, number, f"{number} - {number}")


def _add(value: str) -> Term:
    return Term(value, "SUM({})", "SUM({} - {})")


def _add_exactly(value: str) -> Term:
    return Term(value, dialect().exact_sum, dialect().exact_difference)


class Measured:
    """SQL for the values of each user by one metric, and for what is summed of them. `suffix` ends the names."""

    def __init__(self, counted: Counted, parameters: Parameters, suffix: str = "") -> None:
        self._counted, self._put = counted, parameters.put
        self._is_whole = _is_whole(counted)
        names = (*names_of(counted.definition), *later_names_of(counted.definition))
        self._column = {name: f"{name}_{counted.label}{suffix}" for name in names}
        self._figures = {name: counted.figure(name) for name in names}
        if counted.cap is not None:
            cap = parameters.put(counted.cap)
            self._figures |= {name: _capped(self._figures[name], cap) for name in {"y", "x"} & self._figures.keys()}

    def values(self, is_changed: str = "") -> dict[str, str]:
        """Return SQL for each value by the name of its column.

        With a condition `is_changed`, exact numbers are NULL where it does not hold. Otherwise, those that are 0 are
        NULL. In both cases they cost nothing to sum.
        """
        values = dict(self._figures)
        for name in () if self._is_whole else {*_FACTORS} & values.keys():
            exact = dialect().exact.format(values[name] if is_changed else f"NULLIF({values[name]}, 0)")
            values[name] = f"CASE WHEN {is_changed} THEN {exact} END" if is_changed else exact
        if self._counted.before is not None:
            before = self._put(self._counted.before)
            values = {name: f"CASE WHEN exposed_at < {before} THEN {value} END" for name, value in values.items()}
        return {self._column[name]: value for name, value in values.items()}

    def differs_from(self, other: Measured) -> str:
        """Return SQL that says whether a value of a user differs between two ways to count a metric."""
        both = ((self._figures[name], other._figures[name]) for name in _FACTORS if name in self._figures)
        return " OR ".join(f"{value} <> {another}" for value, another in both if value != another) or "FALSE"

    def terms(self) -> Iterator[tuple[str, Term]]:
        """Yield name and SQL of what each sum of the metric adds up; all other sums are 0."""
        definition = self._counted.definition
        yield "users", _count(f"{self._column['events']} > 0")
        yield "positive", _count(f"{self._column['y']} > 0")
        if definition.cap_percentile is not None or definition.adds_amounts:
            yield "measured", _count(f"{self._column['y']} <> 0")
        add = _add if self._is_whole else _add_exactly
        for name in self._products():
            yield name, add(" * ".join(self._column[factor] for factor in name))
        yield "events", _add(self._column["events"])
        if "foreign" in self._column:
            yield "foreign", _add(self._column["foreign"])

    def steps(self) -> Iterator[tuple[int, str]]:
        """Yield each step of a funnel with SQL for the number of users who passed it."""
        for step in range(1, len(self._counted.definition.steps) + 1):
            yield step, f"COUNT(*) FILTER (WHERE {self._column['steps']} >= {step})"

    def _products(self) -> Iterator[str]:
        """Yield the names of sums of values and of products of two values, of those that the metric has."""
        for name in _PRODUCTS:
            if {*name} <= self._column.keys() and (self._counted.has_history or not {*name} & {*"xe"}):
                yield name


_FACTORS = "ydxe"
_PRODUCTS = tuple(name for name, kind in KINDS.items() if kind is Decimal)
_ALWAYS_WHOLE = ("distinct", "funnel", "quantile")


def _is_whole(counted: Counted) -> bool:
    """Return whether all values of users are whole numbers, which floats sum exactly."""
    definition = counted.definition
    if any(cap is not None for cap in (counted.cap, definition.cap_value, definition.cap_percentile)):
        return False
    if definition.type in _ALWAYS_WHOLE:
        return True
    return not any(part.property for part in (definition.quantity, definition.denominator) if part)


def _capped(value: str, cap: str) -> str:
    return f"CASE WHEN {value} > {cap} THEN {cap} ELSE {value} END"
