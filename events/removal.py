"""Deleting events, from the table and from the counts: erasing a user, and purging old events.

Events are deleted the oldest first, a limited number at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import OperationalError, connection, transaction
from django.db.models import Sum
from django.dispatch import Signal

from config.database.engines import is_distributed
from config.database.group_commit import is_conflict
from config.database.locks import advisory_lock
from config.database.selects import delete_returning
from config.database.transactions import commit_in_two_phases
from config.errors import Detail, DetailCode, ErrorCode, ValidationFailed
from config.models import Environment
from config.slugs import NAME_LENGTH
from config.timestamps import format_timestamp
from events.counts import storage
from events.expressions import HasKey
from events.models import Event, EventCount, EventQuerySet

erasing_user = Signal()
"""Sent inside the transaction, with `environment` and `user_id`, before the events are deleted.

A receiver deletes its own data of the user and returns an Erased. The signal may be sent several times.
"""

asking_for_holds = Signal()
"""Sent with `environment`. A receiver that still needs events of it returns Holds."""

BATCH_SIZE = 5000
PURGE_LOCK = "purge events"
_RETURNED = ("environment", "name", "timestamp")
"""What is returned of deleted events, to count them."""
_MAX_ROUNDS = 10


@dataclass(frozen=True, slots=True)
class DeletedEvents:
    """How many events were deleted, by environment, name and quarter, and the timestamp of the newest of them."""

    counts: Counter[storage.CountKey]
    newest: datetime


def delete_oldest(events: EventQuerySet, *, since: datetime | None = None) -> DeletedEvents | None:
    """Delete the oldest of these events in the caller's transaction, at most BATCH_SIZE. Return None if there are none.

    `since` is the `newest` of the previous call, so that the search skips dead rows. Every deletion locks rows in the
    order of time, so that two of them wait for each other without a deadlock.
    """
    rest = events if since is None else events.filter(timestamp__gte=since)
    oldest = rest.order_by("timestamp", "pk")
    deleted = _delete_by_key(oldest) if is_distributed() else delete_returning(oldest[:BATCH_SIZE], *_RETURNED)
    if not deleted:
        return None
    counts = Counter((environment, name, storage.quarter_of(timestamp)) for environment, name, timestamp in deleted)
    return DeletedEvents(counts, max(timestamp for *_, timestamp in deleted))


def _delete_by_key(oldest: EventQuerySet) -> list[tuple[Any, ...]]:
    """Delete by ids and users, because the places of rows on several servers say nothing.

    This takes two statements, because Citus locks no rows of a query on several servers. If another transaction deletes
    all of the chosen rows in between, others are chosen.
    """
    while keys := [*oldest.values_list("pk", "user_id")[:BATCH_SIZE]]:
        if deleted := delete_returning(Event.objects.filter(HasKey(keys)), *_RETURNED):
            return deleted
    return []


def subtract_counts(counts: storage.Counts) -> None:
    """Subtract deleted events from the counts. Call it last in the transaction."""
    commit_in_two_phases()
    storage.add_counts({key: -count for key, count in counts.items()})


def format_count(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1,000 events`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class ChangedExperiment:
    """An experiment whose results changed."""

    id: UUID
    key: str
    status: str


@dataclass(frozen=True, slots=True)
class Erased:
    """The numbers of deleted events and exposures, and the changed experiments in the order of their keys."""

    events: int = 0
    exposures: int = 0
    experiments: Sequence[ChangedExperiment] = ()

    def __add__(self, other: Erased) -> Erased:
        by_key = {experiment.key: experiment for experiment in (*self.experiments, *other.experiments)}
        return Erased(
            self.events + other.events,
            self.exposures + other.exposures,
            tuple(by_key[key] for key in sorted(by_key)),
        )


def erase_user(user_id: str, environment: Environment) -> Erased:
    """Delete all events of the user, and what receivers derived from them, in one transaction.

    Events that arrive meanwhile may be committed between two statements, so that only the second one sees them. So the
    deletion repeats until no event is left, a limited number of times. A user who never pauses is erased up to some
    time during the call. If PostgreSQL aborts the transaction because of a conflict, it is tried once more.
    """
    if details := _check_user_id(user_id):
        raise ValidationFailed(details, code=ErrorCode.INVALID_PARAMETER)
    try:
        return _erase(user_id, environment)
    except OperationalError as error:
        if connection.in_atomic_block or not is_conflict(error):
            raise
    return _erase(user_id, environment)


def _erase(user_id: str, environment: Environment) -> Erased:
    erased, counts = Erased(), Counter[storage.CountKey]()
    with transaction.atomic():
        for _ in range(_MAX_ROUNDS):
            erased += _notify_receivers(user_id, environment)
            if not (deleted := _delete_events(user_id, environment)):
                break
            counts += deleted
        subtract_counts(counts)
    return erased + Erased(events=counts.total())


def _notify_receivers(user_id: str, environment: Environment) -> Erased:
    answers: Iterable[tuple[object, Any]] = erasing_user.send(sender=Event, environment=environment, user_id=user_id)
    return sum((answer for _, answer in answers), Erased())


def _delete_events(user_id: str, environment: Environment) -> Counter[storage.CountKey]:
    events = Event.objects.filter(environment=environment, user_id=user_id)
    counts, since = Counter[storage.CountKey](), None
    while deleted := delete_oldest(events, since=since):
        counts += deleted.counts
        since = deleted.newest
    return counts


def _check_user_id(user_id: str) -> list[Detail]:
    if not user_id:
        return [Detail("userId", DetailCode.OUT_OF_RANGE, "Must not be empty.")]
    if len(user_id) > NAME_LENGTH:
        return [Detail("userId", DetailCode.TOO_LONG, f"Must be at most {NAME_LENGTH} characters.")]
    if "\0" in user_id or any("\ud800" <= character <= "\udfff" for character in user_id):
        return [Detail("userId", DetailCode.INVALID_VALUE, "Must be UTF-8 without the character U+0000.")]
    return []


@dataclass(frozen=True, slots=True)
class Hold:
    """Something, such as `experiment checkout-button`, needs the events at or after a time."""

    since: datetime
    by: str


@dataclass(frozen=True, slots=True)
class Plan:
    """A purge of one environment. It deletes events before `until`, which is `before` unless a hold is earlier."""

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

    An interruption loses nothing that was deleted. `on_progress` gets the number of each transaction. The database
    vacuums as usual, because no transaction is long enough to hold it back.
    """
    number, since = 0, None
    while deleted := _purge_some(plan, since):
        since = deleted.newest
        number += deleted.counts.total()
        on_progress(deleted.counts.total())
    return number


