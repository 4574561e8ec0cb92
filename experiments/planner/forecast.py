"""The smallest effect that an experiment can find: on each day, and as curves over users or days.

Positions in curves are percentages of a drawing from its left or its top edge, as in `experiments.stats.charts`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from experiments.models import Experiment, Status
from experiments.planner.history import CurrentTotals, variant_shares
from experiments.stats.charts import Scale, Tick
from experiments.stats.planning import Baseline, Demands, Shares, detectable

DAYS_AHEAD = 28
_DAY = timedelta(days=1)

Users = Mapping[str, float]
"""Numbers of users by variant key."""


@dataclass(frozen=True, slots=True)
class DetectableDay:
    """The smallest rise, as a share of the baseline, that the users until the end of a day can show.

    It is for the treatment with the fewest users, and None if there are too few users. `users` were exposed by then;
    `mature_users` are those whose window is over, who alone count. `is_forecast` marks days in the future.
    """

    day: date
    users: int
    mature_users: int
    is_forecast: bool
    fixed_horizon: float | None
    always_valid: float | None


def detectable_by_day(
    current: CurrentTotals,
    baseline: Baseline,
    demands: Demands,
    now: datetime,
    users_per_day: float | None,
    *,
    maturity_days: int = 0,
    planned_size: int | None = None,
) -> list[DetectableDay]:
    """Return each day since the first exposure and, for a running experiment, the next four weeks.

    Users count from `maturity_days` days after their exposure. `planned_size` are the planned users of all variants.
    """
    past = _until_each_day(current, now)
    days = [*past, *_expected(current.experiment, past, users_per_day)]
    mature: list[Users] = [{}] * min(maturity_days, len(days)) + [users for _, users in days]
    return [
        _detectable(
            current.experiment, day, users, counted, baseline, demands, planned_size, is_forecast=index >= len(past)
        )
        for index, ((day, users), counted) in enumerate(zip(days, mature, strict=False))
    ]


def _expected(
    experiment: Experiment, past: Sequence[tuple[date, Users]], users_per_day: float | None
) -> Iterator[tuple[date, Users]]:
    """Yield the users that a running experiment will have at the end of each coming day."""
    if not past or experiment.status != Status.RUNNING or users_per_day is None:
        return
    last, users = past[-1]
    shares = variant_shares(experiment)
    for ahead in range(1, DAYS_AHEAD + 1):
        more = {key: users_per_day * ahead * float(share) for key, share in shares.items()}
        expected = {key: users.get(key, 0) + more.get(key, 0) for key in experiment.variant_keys}
        yield last + ahead * _DAY, expected


def _until_each_day(current: CurrentTotals, now: datetime) -> Sequence[tuple[date, Users]]:
    """Return the users exposed until the end of each day since the first exposure.

    The last day is today for a running experiment, and otherwise that of the last exposure.
    """
    daily = current.exposed
    exposed = sorted({day for of_variant in daily.values() for day in of_variant})
    if not exposed:
        return []
    is_running = current.experiment.status == Status.RUNNING
    end = max(exposed[-1], now.astimezone(UTC).date()) if is_running else exposed[-1]
    users: Counter[str] = Counter()
    until_each_day = []
    for day in _days(exposed[0], end):
        users.update({key: of_variant[day].users for key, of_variant in daily.items() if day in of_variant})
        until_each_day.append((day, dict(users)))
    return until_each_day


def _days(first: date, last: date) -> Iterator[date]:
    return (first + number * _DAY for number in range((last - first).days + 1))


def _detectable(
    experiment: Experiment,
    day: date,
    users: Users,
    mature: Users,
    baseline: Baseline,
    demands: Demands,
    planned_size: int | None,
    *,
    is_forecast: bool,
) -> DetectableDay:
    control, *others = experiment.variant_keys
    shares = variant_shares(experiment)
    fewest = min((key for key in others if key in shares), key=lambda key: mature.get(key, 0), default=control)
    planned = None if planned_size is None else planned_size * float(shares.get(control, 0) + shares.get(fewest, 0))
    of_treatment = 0 if fewest == control else mature.get(fewest, 0)
    smallest = detectable(baseline, mature.get(control, 0), of_treatment, demands, planned)
    return DetectableDay(
        day,
        round(sum(users.values())),
        round(sum(mature.values())),
        is_forecast,
        *(_share(rise, baseline) for rise in (smallest.fixed_horizon, smallest.always_valid)),
    )


def _share(rise: float | None, baseline: Baseline) -> float | None:
    return None if rise is None else rise / abs(baseline.mean)


_TIMES_THE_EFFECT = 3.0
_POINTS = 100
_BEYOND = 1.4


@dataclass(frozen=True, slots=True)
class Point:
    """The smallest effect that each test can find, as a share of the baseline; None if there is none."""

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


def points_over_users(baseline: Baseline, demands: Demands, shares: Shares, most: int) -> list[Point]:
    """Return points from few users of all variants at the left edge to `most` at the right edge.

    If the boundary follows from the plan, each point is a plan for so many users.
    """
    points = []
    for step in range(1, _POINTS + 1):
        users = most * step / _POINTS
        able = detectable(baseline, users * shares.control, users * shares.treatment, demands, users * shares.both)
        effects = (
            difference and difference / abs(baseline.mean) for difference in (able.fixed_horizon, able.always_valid)
        )
        points.append(Point(100 * step / _POINTS, *effects))
    return points


def users_shown(planned: int) -> int:
    """Return the users at the right edge of a curve: somewhat more than planned."""
    return round(_BEYOND * planned)


def draw(points: Sequence[Point], effect: float, label: Callable[[float], str]) -> Curve:
    """Draw the part of the curve up to three times the effect to find. `label` formats the numbers at the side."""
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
    return round(100 - scale.position_of(value), 2)
