"""The columns of metrics: SQL aggregates over the events of one user, and their positions in the stored row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from experiments.aggregates.dialects import dialect
from experiments.aggregates.event_conditions import is_of
from experiments.metrics.definition import REVENUE, Definition, Quantity

Put = Callable[[Any], str]
"""Adds a parameter to a statement and returns its placeholder."""

_LETTERS = "abcdefghij"
"""Stand for the steps of a funnel."""


def since_exposure(age: timedelta, put: Put) -> str:
    """Return SQL for the moment this long after the exposure."""
    seconds = age // timedelta(seconds=1)
    return dialect().later.format(dialect().base, put(seconds)) if seconds else dialect().base


class Layout:
    """The positions of each metric's columns in the array of a user's totals.

    The columns of the first release come first, one metric after the other, and later ones follow. Frozen totals
    cannot be computed again, so that their positions must not move; what is missing at their end reads as 0.
    """

    def __init__(self, definitions: Sequence[Definition]) -> None:
        first = [(index, name) for index, definition in enumerate(definitions) for name in names_of(definition)]
        later = [(index, name) for index, definition in enumerate(definitions) for name in later_names_of(definition)]
        self.columns = [*first, *later]
        self._positions = {column: position for position, column in enumerate(self.columns)}

    def figure(self, metric_index: int, name: str, row: str = "figures") -> str:
        """Return SQL for a column of the metric with this index, or `0` where the metric has no such column."""
        position = self._positions.get((metric_index, name))
        return "0" if position is None else dialect().figure.format(row, position)


def names_of(definition: Definition) -> tuple[str, ...]:
    """Return the names of the metric's columns, in their order (see `UserTotal.figures`)."""
    if definition.type == "funnel":
        return "y", "events", "steps"
    foreign = ("foreign",) if any(part.currency for part in _parts(definition)) else ()
    if definition.type == "quantile":
        return "y", "events", *foreign
    return "y", "d" if definition.denominator else "x", "events", *foreign


def later_names_of(definition: Definition) -> tuple[str, ...]:
    """Return the names of the columns that follow those of all metrics: the history of a ratio."""
    return ("x", "e") if definition.denominator else ()


def _parts(definition: Definition) -> Sequence[Quantity]:
    return [part for part in (definition.quantity, definition.denominator) if part]


@dataclass(frozen=True, slots=True)
class Column:
    """SQL for one column: an aggregate over the events of a user, and the figure that follows from its value.

    `figure` is a template for the name of the aggregate. `aggregate` ends where a window (`OVER ...`) may follow; it is
    empty where the figure needs none.

    `added` is a template for the figure of all events, given the figure of the earlier ones and the aggregate over the
    others. It means nothing for a metric that does not add up. `is_rounded` says that figures may lose digits.
    """

    aggregate: str
    figure: str = "{}"
    added: str = "({0} + {1})"
    is_rounded: bool = False


def columns_of(definitions: Sequence[Definition], put: Put, *, has_history: bool) -> list[Column]:
    """Return the columns of all metrics, in the order of their layout. Without history, x and e are 0."""
    by_name = [dict(_Columns(definition, put, has_history).all()) for definition in definitions]
    return [by_name[metric_index][name] for metric_index, name in Layout(definitions).columns]


UNCHANGED = Column("", "0", "{0}")
"""A column to which no event adds anything."""


def adds_up(definition: Definition) -> bool:
    """Return whether the figures of a user follow from those of two parts of the events."""
    return definition.type not in ("mean", "distinct", "funnel")


def names_computed_again(definitions: Sequence[Definition]) -> set[str]:
    """Return the names of the events whose users must be computed again from all events."""
    return {name for definition in definitions if not adds_up(definition) for name in definition.events}


