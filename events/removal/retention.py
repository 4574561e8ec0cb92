"""Purging old events in short transactions, and never one that something still computes its numbers
from.
"""

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
from events.removal.batches import Removed, discount, remove_oldest, several

asking_for_holds = Signal()
"""Sent with `environment`; whoever still needs events of it answers with Holds."""

LOCK = "purge events"


@dataclass(frozen=True, slots=True)
class Hold:
    """Events at or after a moment are needed, and by whom, such as `experiment checkout-button`."""

    since: datetime
    by: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What a purge of one environment deletes: the events before `until`, which is `before` unless
    something holds.
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
        """What stays although it is old enough, as sentences."""
        everything = count_before(self.environment, self.before)
        held = ((hold, everything - count_before(self.environment, hold.since)) for hold in self.holds)
        return [
            f"{hold.by[0].upper()}{hold.by[1:]} keeps {several(number, 'older event')}, "
            f"from {format_timestamp(hold.since)} on."
            for hold, number in held
        ]


def plan_purge(environment: Environment, before: datetime) -> Plan:
    """Plan to delete what happened before a moment, and find what forbids it."""
    answers: Iterable[tuple[object, Any]] = asking_for_holds.send(sender=Event, environment=environment)
    holds = [hold for _, found in answers for hold in found if hold.since < before]
    return Plan(environment, before, sorted(holds, key=lambda hold: (hold.since, hold.by)))


def purge(plan: Plan, on_progress: Callable[[int], object] = lambda _: None) -> int:
    """Delete what was planned, in many short transactions, and return how many events it was.

    What is done stays done when it is interrupted. `on_progress` hears of each transaction.
    Vacuuming is left to the database, which does it as ever: no transaction here is long enough to
    stand in its way.
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
            discount(removed.counted)
        return removed


def count_before(environment: Environment, moment: datetime) -> int:
    """How many events happened before a moment. The counts know, but for its own quarter of an
    hour.
    """
    quarter = quarter_of(moment)
    counted = EventCount.objects.filter(environment=environment, quarter__lt=quarter).aggregate(sum=Sum("count"))
    begun = Event.objects.filter(environment=environment, timestamp__gte=start_of(quarter), timestamp__lt=moment)
    return (counted["sum"] or 0) + begun.count()


def purge_by_setting(now: datetime) -> str:
    """Delete what is older than EVENT_RETENTION_DAYS, in every environment, and say what was done
    (a periodic task).
    """
    days: int | None = settings.EVENT_RETENTION_DAYS
    if days is None:
        return "nothing to do: EVENT_RETENTION_DAYS is not set"
    with advisory_lock(LOCK) as is_ours:
        if not is_ours:
            return "skipped, a purge is under way"
        plans = [plan_purge(environment, now - timedelta(days=days)) for environment in Environment.objects.all()]
        return " ".join(sentence for plan in plans for sentence in (report(plan, purge(plan)), *plan.obstacles()))


def report(plan: Plan, number: int) -> str:
    return f"{plan.environment.key}: deleted {several(number, 'event')} from before {format_timestamp(plan.until)}."
