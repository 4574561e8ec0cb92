"""Optimistic locking: a caller that writes may say which version of an object it has read."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Protocol

from config.errors import DomainError, ErrorCode

_digest = re.compile(r'-[0-9a-f]+"$')
"""An ETag may end with a digest of other parts of the response, such as results, which nobody
writes.
"""


class Versioned(Protocol):
    """A row of a model whose `etag` differs after each write."""

    _meta: ClassVar[Any]

    @property
    def etag(self) -> str: ...


def check_version(row: Versioned, if_match: str | None) -> None:
    """Raise DomainError `precondition_failed` unless `If-Match`, if sent, names the version of the
    row.
    """
    if if_match is None or if_match.strip() == "*":
        return
    if row.etag not in (_digest.sub('"', tag.strip()) for tag in if_match.split(",")):
        name = row._meta.verbose_name
        message = f"The {name} has changed since. Read it again and send its ETag, now {row.etag}."
        raise DomainError(ErrorCode.PRECONDITION_FAILED, message)
