"""The smallest effect that an experiment can find on each day, with the users so far and those expected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from experiments.models import Experiment, Status
from experiments.planner.current_totals import CurrentTotals, variant_shares
from experiments.stats.planning import Baseline, Demands, detectable

DAYS_AHEAD = 28
_DAY = timedelta(days=1)

Users = Mapping[str, float]
"""Numbers of users by variant key."""


@dataclass(frozen=True, slots=True)
class DetectableDay:
    """The smallest rise, as a share of the baseline, that is found with the users until the end of a day.

    It is for the treatment with the fewest users, and None where there are too few users. `users` are
    all users exposed by then, and `mature_users` those whose windows are over, who alone count.
    `is_forecast` says that the day lies in the future.
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
    at: datetime,
    users_per_day: float | None,
    *,
    maturity_days: int = 0,
) -> list[DetectableDay]:
    """Return every day since the first exposure and, for a running experiment, the next four weeks.

    Users count from `maturity_days` days after their exposure on.
    """
    past = _until_each_day(current, at)
    days = [*past, *_expected(current.experiment, past, users_per_day)]
    mature: list[Users] = [{}] * min(maturity_days, len(days)) + [users for _, users in days]
    return [
        _detectable(current.experiment, day, users, counted, baseline, demands, is_forecast=index >= len(past))
        for index, ((day, users), counted) in enumerate(zip(days, mature, strict=False))
    ]


def _expected(
    experiment: Experiment, past: Sequence[tuple[date, Users]], users_per_day: float | None
) -> Iterator[tuple[date, Users]]:
    """Yield the users that a running experiment will have at the end of each of the next days."""
    if not past or experiment.status != Status.RUNNING or users_per_day is None:
        return
    last, users = past[-1]
    shares = variant_shares(experiment)
    for ahead in range(1, DAYS_AHEAD + 1):
        more = {key: users_per_day * ahead * float(share) for key, share in shares.items()}
        expected = {key: users.get(key, 0) + more.get(key, 0) for key in experiment.variant_keys}
        yield last + ahead * _DAY, expected


def _until_each_day(current: CurrentTotals, at: datetime) -> Sequence[tuple[date, Users]]:
    """Return the users exposed until the end of each day since the first exposure.

    The last day is today for a running experiment, otherwise the day of the last exposure.
    """
    daily = current.exposed
    exposed = sorted({day for of_variant in daily.values() for day in of_variant})
    if not exposed:
        return []
    is_running = current.experiment.status == Status.RUNNING
    end = max(exposed[-1], at.astimezone(UTC).date()) if is_running else exposed[-1]
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
    *,
    is_forecast: bool,
) -> DetectableDay:
    control, *others = experiment.variants
    fewest = min((mature.get(treatment["key"], 0) for treatment in others if treatment["weight"]), default=0)
    smallest = detectable(baseline, mature.get(control["key"], 0), fewest, demands)
    return DetectableDay(
        day,
        round(sum(users.values())),
        round(sum(mature.values())),
        is_forecast,
        *(_share(rise, baseline) for rise in (smallest.fixed_horizon, smallest.always_valid)),
    )


def _share(rise: float | None, baseline: Baseline) -> float | None:
    return None if rise is None else rise / abs(baseline.mean)
