"""Counting the values of events in the database, for quantiles: no value of a single event leaves it.

The events are those of the users of some groups. Each statement reads all of them and returns counts, so that the
time depends on their number, and the memory of the service does not. On Citus, each worker counts those of its users.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from experiments.aggregates.dialects import Parameters, dialect, fetch

if TYPE_CHECKING:
    from experiments.stats.quantiles import Products, Size, Tie
    from experiments.stats.value_cells import Cell, Cells, Interval

Key = tuple[Any, ...]
"""The values that the users of a group have in common; the last is their variant."""

_PARTS = 1_000
"""An interval of values is split into so many parts, and one for its greatest value."""
_TIES_A_STATEMENT = 20


class ValueCounts:
    """Groups of users for `experiments.stats.quantiles`, of which SQL has the events.

    `valued` is SQL that has a row for each event with its user_id, its value and the columns `keys`, which tell the
    group of the user. `users` has the number of users by group. Groups that differ in the last key alone are compared.
    Use it within `read_consistently`.
    """

    def __init__(self, valued: str, keys: Sequence[str], parameters: Parameters, users: Mapping[Key, int]) -> None:
        self._keys, self._parameters = ", ".join(keys), parameters
        # Without the fence, a value would be computed again wherever a statement uses it.
        columns, fence = f"{self._keys}, user_id, value{dialect().fence_column}", dialect().fence
        self._valued = f"SELECT {columns} FROM ({valued}) AS unfenced {fence}"  # noqa: S608 (no data)
        self._groups = {key: group for group, key in enumerate(users)}
        self._users = [*users.values()]

    @cached_property
    def _measured(self) -> Mapping[int, tuple[Any, ...]]:
        """The number of events, the sum of the squares of the events of each user, and the bounds, by group."""
        statement = f"""
            SELECT {self._keys}, SUM(n), SUM(n * n), MIN(least), MAX(greatest) FROM (
                SELECT {self._keys}, user_id, COUNT(*) AS n, MIN(value) AS least, MAX(value) AS greatest
                FROM ({self._valued}) AS valued GROUP BY {self._keys}, user_id
            ) AS of_user GROUP BY {self._keys}
        """  # noqa: S608 (no data)
        return {group: tuple(figures) for group, figures in self._fetch(statement, self._parameters)}

    @cached_property
    def sizes(self) -> Sequence[Size]:
        from experiments.stats.quantiles import Size  # noqa: PLC0415 (see `results.to_stats`)

        of_events = {group: (int(events), int(alike)) for group, (events, alike, _, _) in self._measured.items()}
        return [Size(users, *of_events.get(group, ())) for group, users in enumerate(self._users)]

    @cached_property
    def _cells(self) -> Cells:
        from experiments.stats.value_cells import Cells, Counted  # noqa: PLC0415 (see `results.to_stats`)

        whole = {
            group: Counted(int(events), least, greatest)
            for group, (events, _, least, greatest) in self._measured.items()
        }
        compared: dict[Key, list[int]] = {}
        for key, group in self._groups.items():
            if group in whole:
                compared.setdefault(key[:-1], []).append(group)
        return Cells(whole, [*compared.values()], self._split)

    def find_ties(self, ranks: Sequence[tuple[int, Any]]) -> Sequence[Tie]:
        return self._cells.find_ties(ranks) if ranks else []

    def _split(self, intervals: Sequence[Interval]) -> Sequence[Sequence[Cell]]:
        """Count the events of each part of these intervals. A part is the same for all of its values on each server."""
        from experiments.stats.value_cells import Counted  # noqa: PLC0415 (see `results.to_stats`)

        parameters, each = deepcopy(self._parameters), _PARTS + 1
        put = parameters.put
        parts = " ".join(
            f"WHEN value BETWEEN {put(least)} AND {put(greatest)} "
            f"THEN {at * each} + CAST((value - {put(least)}) / {put(greatest - least)} * {_PARTS} AS INTEGER)"
            for at, (least, greatest) in enumerate(intervals)
        )
        statement = f"""
            SELECT {self._keys}, part, COUNT(*), MIN(value), MAX(value)
            FROM (SELECT {self._keys}, value, CASE {parts} END AS part FROM ({self._valued}) AS valued) AS parted
            WHERE part IS NOT NULL GROUP BY {self._keys}, part
        """  # noqa: S608 (no data)
        rows = sorted((part, group, counted) for group, (part, *counted) in self._fetch(statement, parameters))
        cells: list[list[Cell]] = [[] for _ in intervals]
        for part, of_part in groupby(rows, itemgetter(0)):
            cells[part // each].append({group: Counted(*counted) for _, group, counted in of_part})
        return cells

    def multiply(self, ties: Mapping[int, Tie]) -> Mapping[int, Products]:
        """Return the products of each group. Equal ties of several groups are counted at once."""
        groups_of: dict[tuple[float, float], list[int]] = {}
        for group, tie in ties.items():
            groups_of.setdefault((tie.least, tie.value), []).append(group)
        products: dict[int, Products] = {}
        bounds = [*groups_of]
        for first in range(0, len(bounds), _TIES_A_STATEMENT):
            some = bounds[first : first + _TIES_A_STATEMENT]
            of_group = self._multiply(some)
            products |= {group: of_group[group][at] for at, tie in enumerate(some) for group in groups_of[tie]}
        return products

    def _multiply(self, bounds: Sequence[tuple[float, float]]) -> Mapping[int, Sequence[Products]]:
        """Return the products of each group for each of these ties, given as the least and the greatest value."""
        from experiments.stats.quantiles import Products  # noqa: PLC0415 (see `results.to_stats`)

        parameters = deepcopy(self._parameters)
        put, counts, sums = parameters.put, [], []
        for at, (least, greatest) in enumerate(bounds):
            b, t = f"before_{at}", f"within_{at}"
            counts += [
                f"COUNT(*) FILTER (WHERE value < {put(least)}) AS {b}",
                f"COUNT(*) FILTER (WHERE value BETWEEN {put(least)} AND {put(greatest)}) AS {t}",
            ]
            sums += [f"SUM({b} * {b})", f"SUM({b} * {t})", f"SUM({t} * {t})", f"SUM({b} * n)", f"SUM({t} * n)"]
        statement = f"""
            SELECT {self._keys}, {", ".join(sums)} FROM (
                SELECT {self._keys}, user_id, COUNT(*) AS n, {", ".join(counts)}
                FROM ({self._valued}) AS valued GROUP BY {self._keys}, user_id
            ) AS of_user GROUP BY {self._keys}
        """  # noqa: S608 (no data)
        return {
            group: [Products(*map(int, figures[first : first + 5])) for first in range(0, len(figures), 5)]
            for group, figures in self._fetch(statement, parameters)
        }

    def _fetch(self, statement: str, parameters: Parameters) -> Iterator[tuple[int, Sequence[Any]]]:
        """Yield the group and the figures of each row."""
        number = self._keys.count(",") + 1
        for row in fetch(statement, parameters):
            if row[:number] in self._groups:
                yield self._groups[row[:number]], row[number:]
