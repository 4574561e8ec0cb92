"""The curves of the planner: the smallest effect that can be found, over users or over days. Pure.

Positions are percentages of a drawing from its left or its top edge, as in `experiments.stats.charts`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from experiments.stats.charts import Scale, Tick
from experiments.stats.planning import Baseline, Demands, detectable

_TIMES_THE_EFFECT = 3.0
_POINTS = 100
_BEYOND = 1.4


@dataclass(frozen=True, slots=True)
class Point:
    """The smallest effect that each test can find, as a share of the baseline; None where it finds none."""

    across: float
    fixed_horizon: float | None
    always_valid: float | None


@dataclass(frozen=True, slots=True)
class Curve:
    """An SVG path for each test, and the height of the effect to find."""

    fixed_horizon: str
    always_valid: str
    effect: float
    ticks: Sequence[Tick]


def points_over_users(baseline: Baseline, demands: Demands, most: int) -> list[Point]:
    """Return points from few users per variant at the left edge to `most` at the right edge."""
    points = []
    for step in range(1, _POINTS + 1):
        users = most * step / _POINTS
        able = detectable(baseline, users, users, demands)
        effects = (
            difference and difference / abs(baseline.mean) for difference in (able.fixed_horizon, able.always_valid)
        )
        points.append(Point(100 * step / _POINTS, *effects))
    return points


def users_shown(planned: int) -> int:
    """Return the users per variant at the right edge of a curve: somewhat more than the planned users."""
    return round(_BEYOND * planned)


def draw(points: Sequence[Point], effect: float, label: Callable[[float], str]) -> Curve:
    """Draw the part of the curve up to three times the effect to find.

    `label` formats the numbers at the side.
    """
    scale = Scale(0.0, _TIMES_THE_EFFECT * abs(effect))
    return Curve(
        fixed_horizon=_path(scale, [(point.across, point.fixed_horizon) for point in points]),
        always_valid=_path(scale, [(point.across, point.always_valid) for point in points]),
        effect=_height(scale, abs(effect)),
        ticks=[Tick(label(value), _height(scale, value)) for value in scale.ticks()],
    )


def _path(scale: Scale, points: Sequence[tuple[float, float | None]]) -> str:
    shown = [(across, _height(scale, value)) for across, value in points if value is not None and value <= scale.high]
    return "M" + "L".join(f"{across:g} {down:g}" for across, down in shown) if len(shown) > 1 else ""


def _height(scale: Scale, value: float) -> float:
    return round(100 - scale.at(value), 2)
