"""Undoing a write that was made in the admin, for ten minutes: as a write of its own, and only as a whole.

The rooms that write a kind of object register how it goes back. Steps of experiments and API keys do not go back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from django.db import transaction

from config.change_log.writing import Actor, Writing, writing
from config.documents import Document, is_same
from config.errors import DomainError, ErrorCode
from config.models import Change, Source

UNDO_WITHIN = timedelta(minutes=10)
_MOST_NAMED = 5


class Undo(Protocol):
    """Put back what these changes of one write have changed, in the transaction of the log. Raises DomainError."""

    def __call__(self, log: Writing, changes: Sequence[Change]) -> None: ...


undos: dict[str, Undo] = {}
"""How objects of a kind go back. Kinds of one write must have the same function."""


steps: dict[str, Callable[[Change], bool]] = {}
"""For kinds of which some changes do not go back: whether a change is one of these."""


def write_of(revision: int) -> list[Change]:
    """Return all changes of the write that made this change, in their order; none if there is no such change."""
    change = Change.objects.filter(revision=revision).first()
    return [] if change is None else list(Change.objects.of_write(change))


def undo_of(changes: Sequence[Change]) -> Undo | None:
    """Return how a write goes back, or None if it does not, such as a write of the API."""
    if not changes:
        return None
    found = {undos.get(change.kind) for change in changes}
    undo = found.pop() if len(found) == 1 else None
    return undo if all(change.source == Source.ADMIN and not _is_step(change) for change in changes) else None


def _is_step(change: Change) -> bool:
    return change.kind in steps and steps[change.kind](change)


def goes_back(kind: str, revision: int) -> bool:
    """Return whether a write that was just made in the admin can be undone. It is read for kinds with steps only."""
    return undo_of(write_of(revision)) is not None if kind in steps else kind in undos


def is_recent(changes: Sequence[Change], now: datetime) -> bool:
    return all(now - change.at <= UNDO_WITHIN for change in changes)


def undo_write(revision: int, *, actor: Actor, at: datetime) -> list[Change]:
    """Undo the write that made this change, and return its changes.

    Raises DomainError if that is not possible, because it is too late, or because something has changed since.
    """
    with writing(actor=actor, at=at, reason=_reason(revision)) as log:
        changes = write_of(revision)
        undo = undo_of(changes)
        if undo is None:
            raise DomainError(ErrorCode.IN_USE, "This change cannot be undone.")
        if not is_recent(changes, at):
            minutes = UNDO_WITHIN // timedelta(minutes=1)
            message = f"It is too late to undo this change: {minutes} minutes have passed."
            raise DomainError(ErrorCode.IN_USE, message)
        undo(log, changes)
        return changes


def refusal_of_undo(revision: int, *, actor: Actor, at: datetime) -> DomainError | None:
    """Return the error that undoing this write would raise now, or None. Nothing stays written."""
    try:
        with transaction.atomic():
            undo_write(revision, actor=replace(actor, writes=None), at=at)
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
    more = len(keys) - _MOST_NAMED
    names = ", ".join(keys[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    what = f"{noun} {names} has" if len(keys) == 1 else f"{noun}s {names} have"
    message = f"The {what} changed since, so this cannot be undone. See the history."
    return DomainError(ErrorCode.PRECONDITION_FAILED, message)


def require_unused(noun: str, key: str, is_used: bool) -> None:
    """Raise DomainError if an object that was deleted exists again."""
    if is_used:
        message = f"There is another {noun} {key} by now, so this cannot be undone."
        raise DomainError(ErrorCode.PRECONDITION_FAILED, message)


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
