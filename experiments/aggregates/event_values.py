"""The SQL for the values of the events that a quantile counts, of the users of some totals."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING, Any

from events.models import Event
from experiments.aggregates.dialects import fetch, fetch_in_chunks, planned
from experiments.aggregates.event_conditions import is_of
from experiments.aggregates.metric_columns import Put, amount_of, window_of
from experiments.aggregates.statements import TotalsQuery
from experiments.aggregates.value_counts import Key, ValueCounts
from experiments.metrics.definition import Definition
from experiments.models import Experiment

if TYPE_CHECKING:
    from experiments.stats.quantiles import EventValues


class EventValuesQuery(TotalsQuery):
    """The events of one metric, and the users grouped by the SQL expressions `keys`.

    `rows` returns SQL that follows FROM and has the columns of totals. Users count who were exposed before `before`.
    """

    def __init__(
        self,
        experiment: Experiment,
        definition: Definition,
        rows: Callable[[Put], str],
        keys: Sequence[str],
        before: datetime | None,
    ) -> None:
        super().__init__(experiment)
        self.definitions, self._definition = [definition], definition
        self._keys = [f"key_{at}" for at in range(len(keys))]
        self._key_names = ", ".join(self._keys)
        named = ", ".join(f"{key} AS {name}" for name, key in zip(self._keys, keys, strict=True))
        condition = "" if before is None else f"WHERE exposed_at < {self._put(before)}"
        self._users = (
            f"SELECT user_id, exposed_at, {named} "  # noqa: S608 (no data)
            f"FROM (SELECT * FROM {rows(self._put)}) AS chosen {condition}"
        )

    def count_users(self) -> Mapping[Key, int]:
        statement = f"SELECT {self._key_names}, COUNT(*) FROM ({self._users}) AS counted GROUP BY {self._key_names}"  # noqa: S608
        return {tuple(key): users for *key, users in fetch(statement, self.parameters)}

    def count_values(self, users: Mapping[Key, int]) -> ValueCounts:
        """Return the events of these users, counted by value."""
        return ValueCounts(self._valued(), self._keys, self.parameters, users)

    def read(self, most: int) -> Mapping[Key, EventValues] | None:
        """Return the values of the events by the keys of their users, or None if there are more than `most`."""
        from experiments.stats.quantiles import EventValues  # noqa: PLC0415 (see `results.to_stats`)

        columns: dict[Key, tuple[array[float], array[int]]] = {}
        numbers: dict[str, int] = {}
        with closing(self.rows()) as rows:
            for at, (*key, user_id, value) in enumerate(rows):
                if at >= most:
                    return None
                values, owners = columns.setdefault(tuple(key), (array("d"), array("q")))
                values.append(value)
                owners.append(numbers.setdefault(user_id, len(numbers)))
        return {key: EventValues.of(*both) for key, both in columns.items()}

    def rows(self) -> Generator[tuple[Any, ...], None, None]:
        """Yield the keys, the user id and the value of each event.

        Call it within a transaction, with PostgreSQL `planned` for one pass.
        """
        # A cursor would have PostgreSQL prefer plans whose first rows come soon.
        with planned(cursor_tuple_fraction="1"):
            yield from fetch_in_chunks(self._valued(), self.parameters)

    def _valued(self) -> str:
        put, quantity = self._put, self._definition.quantity
        counts = f"{is_of(quantity, put)} AND {window_of(self._definition, put)}"
        return f"""
            SELECT {self._key_names}, user_id, value FROM (
                SELECT {self._key_names}, exposed.user_id, CAST({amount_of(quantity, put)} AS DOUBLE PRECISION) AS value
                FROM ({self._users}) AS exposed JOIN {Event._meta.db_table} AS happened
                    ON happened.user_id = exposed.user_id AND {" AND ".join(self._matters())} AND {counts}
            ) AS read_values WHERE value IS NOT NULL
        """  # noqa: S608 (no data)
