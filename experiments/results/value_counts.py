"""Counting the values of events in the database, for quantiles: no value of a single event leaves it.

The events are those of the users of some groups. Each statement reads all of them and returns counts, so that the
time depends on their number, and the memory of the service does not. On Citus, each worker counts those of its users.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from django.db.models import Case, Count, F, FloatField, IntegerField, Max, Min, Q, QuerySet, Sum, Value, When
from django.db.models.functions import Cast

from config.database.selects import Column, rows_of, select_of
from experiments.models import Exposure
from experiments.results.values import group_columns

if TYPE_CHECKING:
    from experiments.stats.quantiles import Products, Size, Tie
    from experiments.stats.value_cells import Cell, CellBounds, Cells

Key = tuple[Any, ...]
"""The values that the users of a group have in common; the last is their variant."""

_PARTS = 1_000
"""An interval of values is split into so many parts, and one for its greatest value."""
_TIES_A_STATEMENT = 20


class ValueCounts:
    """Groups of users for `experiments.stats.quantiles`, whose events the database has.

    `values` has a row for each event, joined to the exposure of its user, with its `amount` and the columns `keys`,
    which tell the group of the user. `users` has the number of users by group. Groups that differ in the last key alone
    are compared. Use it within `read_consistently`.
    """

    def __init__(self, values: QuerySet[Exposure], keys: Sequence[str], users: Mapping[Key, int]) -> None:
        self._keys = [*keys]
        rows = self._rows_of(values.values(*keys, "user_id", "amount"))
        self._values = rows.annotate(value=Column("amount", FloatField()))
        self._groups = {key: group for group, key in enumerate(users)}
        self._users = [*users.values()]

    @cached_property
    def _measured(self) -> Mapping[int, tuple[Any, ...]]:
        """The number of events, the sum of the squares of the events of each user, and the bounds, by group."""
        least, greatest = Column("least", FloatField()), Column("greatest", FloatField())
        of_groups = self._of_users(least=Min("value"), greatest=Max("value")).annotate(
            events=Sum("n"), alike=Sum(F("n") * F("n")), smallest=Min(least), largest=Max(greatest)
        )
        return dict(self._fetch(of_groups, "events", "alike", "smallest", "largest"))

    @cached_property
    def sizes(self) -> Sequence[Size]:
        from experiments.stats.quantiles import Size  # noqa: PLC0415 (see `results.study`)

        of_events = {group: (int(events), int(alike)) for group, (events, alike, _, _) in self._measured.items()}
        return [Size(users, *of_events.get(group, ())) for group, users in enumerate(self._users)]

    @cached_property
    def _cells(self) -> Cells:
        from experiments.stats.value_cells import CellEvents, Cells  # noqa: PLC0415 (see `results.study`)

        whole = {
            group: CellEvents(int(events), least, greatest)
            for group, (events, _, least, greatest) in self._measured.items()
        }
        compared: dict[Key, list[int]] = {}
        for key, group in self._groups.items():
            if group in whole:
                compared.setdefault(key[:-1], []).append(group)
        return Cells(whole, [*compared.values()], self._split)

    def find_ties(self, ranks: Sequence[tuple[int, Any]]) -> Sequence[Tie]:
        return self._cells.find_ties(ranks) if ranks else []

    def _split(self, intervals: Sequence[CellBounds]) -> Sequence[Sequence[Cell]]:
        """Count the events of each part of these intervals. A part is the same for all of its values on each server."""
        from experiments.stats.value_cells import CellEvents  # noqa: PLC0415 (see `results.study`)

        each = _PARTS + 1
        whens = [
            When(
                Q(value__gte=least, value__lte=greatest),
                then=Value(index * each)
                + Cast((F("value") - Value(least)) / Value(greatest - least) * Value(float(_PARTS)), IntegerField()),
            )
            for index, (least, greatest) in enumerate(intervals)
        ]
        parted = self._values.annotate(part=Case(*whens, output_field=IntegerField())).filter(part__isnull=False)
        counted = parted.values(*self._keys, "part").annotate(n=Count("user_id"), least=Min("value"), top=Max("value"))
        rows = sorted(
            (part, group, figures) for group, (part, *figures) in self._fetch(counted, "part", "n", "least", "top")
        )
        cells: list[list[Cell]] = [[] for _ in intervals]
        for part, of_part in groupby(rows, itemgetter(0)):
            cells[part // each].append({group: CellEvents(*figures) for _, group, figures in of_part})
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
            products |= {group: of_group[group][index] for index, tie in enumerate(some) for group in groups_of[tie]}
        return products

    def _multiply(self, bounds: Sequence[tuple[float, float]]) -> Mapping[int, Sequence[Products]]:
        """Return the products of each group for each of these ties, given as the least and the greatest value."""
        from experiments.stats.quantiles import Products  # noqa: PLC0415 (see `results.study`)

        counts: dict[str, Count] = {}
        sums: dict[str, Sum] = {}
        for index, (least, greatest) in enumerate(bounds):
            before, within = f"before_{index}", f"within_{index}"
            counts[before] = Count("value", filter=Q(value__lt=least))
            counts[within] = Count("value", filter=Q(value__gte=least, value__lte=greatest))
            b, t, n = (Column(name, IntegerField()) for name in (before, within, "n"))
            pairs = ((b, b), (b, t), (t, t), (b, n), (t, n))
            sums |= {f"product_{index}_{place}": Sum(one * other) for place, (one, other) in enumerate(pairs)}
        of_groups = self._of_users(**counts).annotate(**sums)
        return {
            group: [Products(*map(int, figures[first : first + 5])) for first in range(0, len(figures), 5)]
            for group, figures in self._fetch(of_groups, *sums)
        }

    def _of_users(self, **aggregates: Any) -> Any:
        """Return the groups over a row for each user with these aggregates and the number of events as `n`."""
        of_users = self._values.values(*self._keys, "user_id").annotate(n=Count("value"), **aggregates)
        return self._rows_of(of_users).annotate(n=Column("n", IntegerField())).values(*self._keys)

    def _rows_of(self, rows: QuerySet[Any, Any]) -> QuerySet[Exposure]:
        return rows_of(Exposure, select_of(rows)).annotate(**group_columns(self._keys))

    def _fetch(self, rows: QuerySet[Any, Any], *names: str) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Yield the group and the figures of each row."""
        number = len(self._keys)
        for row in rows.values_list(*self._keys, *names):
            if row[:number] in self._groups:
                yield self._groups[row[:number]], row[number:]
