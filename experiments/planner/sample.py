"""The values of a metric for a sample of users, from events, as if an experiment had begun weeks ago.

This is for plans only, where no experiment has measured the metric yet. Results are computed in
`experiments.aggregates`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from math import inf
from operator import itemgetter
from typing import Any

from django.db.models import Min
from django.db.models.functions import MD5

from config.models import Environment
from events.models import Event, EventQuerySet
from experiments.aggregates.caps import percentile_cap
from experiments.metrics.conditions import count_steps_passed, is_of
from experiments.metrics.definition import REVENUE, Definition, Quantity
from experiments.stats.types import Sums

PERIOD = timedelta(days=28)
MOST_USERS = 10_000
_CURRENCY = "currency"
_USERS_A_QUERY = 500

Row = tuple[str, str, datetime, Mapping[str, Any]]
"""The user id, name, timestamp and properties of an event."""

Happened = tuple[str, datetime, Mapping[str, Any]]
"""The same of one user's event."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample: `users` is the number of all users between `start` and `end`, and `sums` are of the sample."""

    start: datetime
    end: datetime
    users: int
    sums: Sums


def sample_events(definition: Definition, environment: Environment, at: datetime) -> Sample | None:
    """Measure up to 10,000 users, drawn by a hash of their ids, whose first event counts as exposure.

    The period has 28 days, or fewer if the events are younger. It ends early enough that the
    windows of all users have passed. The answer is None where there are no users.
    """
    span = definition.delay + (definition.window or timedelta(0))
    end = at - span
    since = Event.objects.filter(environment=environment, timestamp__gte=end - PERIOD, timestamp__lte=at)
    # Only columns of an index are used, so that the database reads the index alone.
    users = since.values("user_id").annotate(first=Min("timestamp")).filter(first__lte=end)
    drawn = dict(users.order_by(MD5("user_id"), "user_id").values_list("user_id", "first")[:MOST_USERS])
    if not drawn:
        return None
    # Counted in the same statement, all users would go through the coordinator of Citus.
    number = len(drawn) if len(drawn) < MOST_USERS else users.count()
    values = dict.fromkeys(drawn, (0.0, 0.0))
    for user_id, rows in groupby(_events_of(since, definition, list(drawn)), key=itemgetter(0)):
        values[user_id] = _measure(definition, drawn[user_id], rows)
    start = max(end - PERIOD, min(drawn.values()))
    return Sample(start, end, number, _sums(_capped(definition, list(values.values()))))


def _events_of(since: EventQuerySet, definition: Definition, user_ids: Sequence[str]) -> Iterator[Row]:
    """Yield the events that the metric reads, user by user."""
    columns = ("user_id", "name", "timestamp", "properties")
    for first in range(0, len(user_ids), _USERS_A_QUERY):
        chunk = since.filter(name__in=definition.events, user_id__in=user_ids[first : first + _USERS_A_QUERY])
        yield from chunk.order_by("user_id").values_list(*columns)  # for grouping


def _measure(definition: Definition, exposed_at: datetime, rows: Iterable[Row]) -> tuple[float, float]:
    """Return the metric's values for one user: y and d as in `Sums`."""
    begin = exposed_at + definition.delay
    end = begin + definition.window if definition.window else None
    counted = [
        (name, timestamp, properties)
        for _, name, timestamp, properties in rows
        if begin <= timestamp and (end is None or timestamp < end)
    ]
    if definition.type == "funnel":
        return float(count_steps_passed(definition.steps, counted) == len(definition.steps)), 0.0
    if definition.type == "distinct":
        return float(len({*_distinct(definition.quantity, counted)})), 0.0
    values = values_of(definition.quantity, counted)
    if definition.is_share:
        return float(bool(values)), 0.0
    if definition.type == "mean":
        return (sum(values) / len(values) if values else 0.0), 0.0
    return sum(values), sum(values_of(definition.denominator, counted)) if definition.denominator else 0.0


def _distinct(quantity: Quantity, counted: Iterable[Happened]) -> Iterator[str]:
    """Yield the values of a property as JSON, or the days in UTC without a property."""
    for name, timestamp, properties in counted:
        if is_of(quantity, name, properties):
            value = properties.get(quantity.property) if quantity.property else str(timestamp.astimezone(UTC).date())
            if isinstance(value, str | int | float):
                yield json.dumps(value)


def values_of(quantity: Quantity, counted: Iterable[Happened]) -> list[float]:
    """Return the number that each event adds to a quantity, for the events that add one."""
    of_quantity = (properties for name, _, properties in counted if is_of(quantity, name, properties))
    if not quantity.property:
        return [1.0 for _ in of_quantity]
    return [
        float(properties[quantity.property])
        for properties in of_quantity
        if _is_number(properties.get(quantity.property))
        and (quantity.property != REVENUE or _currency(properties) == quantity.currency)
    ]


def _currency(properties: Mapping[str, Any]) -> str:
    return str(properties.get(_CURRENCY, "")).upper()


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _capped(definition: Definition, values: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the values with the cap that results would have if the sample were all users."""
    cap = definition.cap_value
    if definition.cap_percentile is not None:
        from_above = sorted((y for y, _ in values if y), reverse=True)
        cap = percentile_cap(definition.cap_percentile, len(from_above), from_above.__getitem__)
    return [(min(y, inf if cap is None else cap), d) for y, d in values]


def _sums(values: Sequence[tuple[float, float]]) -> Sums:
    return Sums(
        n=len(values),
        positive=sum(y > 0 for y, _ in values),
        y=sum(y for y, _ in values),
        yy=sum(y * y for y, _ in values),
        d=sum(d for _, d in values),
        dd=sum(d * d for _, d in values),
        yd=sum(y * d for y, d in values),
    )
