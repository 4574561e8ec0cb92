"""Erasing a user from an environment: the events, and everything that was derived from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import OperationalError, connection, transaction
from django.dispatch import Signal

from config.database.group_commit import is_conflict
from config.errors import Detail, DetailCode, ErrorCode, ValidationFailed
from config.models import Environment
from config.slugs import NAME_LENGTH
from events.models import Event
from events.removal.batches import Counted, remove_oldest, subtract_counts

erasing_user = Signal()
"""Sent inside the transaction, with `environment` and `user_id`, before the events are deleted.

A receiver deletes its own data of the user and returns an Erased. The signal may be sent several
times.
"""

_MOST_ROUNDS = 10


@dataclass(frozen=True, slots=True)
class ChangedExperiment:
    """An experiment whose results changed."""

    id: UUID
    key: str
    status: str


@dataclass(frozen=True, slots=True)
class Erased:
    """The numbers of deleted events and exposures, and the changed experiments in the order of
    their keys.
    """

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

    Events that arrive meanwhile may be committed between two statements, so that only the second
    one sees them. So the deletion repeats until no event is left, a limited number of times. A user
    who never pauses is erased up to some time during the call. If PostgreSQL aborts the transaction
    because of a conflict, it is tried once more.
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
    erased, counted = Erased(), Counted()
    with transaction.atomic():
        for _ in range(_MOST_ROUNDS):
            erased += _notify_receivers(user_id, environment)
            if not (removed := _remove_events(user_id, environment)):
                break
            counted += removed
        subtract_counts(counted)
    return erased + Erased(events=counted.total())


def _notify_receivers(user_id: str, environment: Environment) -> Erased:
    answers: Iterable[tuple[object, Any]] = erasing_user.send(sender=Event, environment=environment, user_id=user_id)
    return sum((answer for _, answer in answers), Erased())


def _remove_events(user_id: str, environment: Environment) -> Counted:
    events = Event.objects.filter(environment=environment, user_id=user_id)
    counted, since = Counted(), None
    while removed := remove_oldest(events, since=since):
        counted += removed.counted
        since = removed.newest
    return counted


def _check_user_id(text: str) -> list[Detail]:
    if not text:
        return [Detail("userId", DetailCode.OUT_OF_RANGE, "Must not be empty.")]
    if len(text) > NAME_LENGTH:
        return [Detail("userId", DetailCode.TOO_LONG, f"Must be at most {NAME_LENGTH} characters.")]
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        return [Detail("userId", DetailCode.INVALID_VALUE, "Must be UTF-8 without the character U+0000.")]
    return []
