"""What the counts of a flag's evaluations tell: how many of each outcome, hour by hour or day by day, and the last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property

from django.db.models import Max, QuerySet, Sum
from django.db.models.functions import TruncDay

from config.models import Environment
from flags.models import Flag, Usage, hour_of


class Interval(StrEnum):
    """How long the parts of a series are."""

    HOUR = "hour"
    DAY = "day"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A variant, or `on` or `off`, and how often it was what a flag was evaluated to; `share` is from 0 to 1."""

    key: str
    count: int
    share: float


@dataclass(frozen=True)
class Figures:
    """The usage of a flag in one environment. `series` has the counts by outcome of each interval that has any."""

    series: Mapping[datetime, Mapping[str, int]]
    last_hour: datetime | None

    @cached_property
    def outcomes(self) -> list[Outcome]:
        """The most frequent first."""
        counts: dict[str, int] = {}
        for of_interval in self.series.values():
            for outcome, count in of_interval.items():
                counts[outcome] = counts.get(outcome, 0) + count
        total = sum(counts.values())
        ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
        return [Outcome(key, count, count / total) for key, count in ordered]

    @cached_property
    def total(self) -> int:
        return sum(outcome.count for outcome in self.outcomes)


def usage_of(
    flag: Flag, environment: Environment, *, start: datetime, end: datetime, interval: Interval = Interval.HOUR
) -> Figures:
    """The hours from that of `start` to that of `end`, without those of an earlier flag of the same key."""
    rows = Usage.objects.filter(environment=environment, flag_key=flag.key)
    rows = rows.filter(hour__gte=max(hour_of(start), hour_of(flag.created_at)), hour__lte=end)
    series: dict[datetime, dict[str, int]] = {}
    for at, outcome, count in _by_interval(rows, interval):
        series.setdefault(at, {})[outcome] = count
    return Figures(series, last_hour_of(flag, environment))


def _by_interval(rows: QuerySet[Usage], interval: Interval) -> QuerySet[Usage, tuple[datetime, str, int]]:
    if interval is Interval.HOUR:
        return rows.order_by("hour", "outcome").values_list("hour", "outcome", "count")
    days = rows.annotate(day=TruncDay("hour", tzinfo=UTC)).values("day", "outcome").annotate(total=Sum("count"))
    return days.order_by("day", "outcome").values_list("day", "outcome", "total")


def last_hour_of(flag: Flag, environment: Environment) -> datetime | None:
    """The start of the hour in which the flag was last evaluated, if that was in the last 90 days."""
    uses = Usage.objects.filter(environment=environment, flag_key=flag.key, hour__gte=hour_of(flag.created_at))
    last: datetime | None = uses.aggregate(last=Max("hour"))["last"]
    return last
