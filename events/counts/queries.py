"""The number of events of each name in each interval, by one query of the stored counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from django.db.models import Case, CharField, Exists, Expression, F, IntegerField, OuterRef, QuerySet, Sum, Value, When

from config.database.selects import rows_with
from config.models import Environment
from events.counts.intervals import Intervals, Run
from events.counts.storage import quarter_of
from events.models import EventCount

MAX_NAMES = 200
"""So many of the most frequent names are counted one by one, and all others together."""


@dataclass(frozen=True, slots=True)
class Occurrences:
    """Numbers of events: by name, the most frequent first, and the sum for all other names."""

    by_name: dict[str, int]
    others: int

    @property
    def total(self) -> int:
        return sum(self.by_name.values()) + self.others


@dataclass(frozen=True, slots=True)
class CountSeries:
    """The numbers in all intervals together, and in each of them."""

    overall: Occurrences
    series: Sequence[Occurrences]


def count_events(environment: Environment, intervals: Intervals, *, name: str | None = None) -> CountSeries:
    """Count the events of an environment, or those of one name, in each interval."""
    rows = EventCount.objects.filter(environment=environment)
    rows = rows.filter(quarter__gte=intervals.starts[0], quarter__lt=intervals.end)
    if name is not None:
        rows = rows.filter(name=name)
    by_interval: list[Counter[str | None]] = [Counter() for _ in intervals.starts]
    for index, listed_name, count in _sums(rows, intervals.runs):
        by_interval[index][listed_name] = int(count)  # PostgreSQL returns sums of large integers as decimals
    overall = sum(by_interval, Counter[str | None]())
    return CountSeries(_occurrences(overall), [_occurrences(counts) for counts in by_interval])


def missing_names(environment: Environment, names: Iterable[str]) -> set[str]:
    """Return the names of which the environment has no event, with one query."""
    sought = sorted({*names})
    if not sought:
        return set()
    # One search of the primary key for each name, however many rows a name has.
    counted = EventCount.objects.filter(environment=environment, name=OuterRef("name"), count__gt=0)
    return {*rows_with(EventCount, "name", sought).exclude(Exists(counted)).values_list("name", flat=True)}


def frequent_names(environment: Environment, since: datetime) -> list[str]:
    """Return the names of the most frequent events since then, in alphabetical order."""
    rows = EventCount.objects.filter(environment=environment, quarter__gte=quarter_of(since))
    sums = rows.values("name").annotate(sum=Sum("count")).filter(sum__gt=0).order_by("-sum", "name")
    return sorted(sums.values_list("name", flat=True)[:MAX_NAMES])


def _sums(rows: QuerySet[EventCount], runs: Sequence[Run]) -> QuerySet[EventCount, tuple[Any, ...]]:
    """Sum by index of the interval and by name, which is null unless it is among the most frequent.

    It is one statement, so that all sums are of the same state.
    """
    frequent = rows.values("name").annotate(sum=Sum("count")).order_by("-sum", "name").values("name")[:MAX_NAMES]
    listed_name = Case(When(name__in=frequent, then=F("name")), output_field=CharField())
    sums = (
        rows.annotate(index=_index(runs), listed_name=listed_name)
        .values("index", "listed_name")
        .annotate(sum=Sum("count"))
    )
    return sums.filter(sum__gt=0).values_list("index", "listed_name", "sum").order_by()


def _index(runs: Sequence[Run]) -> Expression:
    *but_last, last = [Value(run.index) + (F("quarter") - run.start) / run.length for run in runs]
    whens = [
        When(quarter__lt=following.start, then=index)
        for (_, following), index in zip(pairwise(runs), but_last, strict=True)
    ]
    return Case(*whens, default=last, output_field=IntegerField())


def _occurrences(counts: Counter[str | None]) -> Occurrences:
    """Names with the same count are in alphabetical order."""
    named = ((name, count) for name, count in counts.items() if name is not None)
    return Occurrences(dict(sorted(named, key=lambda item: (-item[1], item[0]))), counts[None])
