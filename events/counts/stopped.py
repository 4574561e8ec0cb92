"""Which events were received steadily and have stopped, by the stored counts alone.

Counts are kept by quarter of an hour, so all times here are whole quarters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from django.db.models import OuterRef, Subquery, Sum

from config.database.expressions import ListOf
from config.database.selects import rows_of, rows_with, select_of
from config.models import Environment
from events.counts.storage import QUARTER, quarter_of, start_of
from events.models import EventCount

WATCHED = timedelta(days=7)
"""How long before its last event the pauses of an event are measured."""
PATIENCE = 3
"""How many of its own longest pauses an event may be silent."""
MIN_SILENCE = timedelta(hours=2)

HOURS_WATCHED = WATCHED // timedelta(hours=1)
_AN_HOUR = timedelta(hours=1) // QUARTER
_MAX_UNSTEADY_HOURS = HOURS_WATCHED // 2


@dataclass(frozen=True, slots=True)
class Stopped:
    """An event that has stopped: the time since which there was none, and how it was received before.

    `hours` of the `HOURS_WATCHED` up to its end had such events, and `longest_pause` was the longest time between
    two quarters with some.
    """

    since: datetime
    hours: int
    longest_pause: timedelta


def stopped_events(environment: Environment, names: Iterable[str], now: datetime) -> dict[str, Stopped]:
    """Return which of the names were received steadily and have stopped, with one query.

    An event was received steadily if most hours of the seven days up to its last one had some. It has stopped if it
    has been silent for more than `MIN_SILENCE`, and for more than three times its longest pause in these days.
    """
    sought = sorted({*names})
    if not sought:
        return {}
    current = quarter_of(now)
    found = {}
    for name, last, quarters in _silent_events(environment, sought, current):
        hours = {(last - quarter) // _AN_HOUR for quarter in quarters}
        longest_pause = max((after - before for before, after in pairwise(sorted(quarters))), default=0)
        if len(hours) > _MAX_UNSTEADY_HOURS and current - last > PATIENCE * longest_pause:
            found[name] = Stopped(start_of(last + 1), len(hours), longest_pause * QUARTER)
    return found


def _silent_events(
    environment: Environment, names: Sequence[str], current: int
) -> Iterable[tuple[str, int, list[int]]]:
    """Return each event that is silent: its name, its last quarter, and all quarters with some in the days before.

    The last quarter of each name is one search of the primary key. Only for names that are silent are the quarters
    before it read. A quarter counts if its stripes have a sum above 0: a stripe alone may be negative after an erasure.
    """
    of_name = EventCount.objects.filter(environment=environment, name=OuterRef("name"))
    last = of_name.filter(quarter__lte=current, count__gt=0).order_by("-quarter").values("quarter")[:1]
    latest = rows_with(EventCount, "name", names).values("name").annotate(quarter=Subquery(last))
    silent = rows_of(EventCount, select_of(latest), is_fenced=True).filter(quarter__lt=current - MIN_SILENCE // QUARTER)
    watched = of_name.filter(quarter__gt=OuterRef("quarter") - WATCHED // QUARTER, quarter__lte=OuterRef("quarter"))
    quarters = watched.values("quarter").annotate(sum=Sum("count")).filter(sum__gt=0).values("quarter")
    return silent.values_list("name", "quarter", ListOf(quarters))