class _Columns:
    """SQL for the columns of one metric, where a row is an event and a group has the events of one user."""

    def __init__(self, definition: Definition, put: Put, has_history: bool) -> None:
        self.definition, self._put, self._has_history = definition, put, has_history
        self._at, self._base = dialect().counted_at, dialect().base

    def all(self) -> Iterator[tuple[str, Column]]:
        """Yield name and SQL of each column."""
        quantity, denominator = self.definition.quantity, self.definition.denominator
        window, before = window_of(self.definition, self._put), f"{self._at} < {self._base}"
        if self.definition.type == "funnel":
            passed = self._steps_passed(window)
            is_through = f"{passed.figure} = {len(self.definition.steps)}"
            yield "y", Column(passed.aggregate, f"CASE WHEN {is_through} THEN 1 ELSE 0 END")
            yield "steps", passed
        else:
            yield "y", self._value(quantity, window)
            yield "x", self._value(quantity, before) if self._has_history else UNCHANGED
        if denominator:
            yield "d", self._value(denominator, window)
            yield "e", self._value(denominator, before) if self._has_history else UNCHANGED
        yield "events", Column(f"COUNT(*) FILTER (WHERE {self._is_of(quantity)} AND {self._at} >= {self._base})")
        if foreign := " OR ".join(self._is_foreign(part) for part in _parts(self.definition) if part.currency):
            yield "foreign", Column(f"COUNT(*) FILTER (WHERE ({foreign}) AND {window})")

    def _value(self, quantity: Quantity, when: str) -> Column:
        """Return the column for the value of one user, from the events that meet the condition `when`."""
        counted = f"FILTER (WHERE {self._is_of(quantity)} AND {when})"
        if self.definition.is_share:
            figure, added = ("CASE WHEN {} > 0 THEN 1 ELSE 0 END", "CASE WHEN {0} + {1} > 0 THEN 1 ELSE 0 END")
            return Column(f"COUNT(*) {counted}", figure, added)
        if self.definition.type == "distinct":
            listed = dialect().scalar.format(self._put(quantity.property)) if quantity.property else dialect().event_day
            return Column(f"{dialect().list_of.format(listed)} {counted}", dialect().distinct)
        if not quantity.property:
            return Column(f"COUNT(*) {counted}")
        if self.definition.type == "quantile":
            return Column(f"COUNT({amount_of(quantity, self._put)}) {counted}")
        summary = "AVG" if self.definition.type == "mean" else "SUM"
        amounts = f"{summary}({amount_of(quantity, self._put)}) {counted}"
        return Column(amounts, "COALESCE({}, 0)", dialect().added_amount, is_rounded=True)

    def _steps_passed(self, window: str) -> Column:
        """Return the column for the number of steps that the events of a user pass in order.

        Each event becomes `|` and the letters of its steps. In their order, with `%a%|%b%` a later event than the one
        of step a meets step b, so that no event serves two steps. Events of the same moment are in the order of their
        letters (see `count_steps_passed`).
        """
        steps = [self._is_of(step) for step in self.definition.steps]
        letters = " || ".join(
            f"CASE WHEN {is_step} THEN '{letter}' ELSE '' END" for is_step, letter in zip(steps, _LETTERS, strict=False)
        )
        key = dialect().sort_key.format(self._at)
        counted = f"FILTER (WHERE ({' OR '.join(f'({is_step})' for is_step in steps)}) AND {window})"
        reached = " ".join(
            f"WHEN letters LIKE {self._put(_pattern(number))} THEN {number}" for number in range(len(steps), 0, -1)
        )
        listed = dialect().list_of.format(f"{key} || '|' || {letters}")
        figure = f"(SELECT CASE {reached} ELSE 0 END FROM {dialect().letters})"  # noqa: S608 (no data)
        return Column(f"{listed} {counted}", figure)

    def _is_foreign(self, quantity: Quantity) -> str:
        """Return SQL that says whether an event has an amount in another currency, or in none, which is not summed."""
        amount = dialect().number.format(self._put(REVENUE))
        is_other = f"{_currency(self._put)} <> {self._put(quantity.currency)}"
        return f"{self._is_of(quantity)} AND {is_other} AND {amount} IS NOT NULL"

    def _is_of(self, quantity: Quantity) -> str:
        return is_of(quantity, self._put)


def amount_of(quantity: Quantity, put: Put) -> str:
    """Return SQL for the number that an event adds, or NULL where it adds none."""
    number = dialect().number.format(put(quantity.property))
    if not quantity.currency:
        return number
    return f"CASE WHEN {_currency(put)} = {put(quantity.currency)} THEN {number} END"


def _currency(put: Put) -> str:
    return dialect().upper.format(f"COALESCE({dialect().text.format(put('currency'))}, '')")


def window_of(definition: Definition, put: Put) -> str:
    """Return SQL that says whether an event is in the window of the metric."""
    begun = f"{dialect().counted_at} >= {since_exposure(definition.delay, put)}"
    if definition.span is None:
        return begun
    return f"{begun} AND {dialect().counted_at} < {since_exposure(definition.span, put)}"


def _pattern(steps: int) -> str:
    return "|".join(f"%{letter}%" for letter in _LETTERS[:steps])
