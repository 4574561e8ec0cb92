"""Writes of configuration. Each opens `writing()`, a transaction in which it appends its changes to the log.

A caller may say which version of an object it has read (optimistic locking); see `changing`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Protocol, Self, TypeVar

from django.db import transaction

from config.database import insertion
from config.database.locks import lock_change_log
from config.database.notifications import announce
from config.database.transactions import read_consistently
from config.documents import Document
from config.errors import DomainError, ErrorCode
from config.models import Change, Source
from config.snapshot import signal_file

_COLUMNS = (
    "revision", "at", "actor", "source", "reason", "kind", "object_id", "key", "environment", "before", "after",
    "write", "request",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Actor:
    """Who makes a change, through the API, the admin or a command.

    `may_change_common` is False for API keys that may change only their own environment. `request` is the id of the
    request, if there is one. `writes`, if not None, collects the first revision of each write.
    """

    name: str
    source: Source
    may_change_common: bool = True
    request: str = field(default="", compare=False)
    writes: list[int] | None = field(default=None, compare=False, repr=False)

    def require_common(self, what: str) -> None:
        """Raise DomainError `forbidden` unless the actor may change what all environments share."""
        if not self.may_change_common:
            message = f"{what} affect all environments, so this needs a key that was made with `common`."
            raise DomainError(ErrorCode.FORBIDDEN, message)


@dataclass(frozen=True, slots=True)
class NewChange:
    """A change of one object. `environment` is empty if all environments share it."""

    kind: str
    object_id: object
    key: str
    before: Document | None
    after: Document | None
    environment: str = ""


@dataclass(frozen=True, slots=True)
class PreparedChanges:
    """Statements that insert changes into the log, after the revision that they were prepared for."""

    statements: Sequence[insertion.Statement]
    number: int


@dataclass(slots=True)
class Basis:
    """The state of the log that new changes follow. `revision` is the newest revision in it.

    `at` is the time of the new changes, which is never before that of an earlier change. `first` is the first revision
    of the write.
    """

    at: datetime
    actor: Actor
    reason: str
    revision: int
    first: int

    @classmethod
    def newest(cls, *, actor: Actor, now: datetime, reason: str) -> Self:
        newest = Change.objects.order_by("-revision").values_list("revision", "at").first()
        revision, last_at = newest or (0, now)
        return cls(at=max(now, last_at), actor=actor, reason=reason, revision=revision, first=revision + 1)

    def next_revision(self) -> int:
        """Return the revision of the next change, for rows that store which change wrote them."""
        return self.revision + 1

    def prepare(self, changes: Iterable[NewChange], make: insertion.Make = insertion.prepare) -> PreparedChanges:
        """Prepare entries for changes in this order."""
        common = (self.at, self.actor.name, self.actor.source.value, self.reason)
        rows = [
            (
                revision,
                *common,
                new.kind,
                str(new.object_id),
                new.key,
                new.environment,
                new.before,
                new.after,
                self.first,
                self.actor.request or None,
            )
            for revision, new in enumerate(changes, self.next_revision())
        ]
        return PreparedChanges(list(make(Change, _COLUMNS, rows, "")), len(rows))


@dataclass(slots=True)
class Writing(Basis):
    """A transaction that has locked the log."""

    is_dirty: bool = field(default=False)

    def append(
        self,
        kind: str,
        *,
        object_id: object,
        key: str,
        before: Document | None,
        after: Document | None,
        environment: str = "",
    ) -> None:
        """Append the change of one object. `environment` is empty if all environments share it."""
        self.append_prepared(self.prepare([NewChange(kind, object_id, key, before, after, environment)]))

    def append_prepared(self, changes: PreparedChanges) -> None:
        """Append changes that were prepared for the current revision of the log."""
        insertion.execute_all(changes.statements)
        self.revision += changes.number
        if changes.number and not self.is_dirty:
            self.is_dirty = True
            if self.actor.writes is not None:
                self.actor.writes.append(self.first)
            announce()
            transaction.on_commit(signal_file.signal_change)


@contextmanager
def writing(*, actor: Actor, now: datetime, reason: str = "") -> Iterator[Writing]:
    """Open a transaction that changes configuration. It locks the log, so revisions follow the order of commits."""
    with transaction.atomic():
        lock_change_log()
        yield Writing.newest(actor=actor, now=now, reason=reason)


class Prepared(Protocol):
    """A write that was checked and prepared before its transaction began."""

    def write(self, log: Writing) -> None: ...


Write = TypeVar("Write", bound=Prepared)


def write_prepared(
    prepare: Callable[[Basis], Write], *, actor: Actor, now: datetime, reason: str = "", is_dry_run: bool = False
) -> Write:
    """Prepare a large write with reads only, and then write it in a short transaction.

    On SQLite, a write transaction blocks all other writes, even of events. If configuration has changed since it was
    read, the write is prepared again inside the transaction. A dry run is rolled back.
    """
    with read_consistently():
        basis = Basis.newest(actor=actor, now=now, reason=reason)
        prepared = prepare(basis)
    with writing(actor=actor, now=now, reason=reason) as log:
        if (log.revision, log.at) != (basis.revision, basis.at):
            prepared = prepare(log)
        prepared.write(log)
        if is_dry_run:
            transaction.set_rollback(True)
    return prepared


_digest = re.compile(r'-[0-9a-f]+"$')
"""An ETag may end with a digest of parts of the response that have no version, such as results."""


class Versioned(Protocol):
    """A row of a model whose `etag` differs after each write."""

    _meta: ClassVar[Any]

    @property
    def etag(self) -> str: ...


Row = TypeVar("Row", bound=Versioned)


@contextmanager
def changing(
    read: Callable[[], Row], if_match: str | None, *, actor: Actor, now: datetime, reason: str
) -> Iterator[tuple[Writing, Row]]:
    """Open a transaction that changes one row, whose version must be the one that `If-Match` names.

    `read` is called after the log is locked, so no other write comes between. Raises DomainError `precondition_failed`,
    or the errors of `read`.
    """
    with writing(actor=actor, now=now, reason=reason) as log:
        row = read()
        check_version(row, if_match)
        yield log, row


def check_version(row: Versioned, if_match: str | None) -> None:
    """Raise DomainError `precondition_failed` unless `If-Match`, if sent, names the version of the row."""
    if if_match is None or if_match.strip() == "*":
        return
    if row.etag not in (_digest.sub('"', tag.strip()) for tag in if_match.split(",")):
        name = row._meta.verbose_name
        message = f"The {name} has changed since. Read it again and send its ETag, now {row.etag}."
        raise DomainError(ErrorCode.PRECONDITION_FAILED, message)
