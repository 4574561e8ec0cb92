"""The counts of events as they are stored, and as the table has them."""

from __future__ import annotations

from collections import Counter

from events.counts.storage import quarter_of
from events.models import Event, EventCount


def stored_counts() -> Counter[tuple[int, str, int]]:
    counted = Counter[tuple[int, str, int]]()
    for row in EventCount.objects.all():
        counted[row.environment_id, row.name, row.quarter] += row.count
    return Counter({which: number for which, number in counted.items() if number})


def real_counts() -> Counter[tuple[int, str, int]]:
    rows = Event.objects.values_list("environment_id", "name", "timestamp")
    return Counter((environment_id, name, quarter_of(at)) for environment_id, name, at in rows)
