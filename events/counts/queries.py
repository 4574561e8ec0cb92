"""How many events of each name there were, interval by interval: one query of what `counts` keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from django.db.models import Case, CharField, Expression, F, IntegerField, QuerySet, Sum, Value, When

from config.models import Environment
from events.counts.intervals import Intervals, Run
from events.models import EventCount

MOST_NAMES = 200
"""The most frequent names are told one by one, all others together."""


@dataclass(frozen=True, slots=True)
class Occurrences:
    """How many events there were: by name, the most frequent first, and together of all names that
    are not told.
    """

    by_name: dict[str, int]
    others: int

    @property
    def total(self) -> int:
        return sum(self.by_name.values()) + self.others


@dataclass(frozen=True, slots=True)
class EventCounts:
    """In all the intervals together, and in each of them."""

    together: Occurrences
    series: Sequence[Occurrences]


def count_events(environment: Environment, intervals: Intervals, *, name: str | None = None) -> EventCounts:
    """The events of an environment, or those of one name, in each interval."""
    rows = EventCount.objects.filter(environment=environment)
    rows = rows.filter(quarter__gte=intervals.starts[0], quarter__lt=intervals.end)
    if name is not None:
        rows = rows.filter(name=name)
    counted: list[Counter[str | None]] = [Counter() for _ in intervals.starts]
    for index, told, count in _sums(rows, intervals.runs):
        counted[index][told] = int(count)  # PostgreSQL adds up large integers as decimals
    together = sum(counted, Counter[str | None]())
    return EventCounts(_occurrences(together), [_occurrences(each) for each in counted])


def _sums(rows: QuerySet[EventCount], runs: Sequence[Run]) -> QuerySet[EventCount, tuple[Any, ...]]:
    """By the index of an interval and the name, which is null where it is not among the most
    frequent.

    One statement, so that all of it is of one moment.
    """
    frequent = rows.values("name").annotate(sum=Sum("count")).order_by("-sum", "name").values("name")[:MOST_NAMES]
    told = Case(When(name__in=frequent, then=F("name")), output_field=CharField())
    sums = rows.annotate(index=_index(runs), told=told).values("index", "told").annotate(sum=Sum("count"))
    return sums.filter(sum__gt=0).values_list("index", "told", "sum").order_by()


def _index(runs: Sequence[Run]) -> Expression:
    *but_last, last = [Value(run.index) + (F("quarter") - run.start) / run.length for run in runs]
    whens = [
        When(quarter__lt=following.start, then=index)
        for (_, following), index in zip(pairwise(runs), but_last, strict=True)
    ]
    return Case(*whens, default=last, output_field=IntegerField())


def _occurrences(counts: Counter[str | None]) -> Occurrences:
    """The order of those of the same count is that of their names."""
    ordered = sorted(((name, count) for name, count in counts.items() if name is not None), key=_most_frequent_first)
    return Occurrences(dict(ordered), counts[None])


def _most_frequent_first(counted: tuple[str, int]) -> tuple[int, str]:
    name, count = counted
    return -count, name
