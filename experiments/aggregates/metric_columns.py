"""The columns of a metric: SQL aggregates over the events of one user, and their positions in the stored row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

from experiments.aggregates.dialects import dialect
from experiments.metrics.definition import REVENUE, Definition, Quantity

Put = Callable[[Any], str]
"""Adds a parameter to a statement and returns its placeholder."""


def since_exposure(age: timedelta, put: Put) -> str:
    """Return SQL for the moment this long after the exposure."""
    seconds = age // timedelta(seconds=1)
    return dialect().later.format(dialect().base, put(seconds)) if seconds else dialect().base


class Layout:
    """The positions of each metric's columns in the array of a user's totals, one metric after the other."""

    def __init__(self, definitions: Sequence[Definition]) -> None:
        columns = [(index, name) for index, definition in enumerate(definitions) for name in names_of(definition)]
        self._positions = {column: position for position, column in enumerate(columns)}

    def figure(self, metric_index: int, name: str) -> str:
        """Return SQL for a column of the metric with this index, or `0` where the metric has no such column."""
        position = self._positions.get((metric_index, name))
        return "0" if position is None else dialect().figure.format(position)


def names_of(definition: Definition) -> tuple[str, ...]:
    """Return the names of the columns that the metric has, in their order (see `UserTotal.figures`)."""
    parts = (definition.quantity, definition.denominator)
    foreign = ("foreign",) if any(part.currency for part in parts if part) else ()
    return ("y", "d" if definition.denominator else "x", "events", *foreign)


class Figures:
    """SQL for the columns of one metric, where a row is an event and a group has the events of one user."""

    def __init__(self, definition: Definition, put: Put) -> None:
        self.definition, self._put = definition, put
        self._at, self._base = dialect().counted_at, dialect().base

    def all(self) -> Iterator[str]:
        """Yield the columns in the order of `names_of`."""
        quantity, denominator = self.definition.quantity, self.definition.denominator
        window = self._window()
        yield self._value(quantity, window)
        yield self._value(denominator, window) if denominator else self._value(quantity, f"{self._at} < {self._base}")
        yield f"COUNT(*) FILTER (WHERE {self._is_of(quantity)} AND {self._at} >= {self._base})"
        if foreign := " OR ".join(self._is_foreign(part) for part in (quantity, denominator) if part and part.currency):
            yield f"COUNT(*) FILTER (WHERE ({foreign}) AND {window})"

    def _value(self, quantity: Quantity, when: str) -> str:
        """Return SQL for the value of one user, from the events that meet the condition `when`."""
        counted = f"FILTER (WHERE {self._is_of(quantity)} AND {when})"
        if self.definition.is_share:
            return f"CASE WHEN COUNT(*) {counted} > 0 THEN 1 ELSE 0 END"
        if not quantity.property:
            return f"COUNT(*) {counted}"
        summary = "AVG" if self.definition.type == "mean" else "SUM"
        return f"COALESCE({summary}({self._amount(quantity)}) {counted}, 0)"

    def _amount(self, quantity: Quantity) -> str:
        number = dialect().number.format(self._put(quantity.property))
        if not quantity.currency:
            return number
        return f"CASE WHEN {self._currency()} = {self._put(quantity.currency)} THEN {number} END"

    def _is_foreign(self, quantity: Quantity) -> str:
        """Return SQL that says whether an event has an amount in another currency, or in none, which is not summed."""
        amount = dialect().number.format(self._put(REVENUE))
        return (
            f"{self._is_of(quantity)} AND {self._currency()} <> {self._put(quantity.currency)} AND {amount} IS NOT NULL"
        )

    def _currency(self) -> str:
        return f"COALESCE({dialect().text.format(self._put('currency'))}, '')"

    def _is_of(self, quantity: Quantity) -> str:
        return f"name = {self._put(quantity.event)}"

    def _window(self) -> str:
        begun = f"{self._at} >= {since_exposure(self.definition.delay, self._put)}"
        if self.definition.span is None:
            return begun
        return f"{begun} AND {self._at} < {since_exposure(self.definition.span, self._put)}"
