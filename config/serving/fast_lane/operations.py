"""The operations of the fast lane: what each app registers, and how a path names one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.core.signals import request_finished, request_started
from django.http import HttpRequest
from rest_framework.exceptions import AuthenticationFailed

from config.api.authentication import Caller, caller_without_session
from config.api.bodies import check, decode
from config.database.waiting import may_wait


class Call(NamedTuple):
    """A request that may be served: its caller has the right to it, and its body is whole.

    `key` is the part of the path that varies. `like` is a request without body and credentials that came to the same
    host, in the same way.
    """

    environ: dict[str, Any]
    caller: Caller
    now: datetime
    body: bytes
    key: str
    like: HttpRequest

    def json(self) -> Any:
        """Return the decoded body. Raises DomainError or ValidationFailed."""
        return check(decode(self.body))

    def require_same_caller(self) -> None:
        """Refuse a caller whose key has been revoked since the call was admitted, however long it has waited.

        Raises AuthenticationFailed or ValidationFailed.
        """
        if caller_without_session(self.environ, self.now) != self.caller:
            raise AuthenticationFailed

    @contextmanager
    def using_database(self) -> Iterator[None]:
        """Tell Django that a request begins and ends, so that it replaces connections that are old or broken."""
        if not may_wait():  # what needs the database fails then
            yield
            return
        request_started.send(sender=Call, environ=self.environ)
        try:
            yield
        finally:
            request_finished.send(sender=Call)


class Reply(NamedTuple):
    """A success: its body, and the headers that the operation itself sets."""

    body: bytes
    headers: Mapping[str, str] = {}
    status: int = 200


class Failed(NamedTuple):
    """An exception of a call that must not be repeated. Django's own handling of the request could repeat it."""

    error: Exception


Handle = Callable[[Call], Reply | Failed | None]
"""Serves a call. None, or an exception, means that Django must serve it: nothing has been done or counted yet."""

HandleTogether = Callable[[Sequence[Call]], Sequence[Reply | Failed | None]]
"""The same for all calls that wait at the same time. It may wait for the database."""


IsFromMemory = Callable[[Caller, str, bytes], bool]
"""Tells it by the caller, the key in the path and the body."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation at a path such as `/v1/flags/<key>/evaluate`, by POST. The view of the path says who may call it."""

    path: str
    handle: Handle
    records: bool
    """Whether it mostly writes to the database, so that it may wait with other writes."""
    handle_together: HandleTogether | None = None
    """Serves several calls for less than one after the other."""
    is_from_memory: IsFromMemory | None = None
    """Whether a call of an operation that records needs no database after all."""


class Operations:
    """Operations by their paths."""

    def __init__(self) -> None:
        self._exact: dict[str, Operation] = {}
        self._with_key: list[tuple[re.Pattern[str], Operation]] = []

    def register(
        self, path: str, handle: Handle, *, records: bool = False, is_from_memory: IsFromMemory | None = None
    ) -> None:
        self._add(Operation(path, handle, records, is_from_memory=is_from_memory))

    def register_together(self, path: str, handle: HandleTogether) -> None:
        """Register an operation that writes, and whose calls are served together."""
        self._add(Operation(path, lambda call: handle([call])[0], records=True, handle_together=handle))

    def _add(self, operation: Operation) -> None:
        path = operation.path
        head, key, tail = path.partition("<key>")
        if key:
            pattern = re.compile(f"{re.escape(head)}({_KEY}){re.escape(tail)}", re.ASCII)
            self._with_key.append((pattern, operation))
        else:
            self._exact[path] = operation

    def find(self, path: str) -> tuple[Operation, str] | None:
        """Return the operation at a path, and the key in the path. Paths with unusual keys are left to Django."""
        if operation := self._exact.get(path):
            return operation, ""
        for pattern, operation in self._with_key:
            if match := pattern.fullmatch(path):
                return operation, match[1]
        return None


_KEY = "[A-Za-z0-9][A-Za-z0-9._-]{0,99}"

operations = Operations()
register = operations.register
register_together = operations.register_together
