"""A request under granian, and its answer, which any thread may give."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Protocol

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from granian.wsgi import ResponseIterWrap

from config.monitoring.watching import Answered, notify_watchers, watchers
from config.serving.gateway.measuring import Subject, subject_of
from config.serving.wsgi import VIEW

logger = logging.getLogger(__name__)

Headers = list[tuple[str, str]]

_OF_GRANIAN = len("server: granian\r\ndate: Sun, 01 Jan 2023 00:00:00 GMT\r\n\r\n")
"""The size of what granian adds to the head of an answer."""


class GranianProtocol(Protocol):
    """What granian gives a request. Only the first answer counts, and any thread may give it."""

    def response_bytes(self, status: int, headers: Headers, body: bytes) -> None: ...

    def response_iter(self, status: int, headers: Headers, body: Any) -> None: ...


class Flag(Protocol):
    """A byte of shared memory: 1 once the server is stopping."""

    value: int


class Exchange:
    """One request and its answer. `end` is called when no thread works on it any more."""

    __slots__ = (
        *("_begun", "_is_counted", "_is_stopping", "_protocol", "answered_at", "closes", "environ", "is_cut"),
        *("is_read", "subject", "when_over"),
    )

    def __init__(self, protocol: GranianProtocol, environ: dict[str, Any], is_stopping: Flag) -> None:
        self.environ = environ
        self.answered_at: float | None = None
        """When Django's answer was given, by the monotonic clock."""
        self.closes = False
        """Whether the connection ends with the answer, in any case."""
        self.is_cut = False
        """Whether the body did not arrive in time. The request has its answer then."""
        self.is_read = False
        """Whether all of the body was read."""
        self.when_over: Callable[[], None] | None = None
        self.subject: Subject | None = None
        """The operation, if it is known before Django has found it."""
        self._begun = time.monotonic()
        self._is_counted = False
        self._protocol = protocol
        self._is_stopping = is_stopping

    def answer(self, status: int | str, headers: Headers, body: bytes) -> None:
        """Answer with a status, such as 200 or `200 OK`."""
        code = status if isinstance(status, int) else int(status[:3])
        self._count(code, headers, len(body))
        self._protocol.response_bytes(code, self._completed(headers), body)

    def cut(self, response: HttpResponse) -> int:
        """Answer because the body is late, and return how many bytes granian sends."""
        self.is_cut = True
        response.headers.setdefault("Content-Length", str(len(response.content)))
        headers = _headers_of(response)
        self._count(response.status_code, headers, len(response.content))
        self._protocol.response_bytes(response.status_code, headers, response.content)
        return _size_of(response)

    def respond(self, response: HttpResponseBase) -> None:
        """Answer with a response of Django. If that is a stream, it has ended when this returns."""
        self.answered_at = time.monotonic()
        if isinstance(response, HttpResponse):
            try:
                self.answer(response.status_code, _headers_of(response), response.content)
            finally:
                response.close()
        else:
            headers = self._completed(_headers_of(response))
            self._count(response.status_code, headers, None)
            self._protocol.response_iter(response.status_code, headers, ResponseIterWrap(response))  # type: ignore[no-untyped-call]

    def _completed(self, headers: Headers) -> Headers:
        return [*headers, ("Connection", "close")] if self.closes or self._is_stopping.value else headers

    def _count(self, status: int, headers: Headers, size: int | None) -> None:
        """Count the first answer, which is the one that is sent."""
        if not self._is_counted:
            self._is_counted = True
            subject = self.subject or subject_of(self.environ, self.environ.get(VIEW))
            seconds = time.monotonic() - self._begun
            subject.count_answer(status, seconds)
            if watchers:
                notify_watchers(Answered(self.environ, subject.operation, status, headers, size, seconds))

    def fail(self) -> None:
        """Answer a request that has met a defect outside of Django's own handling of errors."""
        logger.exception("%s %s failed", self.environ.get("REQUEST_METHOD"), self.environ.get("PATH_INFO"))
        self.answer(HTTPStatus.INTERNAL_SERVER_ERROR, [], b"")

    def end(self) -> None:
        function, self.when_over = self.when_over, None
        if function is not None:
            function()


def _headers_of(response: HttpResponseBase) -> Headers:
    cookies = (("Set-Cookie", cookie.OutputString()) for cookie in response.cookies.values())
    return [*response.items(), *cookies]


def _size_of(response: HttpResponse) -> int:
    line = f"HTTP/1.1 {response.status_code} {response.reason_phrase}\r\n"
    head = sum(len(name) + len(value) + len(": \r\n") for name, value in _headers_of(response))
    return len(line) + head + _OF_GRANIAN + len(response.content)
