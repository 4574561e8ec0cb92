"""Optimistic locking: a caller that writes may say which version of an object it has read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, ClassVar, Protocol, TypeVar

from config.change_log.writing import Actor, Writing, writing
from config.errors import DomainError, ErrorCode

_digest = re.compile(r'-[0-9a-f]+"$')
"""An ETag may end with a digest of other parts of the response, such as results, which nobody writes."""


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
    """Open a transaction that changes one row, which must be of the version that `If-Match` names.

    `read` reads the row after the log is locked, so no other write can come in between. Raises what `read` raises, or
    DomainError `precondition_failed`.
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
