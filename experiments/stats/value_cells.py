"""Finding ranks among very many values of events by counting alone.

A cell has the events between two values. At first, one cell has all events. A cell in which a rank falls is split into
parts of the same width, whose events are counted, until it has a single value. The values next to it are then known
too: the greatest of the cell before it, and the smallest of the cell after it. Each split separates at least two
values, so this ends.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, takewhile
from math import ceil, inf

from experiments.stats.quantiles import ROUNDING, Tie


@dataclass(frozen=True, slots=True)
class CellEvents:
    """Some events of a group: their number, and their smallest and greatest value."""

    number: int
    least: float
    greatest: float


Cell = Mapping[int, CellEvents]
"""The events of a cell by group, for groups that have any."""

CellBounds = tuple[float, float]
"""The smallest and the greatest value of all events of a cell."""

CountCells = Callable[[Sequence[CellBounds]], Sequence[Sequence[Cell]]]
"""Counts the events in each of some intervals, and returns the cells in ascending order.

The smallest and the greatest value of an interval must be in different cells.
"""


class Cells:
    """The cells of some groups. `compared` has the groups whose values are spread alike, each group once."""

    def __init__(self, whole: Cell, compared: Sequence[Sequence[int]], split: CountCells) -> None:
        self._cells, self._split = [whole], split
        self._compared = {group: groups for groups in compared for group in groups}

    def find_ties(self, ranks: Sequence[tuple[int, Fraction]]) -> Sequence[Tie]:
        """Return the tie of each rank; see `quantiles.Groups`."""
        while True:
            views: dict[int, _View] = {}
            for group in {group for group, _ in ranks}:
                compared = self._compared[group]
                views[group] = views.get(compared[0]) or _View(self._cells, compared)
                views.setdefault(compared[0], views[group])
            found = [views[group].find(group, rank) for group, rank in ranks]
            wide = sorted({index for tie in found if isinstance(tie, set) for index in tie})
            if not wide:
                return [tie for tie in found if isinstance(tie, Tie)]
            parts = dict(zip(wide, self._split([_interval(self._cells[index]) for index in wide]), strict=True))
            self._cells = [cell for index, whole in enumerate(self._cells) for cell in parts.get(index, [whole])]


def _interval(cell: Cell) -> CellBounds:
    return min(counted.least for counted in cell.values()), max(counted.greatest for counted in cell.values())


class _View:
    """The cells that have events of groups which are compared."""

    def __init__(self, cells: Sequence[Cell], groups: Sequence[int]) -> None:
        own = [(index, [cell[group] for group in groups if group in cell]) for index, cell in enumerate(cells)]
        self._places = [index for index, counted in own if counted]
        self._least = [min(part.least for part in counted) for _, counted in own if counted]
        self._greatest = [max(part.greatest for part in counted) for _, counted in own if counted]
        self._until = {
            group: [*accumulate(cells[index][group].number if group in cells[index] else 0 for index in self._places)]
            for group in groups
        }

    def find(self, group: int, rank: Fraction) -> Tie | set[int]:
        """Return the tie in which a rank falls, or the indexes of the cells to split first."""
        until = self._until[group]
        start = min(bisect_left(until, max(ceil(rank), 1)), len(until) - 1)
        chain = [*reversed([*self._alike(start, -1)]), start, *self._alike(start, 1)]
        wide = {self._places[index] for index in chain if self._is_wide(index)}
        if wide:
            return wide
        first, last = chain[0], chain[-1]
        value = self._greatest[last]
        below = value - self._greatest[first - 1] if first else inf
        above = self._least[last + 1] - value if last + 1 < len(until) else inf
        reach = min(below, above) / 2
        return Tie(
            before=until[first - 1] if first else 0,
            until=until[last],
            least=self._least[first],
            value=value,
            # No quantile is smaller or greater than all values.
            lower=value - reach if first else value,
            upper=value + reach if last + 1 < len(until) else value,
        )

    def _is_wide(self, index: int) -> bool:
        least, greatest = self._least[index], self._greatest[index]
        return greatest - least > ROUNDING * min(abs(least), abs(greatest))

    def _alike(self, start: int, step: int) -> Iterator[int]:
        """Yield the cells next to this one, in one direction, whose values may differ from it by rounding only."""
        end = len(self._places) if step > 0 else -1
        return takewhile(lambda index: self._touches(index - step, index), range(start + step, end, step))

    def _touches(self, one: int, other: int) -> bool:
        lower, upper = sorted((one, other))
        greatest = self._greatest[lower]
        return self._least[upper] - greatest <= ROUNDING * abs(greatest)
