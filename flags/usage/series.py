"""Read the stored counts of a flag by hour or day, and the hour of its last evaluation."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property

from django.db.models import Max, QuerySet, Sum
from django.db.models.functions import TruncDay

from config.models import Environment
from flags.models import Flag, Usage, hour_of


class Interval(StrEnum):
    HOUR = "hour"
    DAY = "day"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A variant, `on` or `off`, with its number of evaluations. `share` is from 0 to 1."""

    key: str
    count: int
    share: float


@dataclass(frozen=True)
class UsageSeries:
    """The usage of a flag in one environment. `series` has counts by start of the interval and outcome."""

    series: Mapping[datetime, Mapping[str, int]]
    last_hour: datetime | None

    @cached_property
    def outcomes(self) -> list[Outcome]:
        """The outcomes, the most frequent first."""
        counts: dict[str, int] = {}
        for by_outcome in self.series.values():
            for outcome, count in by_outcome.items():
                counts[outcome] = counts.get(outcome, 0) + count
        total = sum(counts.values())
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return [Outcome(key, count, count / total) for key, count in ordered]

    @cached_property
    def total(self) -> int:
        return sum(outcome.count for outcome in self.outcomes)


def read_usage(
    flag: Flag, environment: Environment, *, start: datetime, end: datetime, interval: Interval = Interval.HOUR
) -> UsageSeries:
    """Return the usage from the hour of `start` to the hour of `end`, inclusive.

    Counts of an earlier flag with the same key are left out.
    """
    rows = Usage.objects.filter(environment=environment, flag_key=flag.key)
    rows = rows.filter(hour__gte=max(hour_of(start), hour_of(flag.created_at)), hour__lte=end)
    series: dict[datetime, dict[str, int]] = {}
    for start_of_interval, outcome, count in _by_interval(rows, interval):
        series.setdefault(start_of_interval, {})[outcome] = count
    return UsageSeries(series, last_hour_of(flag, environment))


def _by_interval(rows: QuerySet[Usage], interval: Interval) -> QuerySet[Usage, tuple[datetime, str, int]]:
    if interval is Interval.HOUR:
        return rows.order_by("hour", "outcome").values_list("hour", "outcome", "count")
    days = rows.annotate(day=TruncDay("hour", tzinfo=UTC)).values("day", "outcome").annotate(total=Sum("count"))
    return days.order_by("day", "outcome").values_list("day", "outcome", "total")


def count_evaluations(keys: Collection[str], environment: Environment, *, start: datetime) -> dict[str, int]:
    """Return how often flags were evaluated since the hour of `start`, by key. It takes one query.

    Flags without evaluations are left out.
    """
    rows = Usage.objects.filter(environment=environment, flag_key__in=keys, hour__gte=hour_of(start))
    return dict(rows.order_by().values_list("flag_key").annotate(total=Sum("count")))


def last_hour_of(flag: Flag, environment: Environment) -> datetime | None:
    """Return the hour of the flag's last evaluation, or None if that is more than 90 days ago."""
    uses = Usage.objects.filter(environment=environment, flag_key=flag.key, hour__gte=hour_of(flag.created_at))
    last: datetime | None = uses.aggregate(last=Max("hour"))["last"]
    return last
