"""A fast lane in front of Django for the few operations that clients call most.

Django and its middleware take most of the time of an evaluation. The lane serves a request only if it understands all
of it, and passes every other request on to Django unread, or with the body that was read. It has no rules of its own:
the paths come from the list of URLs, and a view says in `fast_lane` which of its actions the lane serves, who may call
them, and what their bodies are. What depends on middleware, such as security headers and CORS, the lane learns from
the middleware (see `Kind`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from io import BytesIO
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec
import orjson
from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.core.signals import request_finished, request_started, setting_changed
from django.http import HttpRequest, HttpResponse
from django.urls import get_resolver
from rest_framework.exceptions import AuthenticationFailed

from config import snapshot
from config.api.authentication import Caller, caller_without_session
from config.api.bodies import JSONParser, check, convert, decode, decode_flat
from config.api.failures import answer_exception
from config.api.headers import stale_header
from config.api.limits import require_allowance
from config.api.renderers import media_type_of
from config.database.connections import WouldWait, may_wait
from config.models import Scope
from config.monitoring.addresses import is_trusted
from config.monitoring.request_ids import current, request_id_of

MAX_BYTES = 2**16
"""Longer bodies are left to Django, which takes their time anyway."""
_MAX_DIGITS = 6
_MAX_KINDS, _MAX_TRAIT = 1000, 300
"""Clients choose their origins, and may choose the host."""
_KEY = "[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
"""The keys in paths that the lane reads. Paths with unusual ones are left to Django."""
_STATUS_LINES = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}

_TRAITS = ("HTTP_HOST", "HTTP_ORIGIN", "CONTENT_TYPE", "wsgi.url_scheme", "SCRIPT_NAME")
"""What may differ between two requests for one operation and change what the middleware does."""
_UNDERSTOOD = {
    # who calls, and from where
    "HTTP_AUTHORIZATION", "HTTP_HOST", "HTTP_ORIGIN", "HTTP_X_API_KEY", "HTTP_X_ENVIRONMENT", "HTTP_X_REQUEST_ID",
    # what the caller takes, and has already
    "HTTP_ACCEPT", "HTTP_ACCEPT_CHARSET", "HTTP_ACCEPT_ENCODING", "HTTP_ACCEPT_LANGUAGE", "HTTP_CACHE_CONTROL",
    "HTTP_CONNECTION", "HTTP_IF_NONE_MATCH", "HTTP_KEEP_ALIVE", "HTTP_PRAGMA", "HTTP_PRIORITY", "HTTP_TE",
    # of browsers
    "HTTP_DNT", "HTTP_REFERER", "HTTP_SEC_CH_UA", "HTTP_SEC_CH_UA_MOBILE", "HTTP_SEC_CH_UA_PLATFORM",
    "HTTP_SEC_FETCH_DEST", "HTTP_SEC_FETCH_MODE", "HTTP_SEC_FETCH_SITE", "HTTP_SEC_FETCH_USER", "HTTP_SEC_GPC",
    "HTTP_USER_AGENT", "HTTP_X_REQUESTED_WITH",
    # of proxies and tracing
    "HTTP_BAGGAGE", "HTTP_CDN_LOOP", "HTTP_CF_CONNECTING_IP", "HTTP_CF_IPCOUNTRY", "HTTP_CF_RAY", "HTTP_CF_VISITOR",
    "HTTP_FORWARDED", "HTTP_PROXY", "HTTP_TRACEPARENT", "HTTP_TRACESTATE", "HTTP_TRUE_CLIENT_IP", "HTTP_VIA",
    "HTTP_X_AMZN_TRACE_ID", "HTTP_X_CLIENT_IP", "HTTP_X_CLOUD_TRACE_CONTEXT", "HTTP_X_FORWARDED_FOR",
    "HTTP_X_FORWARDED_HOST", "HTTP_X_FORWARDED_PORT", "HTTP_X_FORWARDED_PROTO", "HTTP_X_FORWARDED_SERVER",
    "HTTP_X_REAL_IP",
}  # fmt: skip
"""The headers that a request may have: each is handled, or changes nothing in these operations."""

_CREDENTIALS = ("HTTP_AUTHORIZATION", "HTTP_X_API_KEY")
_OF_EACH_ANSWER = ("X-Request-Id", "Content-Length")

_NOTHING = nullcontext()

Headers = list[tuple[str, str]]
Served = tuple[str, Headers, bytes]
"""The status, headers and body of an answer."""
Asked = TypeVar("Asked")
Got = TypeVar("Got")


# --- what views say --------------------------------------------------------------------------------------------------


class Reply(NamedTuple):
    """A success: its body, and the headers that the operation itself sets."""

    body: bytes
    headers: Mapping[str, str] = {}
    status: int = 200


class Failed(NamedTuple):
    """An exception of a call that must not be repeated. Django's own handling of the request could repeat it."""

    error: Exception


