"""Purging old events in short transactions, except those that results are still computed from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Sum
from django.dispatch import Signal

from config.database.locks import advisory_lock
from config.models import Environment
from config.timestamps import format_timestamp
from events.counts.storage import quarter_of, start_of
from events.models import Event, EventCount, EventQuerySet
from events.removal.batches import Removed, format_count, remove_oldest, subtract_counts

asking_for_holds = Signal()
"""Sent with `environment`. A receiver that still needs events of it returns Holds."""

LOCK = "purge events"


@dataclass(frozen=True, slots=True)
class Hold:
    """Events at or after a time are needed by something, such as `experiment checkout-button`."""

    since: datetime
    by: str


@dataclass(frozen=True, slots=True)
class Plan:
    """A purge of one environment. It deletes events before `until`, which is `before` unless a hold
    is earlier.
    """

    environment: Environment
    before: datetime
    holds: Sequence[Hold]

    @property
    def until(self) -> datetime:
        return min([self.before, *(hold.since for hold in self.holds)])

    @property
    def events(self) -> EventQuerySet:
        return Event.objects.filter(environment=self.environment, timestamp__lt=self.until)

    def count(self) -> int:
        return count_before(self.environment, self.until)

    def obstacles(self) -> list[str]:
        """Return a sentence for each hold that keeps events before `before`."""
        everything = count_before(self.environment, self.before)
        held = ((hold, everything - count_before(self.environment, hold.since)) for hold in self.holds)
        return [
            f"{hold.by[0].upper()}{hold.by[1:]} keeps {format_count(number, 'older event')}, "
            f"from {format_timestamp(hold.since)} on."
            for hold, number in held
        ]


def plan_purge(environment: Environment, before: datetime) -> Plan:
    """Plan to delete the events before a time, except those that something holds."""
    answers: Iterable[tuple[object, Any]] = asking_for_holds.send(sender=Event, environment=environment)
    holds = [hold for _, answer in answers for hold in answer if hold.since < before]
    return Plan(environment, before, sorted(holds, key=lambda hold: (hold.since, hold.by)))


def purge(plan: Plan, on_progress: Callable[[int], object] = lambda _: None) -> int:
    """Delete the planned events in many short transactions, and return their number.

    An interruption loses nothing that was deleted. `on_progress` gets the number of each
    transaction. The database vacuums as usual, because no transaction is long enough to hold it
    back.
    """
    number, since = 0, None
    while removed := _purge_some(plan, since):
        since = removed.newest
        number += removed.counted.total()
        on_progress(removed.counted.total())
    return number


def _purge_some(plan: Plan, since: datetime | None) -> Removed | None:
    with transaction.atomic():
        removed = remove_oldest(plan.events, since=since)
        if removed:
            subtract_counts(removed.counted)
        return removed


def count_before(environment: Environment, moment: datetime) -> int:
    """Count the events before a time, from the stored counts except for its own quarter of an hour."""
    quarter = quarter_of(moment)
    counted = EventCount.objects.filter(environment=environment, quarter__lt=quarter).aggregate(sum=Sum("count"))
    begun = Event.objects.filter(environment=environment, timestamp__gte=start_of(quarter), timestamp__lt=moment)
    return (counted["sum"] or 0) + begun.count()


def purge_by_setting(now: datetime) -> str:
    """Delete events older than EVENT_RETENTION_DAYS, in every environment, and return a report (a
    periodic task).
    """
    days: int | None = settings.EVENT_RETENTION_DAYS
    if days is None:
        return "nothing to do: EVENT_RETENTION_DAYS is not set"
    with advisory_lock(LOCK) as is_ours:
        if not is_ours:
            return "skipped, because another purge is running"
        plans = [plan_purge(environment, now - timedelta(days=days)) for environment in Environment.objects.all()]
        return " ".join(sentence for plan in plans for sentence in (report(plan, purge(plan)), *plan.obstacles()))


def report(plan: Plan, number: int, verb: str = "deleted") -> str:
    until = format_timestamp(plan.until)
    return f"{plan.environment.key}: {verb} {format_count(number, 'event')} from before {until}."