def _purge_some(plan: Plan, since: datetime | None) -> DeletedEvents | None:
    with transaction.atomic():
        deleted = delete_oldest(plan.events, since=since)
        if deleted:
            subtract_counts(deleted.counts)
        return deleted


def count_before(environment: Environment, until: datetime) -> int:
    """Count the events before a time, from the stored counts except for its own quarter of an hour."""
    quarter = storage.quarter_of(until)
    whole = EventCount.objects.filter(environment=environment, quarter__lt=quarter).aggregate(sum=Sum("count"))
    begun = Event.objects.filter(environment=environment, timestamp__gte=storage.start_of(quarter), timestamp__lt=until)
    return (whole["sum"] or 0) + begun.count()


def purge_by_setting(now: datetime) -> str:
    """Delete events older than EVENT_RETENTION_DAYS, in every environment, and return a report (a periodic task)."""
    days: int | None = settings.EVENT_RETENTION_DAYS
    if days is None:
        return "nothing to do: EVENT_RETENTION_DAYS is not set"
    with advisory_lock(PURGE_LOCK) as is_ours:
        if not is_ours:
            return "skipped, because another purge is running"
        plans = [plan_purge(environment, now - timedelta(days=days)) for environment in Environment.objects.all()]
        return " ".join(sentence for plan in plans for sentence in (report(plan, purge(plan)), *plan.obstacles()))


def report(plan: Plan, number: int, verb: str = "deleted") -> str:
    until = format_timestamp(plan.until)
    return f"{plan.environment.key}: {verb} {format_count(number, 'event')} from before {until}."
