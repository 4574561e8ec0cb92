"""The figures that metrics make of a user's events, as aggregates in SQL over these events, and where they are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

from experiments.aggregates.dialects import dialect
from experiments.metrics.definition import REVENUE, Definition, Quantity

Put = Callable[[Any], str]
"""Leaves a parameter behind, and returns its place in the statement."""


def since_exposure(age: timedelta, put: Put) -> str:
    """The moment so long after the exposure."""
    seconds = age // timedelta(seconds=1)
    return dialect().later.format(dialect().base, put(seconds)) if seconds else dialect().base


class Layout:
    """Where the row of a user's totals has the figures of each metric: one after the other, those that it has."""

    def __init__(self, definitions: Sequence[Definition]) -> None:
        kept = [(place, name) for place, each in enumerate(definitions) for name in names_of(each)]
        self._at = {which: at for at, which in enumerate(kept)}

    def figure(self, place: int, name: str) -> str:
        """One of `names_of` the metric at this place, or 0 where it has no such figure."""
        at = self._at.get((place, name))
        return "0" if at is None else dialect().figure.format(at)


def names_of(definition: Definition) -> tuple[str, ...]:
    """The figures that are not 0 for each user by what the metric is; see `models.UserTotal`."""
    parts = (definition.quantity, definition.denominator)
    foreign = ("foreign",) if any(each.currency for each in parts if each) else ()
    return ("y", "d" if definition.denominator else "x", "events", *foreign)


class Figures:
    """The columns of one metric, where a row is an event and a group has those of one user."""

    def __init__(self, definition: Definition, put: Put) -> None:
        self.definition, self._put = definition, put
        self._at, self._base = dialect().counted_at, dialect().base

    def all(self) -> Iterator[str]:
        """In the order of `names_of` the metric."""
        quantity, denominator = self.definition.quantity, self.definition.denominator
        window = self._window()
        yield self._value(quantity, window)
        yield self._value(denominator, window) if denominator else self._value(quantity, f"{self._at} < {self._base}")
        yield f"COUNT(*) FILTER (WHERE {self._is_of(quantity)} AND {self._at} >= {self._base})"
        if foreign := " OR ".join(self._is_foreign(each) for each in (quantity, denominator) if each and each.currency):
            yield f"COUNT(*) FILTER (WHERE ({foreign}) AND {window})"

    def _value(self, quantity: Quantity, when: str) -> str:
        """What the events of one user come to, of those in a span of time."""
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
        """Whether the event has an amount that is not added up, for it is in another currency or in none."""
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