class Call(NamedTuple):
    """A request that may be served: its caller has the right to it, and its body is whole.

    `key` is the part of the path that varies. `like` is a request without body and credentials that came to the same
    host, in the same way.
    """

    operation: Operation
    environ: dict[str, Any]
    caller: Caller
    now: datetime
    body: bytes
    key: str
    like: HttpRequest

    def json(self) -> Any:
        """Return the decoded body. Raises DomainError or ValidationFailed."""
        return check(decode(self.body))

    def read(self) -> Any:
        """Return the body as the type that the view names for it, or None if it is invalid. Raises DomainError."""
        return self.operation.read(self.body)

    def require_same_caller(self) -> None:
        """Refuse a caller whose key has been revoked since the call was admitted, however long it has waited.

        Raises AuthenticationFailed or ValidationFailed.
        """
        if caller_without_session(self.environ, self.now) != self.caller:
            raise AuthenticationFailed

    def using_database(self, *, if_needed: bool = True) -> AbstractContextManager[None]:
        """Tell Django that a request begins and ends, so that it replaces connections that are old or broken."""
        return self._as_request() if if_needed and may_wait() else _NOTHING  # what needs it fails if it may not wait

    @contextmanager
    def _as_request(self) -> Iterator[None]:
        request_started.send(sender=Call, environ=self.environ)
        try:
            yield
        finally:
            request_finished.send(sender=Call)


Attempted = Reply | Failed | None
"""The result of an operation. None, or an exception, means that Django must answer: nothing was done or counted yet."""


@dataclass(frozen=True, slots=True)
class Fast:
    """How the lane serves an action of a view set: alone, or together with other calls that wait at the same time.

    What is served together may wait for the database. `is_from_memory` says of the caller, the key in the path and the
    body whether a call of an action that records needs no database after all.
    """

    alone: Callable[[Call], Attempted] | None = None
    together: Callable[[Sequence[Call]], Sequence[Attempted]] | None = None
    is_from_memory: Callable[[Caller, str, Any], bool] | None = None


# --- operations, as the views and the list of URLs describe them -----------------------------------------------------


class Operation:
    """An action of a view set that the lane serves, by POST."""

    def __init__(self, view: Any, action: str, fast: Fast) -> None:
        self.view = view
        self.handle_together = fast.together
        self.records = action not in view.cls.evaluates
        """Whether it mostly writes to the database, so that it may wait with other writes."""
        self.scopes = frozenset(scope for scope in Scope if scope.includes(view.cls.access[action].scope))
        """The scopes of the callers who may call it."""
        self._fast = fast
        self._decoder: Any = msgspec.json.Decoder(view.cls.bodies[action]) if action in view.cls.bodies else None

    def handle(self, call: Call) -> Attempted:
        if self._fast.alone is not None:
            return self._fast.alone(call)
        assert self.handle_together is not None  # noqa: S101 (one of the two is there)
        return self.handle_together([call])[0]

    def read(self, body: bytes) -> Any:
        """Return a body as the type that the view names for it, or None if it is invalid. Raises DomainError."""
        return decode_flat(body, self._decoder) or convert(check(decode(body)), self._decoder.type)

    def needs_no_database(self, caller: Caller, key: str, body: bytes) -> bool:
        """Return whether a call of an operation that records has nothing to record. Raises DomainError."""
        if self._fast.is_from_memory is None:
            return False
        sent = self.read(body)
        return sent is not None and self._fast.is_from_memory(caller, key, sent)


