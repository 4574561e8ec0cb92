"""Undoing a write that was made in the admin, for ten minutes: as a write of its own, and only as a whole.

The rooms that write a kind of object register how it goes back, or why it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from django.db import transaction

from config.change_log.writing import Actor, Writing, writing
from config.documents import Document, is_same
from config.errors import DomainError, ErrorCode, ValidationFailed
from config.models import Change, Source

UNDO_WITHIN = timedelta(minutes=10)
_MOST_NAMED = 5


class Undo(Protocol):
    """Put back what these changes of one write have changed, in the transaction of the log. Raises DomainError."""

    def __call__(self, log: Writing, changes: Sequence[Change]) -> None: ...


undos: dict[str, Undo] = {}
"""How objects of a kind go back. Kinds of one write must have the same function."""


@dataclass(frozen=True, slots=True)
class Way:
    """How a write goes back, or else why it does not, and what people do instead.

    `attempt` raises what `undo` raises, and leaves out what takes long. Whatever it writes is rolled back. `led_by` is
    the kind of the changes that the others of the write follow from, if there are such others. `lost` says what is
    lost all the same.
    """

    undo: Undo | None = None
    attempt: Undo | None = None
    led_by: str = ""
    lost: str = ""
    why_not: str = "This change cannot be undone."


steps: dict[str, Callable[[Sequence[Change]], Way]] = {}
"""For kinds with other changes than edits: how a write goes back that changed such an object, given all its changes."""


def write_of(revision: int) -> list[Change]:
    """Return all changes of the write that made this change, in their order; none if there is no such change."""
    change = Change.objects.filter(revision=revision).first()
    return [] if change is None else list(Change.objects.of_write(change))


def way_of(changes: Sequence[Change]) -> Way:
    """Return how a write goes back. Writes of the API and of commands do not."""
    if not changes or any(change.source != Source.ADMIN for change in changes):
        return Way()
    kinds = {change.kind for change in changes}
    for kind in sorted(kinds & steps.keys()):
        return steps[kind](changes)
    found = {undos.get(kind) for kind in kinds}
    return Way(found.pop() if len(found) == 1 else None)


def never(why_not: str) -> Callable[[Sequence[Change]], Way]:
    """Return what to register as steps of a kind that never goes back."""
    return lambda _changes: Way(why_not=why_not)


def is_recent(changes: Sequence[Change], now: datetime) -> bool:
    return all(now - change.at <= UNDO_WITHIN for change in changes)


def undo_write(revision: int, *, actor: Actor, at: datetime, is_attempt: bool = False) -> list[Change]:
    """Undo the write that made this change, and return its changes. An attempt may leave out what takes long.

    Raises DomainError if that is not possible, because it is too late, or because something has changed since.
    """
    with writing(actor=actor, at=at, reason=_reason(revision)) as log:
        changes = write_of(revision)
        way = way_of(changes)
        if way.undo is None:
            raise DomainError(ErrorCode.IN_USE, way.why_not)
        if not is_recent(changes, at):
            minutes = UNDO_WITHIN // timedelta(minutes=1)
            message = f"It is too late to undo this change: {minutes} minutes have passed."
            raise DomainError(ErrorCode.IN_USE, message)
        undo = way.attempt if is_attempt and way.attempt else way.undo
        undo(log, changes)
        return changes


def refusal_of_undo(revision: int, *, actor: Actor, at: datetime) -> DomainError | None:
    """Return the error that undoing this write would raise now, or None. Nothing stays written."""
    try:
        with transaction.atomic():
            undo_write(revision, actor=replace(actor, writes=None), at=at, is_attempt=True)
            transaction.set_rollback(True)
    except DomainError as refusal:
        return refusal
    return None


def undo_made_of(changes: Sequence[Change]) -> Change | None:
    """Return the first change of the last write that undid these changes of one write, if there is one."""
    reasons = [_reason(change.revision) for change in changes]
    later = Change.objects.filter(revision__gt=changes[-1].revision, source=Source.ADMIN, reason__in=reasons)
    last = later.order_by("-revision").first()
    return Change.objects.of_write(last).first() if last else None


def _reason(revision: int) -> str:
    return f"Undo of change {revision}"


def put_back(before: Mapping[str, Any], after: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the values of now with those put back that were changed, or None if one of these has changed since."""
    changed = [name for name in {**before, **after} if not is_same(before.get(name), after.get(name))]
    if not all(is_same(now.get(name), after.get(name)) for name in changed):
        return None
    return {**now, **{name: before.get(name) for name in changed}}


def require_unchanged(noun: str, keys: Sequence[str]) -> None:
    """Raise DomainError if there are objects that have changed since."""
    if keys:
        raise changed_since(noun, keys)


def changed_since(noun: str, keys: Sequence[str]) -> DomainError:
    """Return the error that says that these objects have changed since."""
    have = "has" if len(keys) == 1 else "have"
    message = f"The {_named(noun, keys)} {have} changed since, so this cannot be undone. See the history."
    return DomainError(ErrorCode.PRECONDITION_FAILED, message)


def _named(noun: str, keys: Sequence[str]) -> str:
    more = len(keys) - _MOST_NAMED
    names = ", ".join(keys[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"{noun} {names}" if len(keys) == 1 else f"{noun}s {names}"


def require_unused(noun: str, key: str, is_used: bool) -> None:
    """Raise DomainError if an object that was deleted exists again."""
    if is_used:
        message = f"There is another {noun} {key} by now, so this cannot be undone."
        raise DomainError(ErrorCode.PRECONDITION_FAILED, message)


@contextmanager
def refusing_by_cause(noun: str, keys: Sequence[str]) -> Iterator[None]:
    """Say why objects cannot go back where a refusal names fields, which the person who undoes has not sent.

    Mostly something that the objects refer to no longer exists.
    """
    try:
        yield
    except ValidationFailed as error:
        causes = " ".join(dict.fromkeys(detail.message for detail in error.details))
        message = f"The {_named(noun, keys)} cannot go back: {causes}"
        raise DomainError(ErrorCode.PRECONDITION_FAILED, message) from error


def created_at(deletion: Change) -> datetime:
    """Return when an object was created that is deleted now, or the oldest moment of it that the log still has."""
    return Change.objects.of(deletion.kind, deletion.object_id).earliest("revision").at


def values_put_back(
    noun: str, change: Change, now: Document, values_of: Callable[[Document | None], dict[str, Any]]
) -> dict[str, Any]:
    """Return the values of an object with those put back that this change has changed.

    `values_of` returns the values of a document. Raises DomainError if one of these has changed since.
    """
    values = put_back(values_of(change.before), values_of(change.after), values_of(now))
    if values is None:
        raise changed_since(noun, [change.key])
    return values


def require_as_written(noun: str, change: Change, now: Document) -> None:
    """Raise DomainError if an object is no longer what this change has made of it."""
    if not is_same(now, change.after):
        raise changed_since(noun, [change.key])
