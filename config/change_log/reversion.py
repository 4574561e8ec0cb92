"""Undoing a write of the admin, and reverting an object to an earlier revision.

`reversibles` says for each kind of object how it goes back, or why it does not. An undo is possible for ten minutes. It
is a write of its own, and undoes all changes of a write or none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar, Protocol

from django.db import transaction

from config.change_log.writing import Actor, Writing, writing
from config.documents import Document, is_same
from config.errors import Detail, DetailCode, DomainError, ErrorCode, ValidationFailed, reported_at
from config.models import Change, Environment, Source

UNDO_WITHIN = timedelta(minutes=10)
_MAX_NAMED = 5


class Undo(Protocol):
    """Undoes these changes of one write, in the transaction of the log. Raises DomainError."""

    def __call__(self, log: Writing, changes: Sequence[Change]) -> None: ...


@dataclass(frozen=True, slots=True)
class UndoPlan:
    """How a write is undone. Without `undo`, `why_not` says what people do instead.

    `attempt` raises the same errors as `undo` but skips slow work; its writes are rolled back. `led_by` is the kind of
    the changes that caused the other changes of the write. `lost` says what the undo does not bring back.
    """

    undo: Undo | None = None
    attempt: Undo | None = None
    led_by: str = ""
    lost: str = ""
    why_not: str = "This change cannot be undone."


@dataclass(frozen=True, slots=True)
class Target:
    """The document that an object gets back when this change is undone."""

    change: Change
    document: Document

    @property
    def is_new(self) -> bool:
        """Whether the change deleted the object, so that it comes back with its id and its time of creation."""
        return self.change.after is None


class Reversible(ABC):
    """How writes of one kind of object are undone. `noun` names such an object.

    `derived` are properties of its document that follow from other properties. With `has_steps`, a write may be more
    than an edit, such as the start of an experiment, and `plan` decides how it is undone.
    """

    noun: ClassVar[str]
    derived: ClassVar[Collection[str]] = ()
    has_steps: ClassVar[bool] = False

    @abstractmethod
    def current(self, changes: Sequence[Change]) -> Sequence[Document | None]:
        """Return, for each change, the object that has its key now."""

    @abstractmethod
    def write(self, log: Writing, targets: Sequence[Target]) -> None:
        """Give each object the document of its target. Objects that were deleted are created again."""

    @abstractmethod
    def delete(self, log: Writing, changes: Sequence[Change]) -> None:
        """Delete the objects that these changes created."""

    def plan(self, changes: Sequence[Change]) -> UndoPlan:
        """Return how a write is undone that changed such an object. `changes` are all changes of the write."""
        return UndoPlan(undo_edits)

    def put_back(self, before: Document, after: Document, now: Document) -> Document | None:
        return put_back(before, after, now, self.derived)

    def undo(self, log: Writing, changes: Sequence[Change]) -> None:
        """Undo edits, creations and deletions of such objects. Raises DomainError."""
        targets: list[Target] = []
        created, conflicts = [], []
        for change, now in zip(changes, self.current(changes), strict=True):
            if change.after is None:
                if now is not None:
                    message = f"There is another {self.noun} {change.key} by now, so this cannot be undone."
                    raise DomainError(ErrorCode.PRECONDITION_FAILED, message)
                targets.append(Target(change, change.before or {}))
            elif now is None or now.get("id", change.object_id) != change.object_id:
                conflicts.append(change.key)
            elif change.before is None and is_same(now, change.after):
                created.append(change)
            elif change.before and (document := self.put_back(change.before, change.after, now)):
                targets.append(Target(change, document))
            else:
                conflicts.append(change.key)
        if conflicts:
            raise changed_since(self.noun, conflicts)
        if created:
            self.delete(log, created)
        if targets:
            self.write(log, targets)


class Revertible(Reversible):
    """A kind of object that also goes back to any earlier revision.

    With `is_environmental`, a revert concerns one environment.
    """

    is_environmental: ClassVar[bool] = False

    @abstractmethod
    def version(self, key: str, revision: int, environment: Environment | None) -> Document | None:
        """Return the object as it was after a revision of its history; None if there is no such revision."""

    @abstractmethod
    def edit(self, log: Writing, target: Document, environment: Environment | None) -> None:
        """Edit one object, as people do it, so that it has this document."""

    def reverted(self, now: Document, then: Document, environment: Environment | None) -> Document:
        """Return the document after a revert to the version `then`."""
        return then


class Irreversible:
    """A kind of object whose writes cannot be undone."""

    has_steps = True

    def __init__(self, why_not: str) -> None:
        self._plan = UndoPlan(why_not=why_not)

    def plan(self, changes: Sequence[Change]) -> UndoPlan:
        return self._plan


reversibles: dict[str, Reversible | Irreversible] = {}
"""By the names of kinds in the change log. The modules that write these objects register them."""


def undo_edits(log: Writing, changes: Sequence[Change]) -> None:
    """Undo a write of edits, creations and deletions."""
    for kind in sorted({change.kind for change in changes}):
        undo_of_kind(kind)(log, changes)


def undo_of_kind(kind: str) -> Undo:
    """Return an undo of the changes of this kind alone, from which the other changes of the write follow."""

    def undo(log: Writing, changes: Sequence[Change]) -> None:
        reversible = reversibles[kind]
        assert isinstance(reversible, Reversible)  # noqa: S101 (the plan of others has no undo)
        reversible.undo(log, [change for change in changes if change.kind == kind])

    return undo


def plan_undo(changes: Sequence[Change]) -> UndoPlan:
    """Return how a write is undone. Only writes of the admin are."""
    if not changes or any(change.source != Source.ADMIN for change in changes):
        return UndoPlan()
    kinds = {change.kind: reversibles.get(change.kind) for change in changes}
    for _, reversible in sorted(kinds.items()):
        if reversible and reversible.has_steps:
            return reversible.plan(changes)
    return UndoPlan(undo_edits if all(kinds.values()) else None)


def write_of(revision: int) -> list[Change]:
    """Return all changes of the write that made this change, in their order; none if there is no such change."""
    change = Change.objects.filter(revision=revision).first()
    return [] if change is None else list(Change.objects.of_write(change))


def is_recent(changes: Sequence[Change], now: datetime) -> bool:
    return all(now - change.at <= UNDO_WITHIN for change in changes)


def undo_write(revision: int, *, actor: Actor, now: datetime, is_attempt: bool = False) -> list[Change]:
    """Undo the write that made this change, and return the changes of that write. An attempt skips slow work.

    Raises DomainError if the undo is not possible: it is too late, or something has changed since.
    """
    with writing(actor=actor, now=now, reason=_reason(revision)) as log:
        changes = write_of(revision)
        plan = plan_undo(changes)
        if plan.undo is None:
            raise DomainError(ErrorCode.IN_USE, plan.why_not)
        if not is_recent(changes, now):
            minutes = UNDO_WITHIN // timedelta(minutes=1)
            message = f"It is too late to undo this change: {minutes} minutes have passed."
            raise DomainError(ErrorCode.IN_USE, message)
        undo = plan.attempt if is_attempt and plan.attempt else plan.undo
        undo(log, changes)
        return changes


def refusal_of_undo(revision: int, *, actor: Actor, now: datetime) -> DomainError | None:
    """Return the error that undoing this write would raise now, or None. Nothing stays written."""
    try:
        with transaction.atomic():
            undo_write(revision, actor=replace(actor, writes=None), now=now, is_attempt=True)
            transaction.set_rollback(True)
    except DomainError as refusal:
        return refusal
    return None


def latest_undo(changes: Sequence[Change]) -> Change | None:
    """Return the first change of the last write that undid these changes of one write, if there is one."""
    reasons = [_reason(change.revision) for change in changes]
    later = Change.objects.filter(revision__gt=changes[-1].revision, source=Source.ADMIN, reason__in=reasons)
    last = later.order_by("-revision").first()
    return Change.objects.of_write(last).first() if last else None


def _reason(revision: int) -> str:
    return f"Undo of change {revision}"


def target_of_revert(
    kind: str, now: Document, revision: int, environment: Environment | None = None
) -> Document | None:
    """Return an object as a revert would make it; None if the revision is not in its history."""
    revertible = _revertible(kind)
    then = revertible.version(now["key"], revision, environment)
    return None if then is None else revertible.reverted(now, then, environment)


def _revertible(kind: str) -> Revertible:
    revertible = reversibles[kind]
    assert isinstance(revertible, Revertible), kind  # noqa: S101 (others offer no revert)
    return revertible


def revert(log: Writing, kind: str, now: Document, revision: int, environment: Environment | None = None) -> None:
    """Make an object what it was after a revision of its history.

    It is an edit, and refused like any other, for example if the object needed a segment that no longer exists.
    Raises ValidationFailed at the field `revision`, or DomainError.
    """
    revertible, target = _revertible(kind), target_of_revert(kind, now, revision, environment)
    if target is None:
        where, noun = " in this environment" if revertible.is_environmental else "", revertible.noun
        message = f"Must be a revision in the history of this {noun}{where}, after which the {noun} existed."
        raise ValidationFailed([Detail("revision", DetailCode.UNKNOWN_REFERENCE, message)])
    with reported_at("revision"):
        revertible.edit(log, target, environment)


def put_back(
    before: Mapping[str, Any], after: Mapping[str, Any], now: Mapping[str, Any], derived: Collection[str] = ()
) -> dict[str, Any] | None:
    """Return `now` with the properties of `before` that the change replaced; None if one has changed again since."""
    names = [name for name in {**before, **after} if name not in derived]
    changed = [name for name in names if not is_same(before.get(name), after.get(name))]
    if not all(is_same(now.get(name), after.get(name)) for name in changed):
        return None
    kept = {name: value for name, value in now.items() if name not in changed}
    return {**kept, **{name: before[name] for name in changed if name in before}}


def changed_since(noun: str, keys: Sequence[str]) -> DomainError:
    have = "has" if len(keys) == 1 else "have"
    message = f"The {_named(noun, keys)} {have} changed since, so this cannot be undone. See the history."
    return DomainError(ErrorCode.PRECONDITION_FAILED, message)


def _named(noun: str, keys: Sequence[str]) -> str:
    more = len(keys) - _MAX_NAMED
    names = ", ".join(keys[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"{noun} {names}" if len(keys) == 1 else f"{noun}s {names}"


@contextmanager
def refusing_by_cause(noun: str, keys: Sequence[str]) -> Iterator[None]:
    """Turn a refusal of fields into one that names the objects that cannot go back, and why.

    The person who undoes has sent no fields. Usually, something that the objects refer to no longer exists.
    """
    try:
        yield
    except ValidationFailed as error:
        causes = " ".join(dict.fromkeys(detail.message for detail in error.details))
        message = f"The {_named(noun, keys)} cannot go back: {causes}"
        raise DomainError(ErrorCode.PRECONDITION_FAILED, message) from error


def created_at(deletion: Change) -> datetime:
    """Return when a deleted object was created, or the time of its oldest change that the log still has."""
    return Change.objects.of(deletion.kind, deletion.object_id).earliest("revision").at
