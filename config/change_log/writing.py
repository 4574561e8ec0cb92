"""Writes of configuration: each goes through `writing()`, which appends the change to the log in
its transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from django.db import transaction

from config import signal_file
from config.database.locks import lock_change_log
from config.database.notifications import announce
from config.documents import Document
from config.errors import DomainError, ErrorCode
from config.models import Change, Source


@dataclass(frozen=True, slots=True)
class Actor:
    """The author of a change, and whether it came through the API, the admin or a command.

    `may_change_common` is False for API keys that may only change what is their own environment's.
    """

    name: str
    source: Source
    may_change_common: bool = True

    def require_common(self, what: str) -> None:
        """Raise DomainError `forbidden` unless the actor may change this, which all environments
        share.
        """
        if not self.may_change_common:
            message = f"{what} are common to all environments; this needs a key that was made with `common`."
            raise DomainError(ErrorCode.FORBIDDEN, message)


@dataclass(slots=True)
class Writing:
    """A transaction that has locked the log. `at` is its time, which is never before that of an
    earlier change.
    """

    at: datetime
    actor: Actor
    reason: str
    revision: int
    is_dirty: bool = field(default=False)

    def next_revision(self) -> int:
        """Return the revision of the next `append`, for rows that store which change wrote them."""
        return self.revision + 1

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
        self.revision += 1
        Change.objects.create(
            revision=self.revision,
            at=self.at,
            actor=self.actor.name,
            source=self.actor.source,
            reason=self.reason,
            kind=kind,
            object_id=str(object_id),
            key=key,
            environment=environment,
            before=before,
            after=after,
        )
        if not self.is_dirty:
            self.is_dirty = True
            announce()
            transaction.on_commit(signal_file.poke)


@contextmanager
def lock_configuration() -> Iterator[None]:
    """Open a transaction in which no other process changes configuration, so that several queries
    agree.
    """
    with transaction.atomic():
        lock_change_log()
        yield


@contextmanager
def writing(*, actor: Actor, at: datetime, reason: str = "") -> Iterator[Writing]:
    """Open a transaction that changes configuration. No other does meanwhile, so revisions follow
    commit order.
    """
    with lock_configuration():
        newest = Change.objects.order_by("-revision").values_list("revision", "at").first()
        revision, last_at = newest or (0, at)
        yield Writing(at=max(at, last_at), actor=actor, reason=reason, revision=revision)
