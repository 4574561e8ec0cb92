"""The geometry of the planner's curves."""

from __future__ import annotations

import re

import pytest

from experiments.planner.forecast import Point, draw, points_over_users, users_shown
from experiments.stats.planning import EVEN, Baseline, Demands, always_valid_users, fixed_horizon_users


def places(path: str) -> list[tuple[float, float]]:
    return [(float(across), float(down)) for across, down in re.findall(r"([\d.]+) ([\d.]+)", path)]


def test_points__over_users__pass_through_what_was_planned() -> None:
    baseline, demands = Baseline(0.1), Demands()
    planned = always_valid_users(baseline, 0.005, demands), fixed_horizon_users(baseline, 0.005, demands)
    for place, users in enumerate(planned):
        last = points_over_users(baseline, demands, EVEN, users)[-1]
        assert last.across == 100
        assert (last.always_valid, last.fixed_horizon)[place] == pytest.approx(0.05, rel=1e-3)


def test_points__over_users__of_a_negative_mean_are_shares_of_its_size() -> None:
    assert all(point.always_valid > 0 for point in points_over_users(Baseline(-10.0, 5.0), Demands(), EVEN, 1000))


def test_users_shown__any__are_somewhat_more_than_planned() -> None:
    assert users_shown(1000) == 1400


def test_draw__effects__stand_at_heights_from_zero_to_three_times_the_wanted_one() -> None:
    points = [Point(25, 0.15, None), Point(50, 0.1, 0.15), Point(75, 0.05, 0.075), Point(100, 0.0, 0.05)]
    curve = draw(points, -0.05, "{:.2f}".format)
    assert places(curve.fixed_horizon) == [(25, 0), (50, 33.33), (75, 66.67), (100, 100)]
    assert places(curve.always_valid) == [(50, 0), (75, 50), (100, 66.67)]
    assert curve.effect == 66.67
    assert [(tick.label, tick.position) for tick in curve.ticks] == [
        ("0.00", 100),
        ("0.05", 66.67),
        ("0.10", 33.33),
        ("0.15", 0),
    ]


@pytest.mark.parametrize("points", [[], [Point(50, 0.1, 0.1)], [Point(50, 0.2, None), Point(100, 0.16, None)]])
def test_draw__fewer_than_two_places_in_the_drawing__is_no_line(points: list[Point]) -> None:
    curve = draw(points, 0.05, str)
    assert (curve.fixed_horizon, curve.always_valid) == ("", "")