class Operations:
    """The operations at the paths of a list of URLs."""

    def __init__(self, patterns: Iterable[Any]) -> None:
        self._exact: dict[str, Operation] = {}
        self._with_key: list[tuple[re.Pattern[str], Operation]] = []
        for pattern in patterns:
            view = getattr(pattern, "callback", None)
            action = getattr(view, "actions", {}).get("post", "")
            fast = getattr(getattr(view, "cls", None), "fast_lane", {}).get(action)
            if fast is not None:
                self._add(f"/{pattern.pattern}", Operation(view, action, fast))

    def _add(self, route: str, operation: Operation) -> None:
        head, *tail = re.split("<[^>]+>", route)
        if tail:
            pattern = f"{re.escape(head)}({_KEY}){re.escape(tail[0])}"
            self._with_key.append((re.compile(pattern, re.ASCII), operation))
        else:
            self._exact[route] = operation

    def find(self, path: str) -> tuple[Operation, str] | None:
        """Return the operation at a path, and the key in the path."""
        if operation := self._exact.get(path):
            return operation, ""
        for pattern, operation in self._with_key:
            if match := pattern.fullmatch(path):
                return operation, match[1]
        return None


@cache
def served_operations() -> Operations:
    """Return the operations of this service."""
    return Operations(get_resolver().url_patterns)


# --- kinds of requests -----------------------------------------------------------------------------------------------


class Application(Protocol):
    """Django's application, in which another function can stand for the view."""

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]: ...

    def answer_by(self, view: Callable[[HttpRequest], HttpResponse], environ: Mapping[str, Any]) -> HttpResponse: ...


class NotServed(Exception):
    """The middleware does not let such requests in, or answers them itself."""


class Kind:
    """Requests for the same operation of the same host, in the same way, from the same origin.

    For the first request of a kind, a blank answer goes out through the middleware. If it comes out as it went in, the
    headers that it gathered are those of all answers of this kind. So the rules stay in the middleware. `like` is a
    request of this kind, without body and credentials.
    """

    like: HttpRequest

    def __init__(self, application: Application, operation: Operation, environ: Mapping[str, Any]) -> None:
        """Raises NotServed."""
        if not _has_allowed_host(environ) or not _is_json(environ.get("CONTENT_TYPE", "")):
            raise NotServed
        self._application = application
        self._environ = {name: value for name, value in environ.items() if name not in _CREDENTIALS}
        self._own = {"Content-Type": JSONParser.media_type, "Allow": _allowed_methods(operation.view)}
        self._headers: dict[tuple[int, tuple[str, ...]], Headers] = {}
        self._learn(Reply(b""))

    def headers_of(self, reply: Reply, request_id: str) -> Headers:
        """Return all headers of an answer."""
        learned = self._headers.get((reply.status, tuple(reply.headers))) or self._learn(reply)
        own = [*reply.headers.items(), ("X-Request-Id", request_id), ("Content-Length", str(len(reply.body)))]
        return [*learned, *own]

    def fail(self, error: Exception, environ: Mapping[str, Any]) -> HttpResponse:
        """Return the answer to an exception of a request of this kind, as Django would give it."""

        def answer(request: HttpRequest) -> HttpResponse:
            failure = answer_exception(error, {"request": request})
            headers = {**failure.headers, **self._own}
            return HttpResponse(orjson.dumps(failure.data), status=failure.status_code, headers=headers)

        return self._application.answer_by(answer, environ)

    def _learn(self, reply: Reply) -> Headers:
        """Return the headers that the middleware and the view add to such an answer. Raises NotServed."""

        def answer(request: HttpRequest) -> HttpResponse:
            self.like = request
            response = HttpResponse(reply.body, status=reply.status, headers={**self._own, **reply.headers})
            if reply.status == HTTPStatus.NOT_MODIFIED:
                del response["Content-Type"]
            return response

        response = self._application.answer_by(answer, self._environ)
        # The request has dropped a type that it cannot read.
        if response.status_code != reply.status or response.cookies or not _is_json(self.like.META["CONTENT_TYPE"]):
            raise NotServed
        others = {*_OF_EACH_ANSWER, *reply.headers}
        learned = [(name, value) for name, value in response.items() if name not in others]
        self._headers[reply.status, tuple(reply.headers)] = learned
        return learned


