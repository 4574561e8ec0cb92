"""The geometry of charts: positions in percent, computed by hand."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.stats.charts import Range, Scale, plot_intervals, plot_series, scale_for

PERCENT = "{:.0%}".format
numbers = st.floats(-1e100, 1e100)
ranges = st.tuples(numbers, numbers, numbers).map(lambda three: Range(*sorted(three)))


def test_ticks__of_a_scale__are_few_round_numbers_with_zero(subtests: pytest.Subtests) -> None:
    for low, high, ticks in [
        (-0.06, 1.06, [0, 0.5, 1]),
        (-0.05, 0.12, [-0.05, 0, 0.05, 0.1]),
        (-1, 1, [-1, 0, 1]),
        (-0.3, 0.3, [-0.2, 0, 0.2]),
        (-2_500, 100, [-2_000, -1_000, 0]),
        (0, 0.7, [0, 0.2, 0.4, 0.6]),
    ]:
        with subtests.test(low=low):
            assert Scale(low, high).ticks() == pytest.approx(ticks)


@given(st.lists(ranges | st.none()))
def test_scale__for_any_ranges__holds_zero_and_every_estimate_and_has_three_to_seven_ticks(
    intervals: list[Range | None],
) -> None:
    scale = scale_for(intervals)
    ticks = scale.ticks()
    assert scale.low < 0 < scale.high or 0.0 in (scale.low, scale.high)
    assert all(scale.low <= interval.estimate <= scale.high for interval in intervals if interval)
    assert 3 <= len(ticks) <= 7
    assert 0.0 in ticks
    assert 2 <= len(scale.ticks(2)) <= 5


def test_intervals__on_one_scale__stand_where_their_numbers_are() -> None:
    plot = plot_intervals([Range(-0.5, 0.0, 0.5), None, Range(0.0, 0.25, 0.5)], PERCENT)
    # The scale goes from -0.56 to 0.56: six percent of room at each end.
    assert plot.zero == 50
    assert [(tick.label, tick.position) for tick in plot.ticks] == [("-50%", 5.36), ("0%", 50), ("50%", 94.64)]
    first, second, third = plot.bars
    assert first is not None
    assert third is not None
    assert (first.start, first.length, first.point, first.end) == (5.36, 89.28, 50, 94.64)
    assert second is None
    assert (third.start, third.point, third.end) == (50, 72.32, 94.64)


def test_interval__without_an_end__reaches_the_edge_and_is_open_there() -> None:
    plot = plot_intervals([Range(-0.5, 0.0, None), Range(None, 0.0, 0.5), Range(None, 0.0, None)], PERCENT)
    sides = [(bar.is_open_below, bar.is_open_above, bar.is_cut_below, bar.is_cut_above) for bar in plot.bars if bar]
    assert sides == [(False, True, False, False), (True, False, False, False), (True, True, False, False)]
    above, below, both = plot.bars
    assert above is not None
    assert below is not None
    assert both is not None
    assert (above.end, below.start, both.start, both.end) == (100, 0, 0, 100)


def test_interval__with_a_mark__is_drawn_with_it_however_far_it_is() -> None:
    plot = plot_intervals([Range(0.1, 0.2, 0.3, mark=-1.0)], PERCENT)
    [bar] = plot.bars
    assert bar is not None
    assert bar.mark == pytest.approx(100 * 0.06 / 1.12, abs=0.5)
    assert not bar.is_cut_below
    assert plot.is_drawn


def test_intervals__of_nothing__are_not_drawn() -> None:
    assert not plot_intervals([None, None], PERCENT).is_drawn


def test_interval__far_wider_than_the_others__is_cut_where_they_stay_legible() -> None:
    wide, narrow = plot_intervals([Range(-40, 0.2, 40), Range(-0.1, 0.1, 0.3)], PERCENT).bars
    assert wide is not None
    assert narrow is not None
    assert (wide.start, wide.end, wide.is_cut_below, wide.is_cut_above) == (0, 100, True, True)
    assert not narrow.is_cut_below
    assert not narrow.is_cut_above
    assert narrow.length > 10


def test_interval__cut_at_one_end__shows_the_other() -> None:
    wide, _ = plot_intervals([Range(-0.1, 2, 40), Range(-0.1, 0.1, 0.3)], PERCENT).bars
    assert wide is not None
    assert (wide.is_cut_below, wide.is_cut_above) == (False, True)
    assert 0 < wide.start < wide.point < wide.end == 100


def test_intervals__of_nothing_known__are_an_empty_scale_around_zero() -> None:
    plot = plot_intervals([None, None], PERCENT)
    assert (plot.zero, plot.bars) == (50, [None, None])
    assert [tick.label for tick in plot.ticks] == ["-100%", "0%", "100%"]


def test_intervals__on_one_side_of_zero__leave_zero_at_the_edge() -> None:
    plot = plot_intervals([Range(0.1, 0.2, 0.3)], PERCENT)
    assert plot.zero == pytest.approx(5.36, abs=0.01)


def test_series__of_known_days__is_a_line_within_its_band() -> None:
    plot = plot_series([[Range(-1, 0, 1), Range(0, 0.5, 1)]], PERCENT)
    [series] = plot.series
    # Days are 50 wide, with their points in the middle. The latest needs -0.06 to 1.06, so there is -0.62 to 1.62:
    # 1 is at 27.68 from above, 0.5 at 50, 0 at 72.32, and -1 is beyond.
    assert series.column == 50
    assert series.line == "M25 72.32L75 50"
    assert series.band == "M25 27.68L75 27.68L75 72.32L25 100Z"
    assert plot.zero == 72.32


def test_series__with_unknown_days__breaks_there() -> None:
    interval = Range(-1, 0, 1)
    [series] = plot_series([[None, interval, None, interval, interval]], PERCENT).series
    assert series.line == "M20 50L40 50M70 50L90 50"
    assert series.band.count("Z") == 2


def test_series__of_nothing__draws_nothing() -> None:
    plot = plot_series([[], [None]], PERCENT)
    assert [(series.line, series.band) for series in plot.series] == [("", ""), ("", "")]


def test_series__whose_first_days_are_wide__is_scaled_to_its_last() -> None:
    days = [Range(-900, 60, 900), Range(-9, 1, 9), Range(-1, 0.5, 2)]
    [series] = plot_series([days], PERCENT).series
    assert series.line.startswith("M16.67 0L")  # the first estimate is out of sight, at the upper edge
    *_, last = re.findall(r"[\d.]+", series.line)
    assert 40 < float(last) < 60


@given(st.lists(st.lists(ranges | st.none(), max_size=6), max_size=4))
def test_series__of_any_numbers__stays_within_its_drawing(days: Sequence[Sequence[Range | None]]) -> None:
    plot = plot_series(days, PERCENT)
    places = [float(found) for series in plot.series for found in re.findall(r"[\d.e+-]+", series.line + series.band)]
    assert all(0 <= place <= 100 for place in [plot.zero, *places])


def test_series__known_best_on_another_day__have_a_scale_for_that_day() -> None:
    days = [[Range(-0.1, 0.1, 0.3), Range(-50.0, 0.2, 60.0)]]
    by_last, by_best = plot_series(days, PERCENT), plot_series(days, PERCENT, is_last_best=False)
    highest = [max(float(tick.label.rstrip("%")) for tick in plot.ticks) for plot in (by_last, by_best)]
    assert highest[0] > 5_000
    assert highest[1] <= 150


@pytest.mark.parametrize("lower", [None, -0.9])
@pytest.mark.parametrize("is_last_best", [True, False])
def test_series__with_a_least_number__have_no_tick_below_it(lower: float | None, is_last_best: bool) -> None:
    days = [[Range(None, -0.5, 3.0), Range(lower, -0.6, 1.5)]]
    plot = plot_series(days, PERCENT, is_last_best=is_last_best, least=-1.0)
    assert plot.ticks[0].label == "-100%"
    assert plot.ticks[0].position < 100  # the open side ends at the edge, which is below the tick
    assert "-150%" in {tick.label for tick in plot_series([[Range(-1.2, -1.1, 0)]], PERCENT, least=-1.0).ticks}


@pytest.mark.parametrize("lower", [None, -0.9])
def test_intervals__with_a_least_number__have_no_tick_below_it(lower: float | None) -> None:
    ranges = [Range(lower, -0.2, 2.0), Range(-0.5, 0.5, 1.5)]
    labels = [tick.label for tick in plot_intervals(ranges, PERCENT, least=-1.0).ticks]
    assert {"-200%", "-150%"}.isdisjoint(labels)
    below = plot_intervals([Range(-3.0, -2.0, 1.0)], PERCENT, least=-1.0)
    assert below.ticks[0].label == "-200%"
    [bar] = below.bars
    assert bar is not None
    assert not bar.is_cut_below
