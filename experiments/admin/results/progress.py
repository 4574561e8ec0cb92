"""How far an experiment is on its plan: its shortest run, and its planned size."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from experiments.admin.words import describe_moment
from experiments.results.types import MetricFigures, Results
from experiments.stats.numbers import format_count
from experiments.stats.plans import split_size
from experiments.stats.types import Weight

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Progress:
    """One part of the plan: what was planned, how far it is in words, and its share in percent."""

    name: str
    words: str
    percent: float

    @property
    def is_done(self) -> bool:
        return self.percent >= 100


def build_progress(results: Results) -> Iterator[Progress]:
    """Yield the shortest run until it is over, and the planned size, where they were planned."""
    days = (results.experiment.registration or {}).get("minimumDays", 0)
    if days and results.experiment.stopped_at is None and results.plan.remaining > timedelta(0):
        yield _shortest_run(days, results.plan.remaining)
    primary = results.primary_metric
    if results.plan.size and primary:
        is_fixed = results.plan.analysis == "fixed"
        yield _one_reading(results, primary) if is_fixed else _planned_size(results, primary)


def days_left(results: Results) -> int | None:
    """Return how many days a running experiment needs for its plan at its pace so far, or None if nobody can tell."""
    started_at, size = results.experiment.started_at, results.plan.size
    if started_at is None or (not size and not (results.experiment.registration or {}).get("minimumDays")):
        return None
    left = max(results.plan.remaining, timedelta(0))
    if size and (missing := size - results.planned_users) > 0:
        if not results.planned_users:
            return None
        left = max(left, (results.as_of - started_at) * (missing / results.planned_users))
    return math.ceil(left / _DAY)


def _shortest_run(days: int, remaining: timedelta) -> Progress:
    words = f"{format_count(math.ceil(remaining / _DAY), 'day')} left of {days}"
    return Progress("Shortest run", words, _percent(1 - remaining / (days * _DAY)))


def _planned_size(results: Results, primary: MetricFigures) -> Progress:
    size, counted = results.plan.size or 0, results.planned_users
    least = results.plan.minimum_effect
    effect = f"; smallest effect of interest: {100 * least:.4g}\N{NO-BREAK SPACE}%" if least else ""
    planned = format_count(size, results.user_of(primary.definition))
    return Progress("Planned size", f"{counted:,} of {planned}{effect}", _percent(counted / size))


def _one_reading(results: Results, primary: MetricFigures) -> Progress:
    """Return how far a fixed analysis is until its one reading, which waits for the slowest variant."""
    size = results.plan.size or 0
    if results.read_at is not None:
        words = f"on {describe_moment(results.read_at)}; later users do not count"
        if results.open_until is not None:
            words += f". Data from before that may still arrive until {describe_moment(results.open_until)}"
        return Progress("The one reading", words, 100.0)
    counted = {variant.key: variant.counted_users for variant in primary.variants}
    weights = results.plan.variants or [Weight(variant.key, variant.weight) for variant in results.variants]
    percent = _percent(min(counted[key] / users for key, users in split_size(size, weights).items()))
    planned = format_count(size, results.user_of(primary.definition))
    words = f"{math.floor(percent)} % of the way to {planned}, when every variant has its part"
    return Progress("Until the one reading", words, percent)


def _percent(share: float) -> float:
    return round(100 * min(1.0, max(0.0, share)), 2)