def _has_allowed_host(environ: Mapping[str, Any]) -> bool:
    if not environ.get("HTTP_HOST"):
        return False
    request = HttpRequest()
    request.META = dict(environ)
    try:
        request.get_host()
    except DisallowedHost:
        return False
    return True


def _is_json(content_type: str) -> bool:
    return media_type_of(content_type) == JSONParser.media_type


def _allowed_methods(view: Any) -> str:
    """Return the header `Allow`, as DRF writes it."""
    methods = {*view.actions, *(["head"] if "get" in view.actions else [])}
    return ", ".join(method.upper() for method in view.cls.http_method_names if method in methods)


# --- the lane --------------------------------------------------------------------------------------------------------


class Admitted(NamedTuple):
    """A request that the lane understands, from a caller who may make it."""

    kind: Kind
    call: Call
    staleness: int | None


class FastLane:
    """Serves the operations that it knows, in front of Django's application."""

    def __init__(self, application: Application, operations: Operations) -> None:
        self.application = application
        self._operations = operations
        self._forget()
        setting_changed.connect(self._forget)

    def _forget(self, **_: object) -> None:
        """Learn again what depends on settings, which change in tests only."""
        proxy_header = getattr(settings, "SECURE_PROXY_SSL_HEADER", None)
        self._traits = (*_TRAITS, *([proxy_header[0]] if proxy_header else []))
        self._names = {*_UNDERSTOOD, *self._traits}
        self._kinds: dict[tuple[Any, ...], Kind] = {}

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        served = self.serve(environ)
        if served is None:
            return self.application(environ, start_response)
        status, headers, body = served
        start_response(status, headers)
        return [body]

    def serve(self, environ: dict[str, Any]) -> Served | None:
        """Return the answer, or None if Django must answer."""
        admitted = self.admit(environ)
        return None if admitted is None else self.perform(admitted)

    def admit(self, environ: dict[str, Any]) -> Admitted | None:
        """Return a request that the lane understands, with its body, or None if Django must answer.

        The body is then no longer in the environment. Nothing is read or learned for callers who are refused.
        """
        length = _length(environ)
        if length == 0 or not (environ.keys() <= self._names or self._understands(environ)):
            return None
        found = self._operations.find(environ["PATH_INFO"])
        if found is None:
            return None
        operation, key = found
        try:
            now = datetime.now(UTC)
            snapshot.refresh()
            staleness = snapshot.staleness()
            caller = caller_without_session(environ, now)
            if caller is None or caller.scope not in operation.scopes:
                return None
            kind = self._kind_of(operation, environ)
            require_allowance(environ, caller)
        except Exception:  # Django meets the same exception, and answers it
            return None
        body = _read(environ, length)
        if len(body) < length:  # the client is gone, or was too slow
            environ["wsgi.input"] = ReplayedInput(body, environ["wsgi.input"])
            return None
        del environ["wsgi.input"]  # under the gateway, it refers to the environment in turn
        return Admitted(kind, Call(operation, environ, caller, now, body, key, kind.like), staleness)

    def perform(self, admitted: Admitted) -> Served | None:
        """Return the answer, or None if Django must answer. Raises WouldWait, and has done nothing then."""
        call = admitted.call
        current.environ = call.environ
        try:
            return self.finish(admitted, _attempt(call.operation.handle, call))
        finally:
            current.environ = None

    def attempt_together(self, admitted: Sequence[Admitted]) -> Sequence[Attempted]:
        """Do what requests for an operation ask for that serves them together. `finish` makes the answer of each."""
        handle = admitted[0].call.operation.handle_together
        assert handle is not None  # noqa: S101 (callers look)
        return _attempt(handle, [request.call for request in admitted]) or [None] * len(admitted)

    def finish(self, admitted: Admitted, reply: Attempted) -> Served | None:
        """Return the answer after an attempt, or None if Django must answer."""
        kind, call, staleness = admitted
        environ = call.environ
        if reply is None:
            environ["wsgi.input"] = BytesIO(call.body)
            return None
        stale = stale_header(staleness).items() if staleness is not None else ()
        if isinstance(reply, Failed):
            response = kind.fail(reply.error, environ)
            return f"{response.status_code} {response.reason_phrase}", [*response.items(), *stale], response.content
        headers = kind.headers_of(reply, request_id_of(environ))
        return _STATUS_LINES[reply.status], [*headers, *stale], reply.body

    def _understands(self, environ: Mapping[str, Any]) -> bool:
        """Return whether all headers are understood, and learn names that no client can choose: the process's own."""
        unknown = environ.keys() - self._names
        if any(name.startswith("HTTP_") for name in unknown):
            return False
        self._names = self._names | unknown
        return True

    def _kind_of(self, operation: Operation, environ: Mapping[str, Any]) -> Kind:
        sent = (*map(environ.get, self._traits),)
        traits = (operation, is_trusted(environ.get("REMOTE_ADDR", "")), sent)
        kind = self._kinds.get(traits)
        if kind is None:
            if any(len(trait or "") > _MAX_TRAIT for trait in sent):
                raise NotServed
            if len(self._kinds) >= _MAX_KINDS:
                self._kinds.clear()
            kind = self._kinds[traits] = Kind(self.application, operation, environ)
        return kind


