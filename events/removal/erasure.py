"""Erasing a user from an environment: the events, and all that was made of them."""

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
from events.removal.batches import Counted, discount, remove_oldest

erasing_user = Signal()
"""Sent inside the transaction, with `environment` and `user_id`, while the events are still there.

Whoever keeps something of the user deletes it and answers an Erased. It may be sent several times.
"""

_MOST_ROUNDS = 10


@dataclass(frozen=True, slots=True)
class ChangedExperiment:
    """An experiment whose numbers are others now."""

    id: UUID
    key: str
    status: str


@dataclass(frozen=True, slots=True)
class Erased:
    """What is gone: how many events and exposures. Experiments stand in the order of their keys."""

    events: int = 0
    exposures: int = 0
    experiments: Sequence[ChangedExperiment] = ()

    def __add__(self, other: Erased) -> Erased:
        by_key = {each.key: each for each in (*self.experiments, *other.experiments)}
        return Erased(
            self.events + other.events,
            self.exposures + other.exposures,
            tuple(by_key[key] for key in sorted(by_key)),
        )


def erase_user(user_id: str, environment: Environment) -> Erased:
    """Delete all events of the user, and what listeners made of them, in one transaction: all of it
    or nothing.

    What arrives meanwhile may be committed between two statements and be found by the second alone.
    So all of it is done again until there is no event left; a user who never pauses is erased as of
    some moment of it. Where PostgreSQL gives the transaction up in favour of another one, it is
    begun once more.
    """
    if wrong := _check_user_id(user_id):
        raise ValidationFailed(wrong, code=ErrorCode.INVALID_PARAMETER)
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
            erased += _ask_listeners(user_id, environment)
            if not (found := _remove_events(user_id, environment)):
                break
            counted += found
        discount(counted)
    return erased + Erased(events=counted.total())


def _ask_listeners(user_id: str, environment: Environment) -> Erased:
    answers: Iterable[tuple[object, Any]] = erasing_user.send(sender=Event, environment=environment, user_id=user_id)
    return sum((answer for _, answer in answers), Erased())


def _remove_events(user_id: str, environment: Environment) -> Counted:
    theirs = Event.objects.filter(environment=environment, user_id=user_id)
    counted, since = Counted(), None
    while removed := remove_oldest(theirs, since=since):
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
