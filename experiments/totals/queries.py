"""The query behind totals: what a metric makes of the events of each exposed user."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import orjson

from events.models import Event
from experiments.metrics.definition import REVENUE, Definition, Quantity
from experiments.models import Experiment, Exposure
from experiments.totals.dialects import as_stored, dialect

LOOKBACK = timedelta(days=14)
"""How long before the exposure a user's history reaches."""
_SKEW = timedelta(days=1)
"""An exposure may lie a little before the start, by the clock of another host."""


def earliest_event(experiment: Experiment) -> datetime:
    """Events before this moment matter to nobody in a started experiment."""
    assert experiment.started_at is not None  # noqa: S101 (drafts have no totals)
    return experiment.started_at - LOOKBACK - _SKEW


@dataclass(frozen=True, slots=True)
class Query:
    """What one metric, at its place in an experiment, makes of users. `own` is what events may call the experiment.

    Whatever makes a part of the SQL leaves its parameters behind.
    """

    experiment: Experiment
    place: int
    definition: Definition
    own: Sequence[str]
    parameters: dict[str, Any] = field(default_factory=dict)

    def of(self, users: Sequence[str]) -> str:
        """The totals of these users."""
        return self._totals(dialect().is_chosen.format(self._put(orjson.dumps(users).decode())), "")

    def of_all(self) -> str:
        """The totals of all users. What is sorted on the way is narrow, for properties are looked at before."""
        return self._totals("", dialect().barrier)

    @property
    def stored_parameters(self) -> dict[str, Any]:
        return dict(zip(self.parameters, as_stored([*self.parameters.values()]), strict=True))

    def _totals(self, chosen: str, barrier: str) -> str:
        # What a user has one of is taken by MIN: as more keys of the groups it would cost more.
        return f"""
            SELECT {self._put(self.experiment.pk)}, {self.place}, exposed.user_id, MIN(variant), MIN(day),
                {", ".join(self._figures())}
            FROM ({self._exposed(chosen)}) AS exposed CROSS JOIN ({self._happened()} {barrier}) AS happened
            WHERE happened.user_id = exposed.user_id AND counted_at >= {self._later(-LOOKBACK)}
            GROUP BY exposed.user_id
        """  # noqa: S608 (no data)

    def _exposed(self, chosen: str) -> str:
        conditions = [f"experiment_id = {self._put(self.experiment.pk)}", *([chosen] if chosen else [])]
        if self.experiment.stopped_at is not None:
            conditions.append(f"exposed_at <= {self._put(self.experiment.stopped_at)}")
        columns = f"user_id, variant, {dialect().day} AS day, {dialect().base} AS base"
        selected = f"SELECT {columns} FROM {Exposure._meta.db_table} WHERE {' AND '.join(conditions)}"  # noqa: S608 (no data)
        return f"{selected} {dialect().barrier}"

    def _happened(self) -> str:
        """The events that may matter, also those before an exposure."""
        columns = [f"user_id, name, {dialect().counted_at} AS counted_at", *self._amounts()]
        return f"SELECT {', '.join(columns)} FROM {Event._meta.db_table} WHERE {' AND '.join(self._matters())}"  # noqa: S608 (no data)

    def _amounts(self) -> Iterator[str]:
        quantity, denominator = self.definition.quantity, self.definition.denominator
        if quantity.property:
            yield f"{self._amount(quantity)} AS amount"
        if denominator and denominator.property:
            yield f"{self._amount(denominator)} AS divisor"
        if foreign := " OR ".join(self._foreign(each) for each in (quantity, denominator) if each and each.currency):
            yield f"{foreign} AS is_foreign"

    def _amount(self, quantity: Quantity) -> str:
        number = dialect().number.format(self._put(quantity.property))
        if not quantity.currency:
            return number
        return f"CASE WHEN {self._currency()} = {self._put(quantity.currency)} THEN {number} END"

    def _foreign(self, quantity: Quantity) -> str:
        """Whether the event has an amount that is not added up, for it is in another currency or in none."""
        amount = dialect().number.format(self._put(REVENUE))
        is_other = f"{self._currency()} <> {self._put(quantity.currency)}"
        return f"({self._is_of(quantity)} AND {is_other} AND {amount} IS NOT NULL)"

    def _currency(self) -> str:
        return f"COALESCE({dialect().text.format(self._put('currency'))}, '')"

    def _matters(self) -> Iterator[str]:
        experiment, earliest = self.experiment, self._put(earliest_event(self.experiment))
        yield f"environment_id = {self._put(experiment.environment_id)}"
        yield f"name IN ({self._each(self.definition.events)})"
        yield f"experiment IN ({self._each(['', *self.own])})"
        yield f"timestamp >= {earliest} AND received_at >= {earliest}"
        if experiment.stopped_at is not None:
            yield f"{dialect().counted_at} <= {self._put(experiment.stopped_at)}"

    def _figures(self) -> Iterator[str]:
        """In the order of the columns: y, d, x, events, foreign."""
        quantity, denominator = self.definition.quantity, self.definition.denominator
        window = self._window()
        yield self._value(quantity, "amount", window)
        yield self._value(denominator, "divisor", window) if denominator else "0"
        yield "0" if denominator else self._value(quantity, "amount", "counted_at < base")
        yield f"COUNT(*) FILTER (WHERE {self._is_of(quantity)} AND counted_at >= base)"
        has_currency = quantity.currency or (denominator and denominator.currency)
        yield f"COUNT(*) FILTER (WHERE is_foreign AND {window})" if has_currency else "0"

    def _value(self, quantity: Quantity, amount: str, when: str) -> str:
        """What the events of one user come to, of those in a span of time."""
        counted = f"FILTER (WHERE {self._is_of(quantity)} AND {when})"
        if self.definition.is_share:
            return f"CASE WHEN COUNT(*) {counted} > 0 THEN 1 ELSE 0 END"
        if not quantity.property:
            return f"COUNT(*) {counted}"
        summary = "AVG" if self.definition.type == "mean" else "SUM"
        return f"COALESCE({summary}({amount}) {counted}, 0)"

    def _is_of(self, quantity: Quantity) -> str:
        return f"name = {self._put(quantity.event)}" if len(self.definition.events) > 1 else "TRUE"

    def _window(self) -> str:
        start, length = self.definition.delay, self.definition.window
        begun = f"counted_at >= {self._later(start)}"
        return begun if length is None else f"{begun} AND counted_at < {self._later(start + length)}"

    def _later(self, than_base: timedelta) -> str:
        return dialect().later.format(self._put(than_base // timedelta(seconds=1)))

    def _each(self, values: Iterable[str]) -> str:
        return ", ".join(self._put(value) for value in values)

    def _put(self, value: Any) -> str:
        name = f"p{len(self.parameters)}"
        self.parameters[name] = value
        return f"%({name})s"
