"""Ranks found by counting are those found in the values themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.stats.quantiles import EventGroups, EventValues, Tie
from experiments.stats.value_cells import Cell, CellBounds, CellEvents, Cells

PARTS = 3


class Events:
    """Events of some groups, which count as often as they are asked."""

    def __init__(self, *groups: Sequence[float]) -> None:
        self.groups = groups
        self.splits = 0

    def split(self, intervals: Sequence[CellBounds]) -> list[list[Cell]]:
        self.splits += 1
        return [self._cells(*interval) for interval in intervals]

    def _cells(self, least: float, greatest: float) -> list[Cell]:
        def part(value: float) -> int:
            return int((value - least) / (greatest - least) * PARTS)

        inside = sorted(value for values in self.groups for value in values if least <= value <= greatest)
        return [self.cell([*values]) for _, values in groupby(inside, part)]

    def cell(self, values: Sequence[float]) -> Cell:
        of_groups = [[v for v in of_group if values[0] <= v <= values[-1]] for of_group in self.groups]
        return {at: CellEvents(len(own), min(own), max(own)) for at, own in enumerate(of_groups) if own}

    def cells(self, compared: Sequence[Sequence[int]]) -> Cells:
        of_all = sorted(value for values in self.groups for value in values)
        return Cells(self.cell(of_all), compared, self.split)


def ties_in_memory(groups: Sequence[Sequence[float]], ranks: Sequence[tuple[int, Fraction]]) -> Sequence[Tie]:
    return EventGroups([(len(values), EventValues.of(values, range(len(values)))) for values in groups]).find_ties(
        ranks
    )


NUMBERS = st.one_of(
    st.integers(-3, 3).map(float),
    st.sampled_from([0.3, 0.1 + 0.2, 0.3 + 1e-13, -0.3, 1e-100, 1e100, -1e100, 5.0, 5.0 + 1e-15]),
    st.floats(-1e100, 1e100).map(lambda value: 0.0 if abs(value) < 1e-100 else value),
)
GROUPS = st.lists(st.lists(NUMBERS, min_size=1, max_size=30), min_size=1, max_size=3)


@given(groups=GROUPS, shares=st.lists(st.fractions(0, 1), min_size=1, max_size=5))
def test_find_ties__of_any_values__are_those_in_memory(groups: list[list[float]], shares: list[Fraction]) -> None:
    ranks = [(at, share * len(values)) for at, values in enumerate(groups) for share in shares]
    events = Events(*groups)

    found = events.cells([range(len(groups))]).find_ties(ranks)

    for tie, other in zip(found, ties_in_memory(groups, ranks), strict=True):
        assert asdict(tie) == pytest.approx(asdict(other), rel=1e-11, abs=0)


def test_find_ties__of_groups_that_are_not_compared__have_neighbours_of_their_own() -> None:
    groups = [[1.0, 5.0, 9.0], [4.0, 6.0], [5.5] * 4]
    [alone, *compared] = (
        Events(*groups).cells([[0], [1, 2]]).find_ties([(0, Fraction(2)), (1, Fraction(1)), (2, Fraction(1))])
    )
    assert (alone.lower, alone.upper) == (3, 7)
    assert [(tie.lower, tie.value, tie.upper) for tie in compared] == [(4, 4, 4.75), (5.25, 5.5, 5.75)]


def test_find_ties__again__split_only_what_is_new() -> None:
    events = Events([*map(float, range(100))])
    cells = events.cells([[0]])
    first = cells.find_ties([(0, Fraction(50))])
    splits = events.splits
    assert cells.find_ties([(0, Fraction(50))]) == first
    assert events.splits == splits > 0


def test_find_ties__of_one_value__split_nothing() -> None:
    events = Events([7.0] * 5, [7.0])
    assert events.cells([[0, 1]]).find_ties([(0, Fraction(3))]) == [Tie(0, 5, 7, 7, 7, 7)]
    assert events.splits == 0