def _length(environ: Mapping[str, Any]) -> int:
    """Return the length of the body of a request that may be one for the lane, or 0 for any other request."""
    if environ["REQUEST_METHOD"] != "POST" or environ.get("QUERY_STRING"):
        return 0
    announced = environ.get("CONTENT_LENGTH", "")
    if not announced.isdecimal() or len(announced) > _MAX_DIGITS:
        return 0
    length = int(announced)
    return length if length <= MAX_BYTES else 0


def _read(environ: Mapping[str, Any], length: int) -> bytes:
    try:
        body: bytes = environ["wsgi.input"].read(length)
    except OSError:  # Django meets the same error, and answers it
        return b""
    return body


def _attempt(handle: Callable[[Asked], Got], asked: Asked) -> Got | None:
    try:
        return handle(asked)
    except WouldWait:
        raise
    except Exception:  # nothing has been done or counted, so Django can do it all
        return None


class ReplayedInput:
    """A `wsgi.input` that begins with what was read of it already."""

    def __init__(self, head: bytes, rest: Any) -> None:
        self._head = head
        self._rest = rest

    def read(self, size: int = -1) -> bytes:
        """Read so many bytes, as from the stream itself: fewer only at its end."""
        if size is None or size < 0:
            head, self._head = self._head, b""
            return head + bytes(self._rest.read())
        head, self._head = self._head[:size], self._head[size:]
        return head if len(head) == size else head + bytes(self._rest.read(size - len(head)))

    def readline(self, size: int = -1) -> bytes:
        """Read up to the end of a line. Django asks for this in forms only."""
        line = bytearray()
        while (size < 0 or len(line) < size) and (byte := self.read(1)):
            line += byte
            if byte == b"\n":
                break
        return bytes(line)
