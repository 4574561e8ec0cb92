"""The WSGI application that serves what it understands, and passes everything else on to Django."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from io import BytesIO
from typing import Any, NamedTuple, Protocol, TypeVar

from django.conf import settings
from django.core.signals import setting_changed

from config import snapshot
from config.api.authentication import Caller, caller_without_session
from config.api.conditional import stale_header
from config.api.limits import require_allowance
from config.database.waiting import WouldWait
from config.logs.addresses import is_trusted
from config.logs.request_ids import current, request_id_of
from config.serving.fast_lane.bodies import ReplayedInput
from config.serving.fast_lane.kinds import Headers, Kind, Middleware, NotServed
from config.serving.fast_lane.operations import Call, Failed, Operation, Operations, Reply

MOST_BYTES = 2**16
"""Longer bodies are left to Django, which takes their time anyway."""
_MOST_DIGITS = 6
_MOST_KINDS, _LONGEST_TRAIT = 1000, 300
"""Clients choose their origins, and may choose the host."""
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


class Application(Middleware, Protocol):
    """Django's application."""

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]: ...


Served = tuple[str, Headers, bytes]
"""The status, headers and body of an answer."""


Attempted = Reply | Failed | None
"""The result of an operation. None means that Django must answer."""

Asked = TypeVar("Asked")
Got = TypeVar("Got")


class Admitted(NamedTuple):
    """A request that the lane understands, from a caller who may make it."""

    operation: Operation
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

        The body is then no longer in the environment.
        """
        length = _length(environ)
        if length == 0 or not (environ.keys() <= self._names or self._understands(environ)):
            return None
        found = self._operations.find(environ["PATH_INFO"])
        if found is None:
            return None
        operation, key = found
        admitted = self._admit(operation.path, environ)
        if admitted is None:
            return None
        kind, caller, now, staleness = admitted
        body = _read(environ, length)
        if len(body) < length:  # the client is gone, or was too slow
            environ["wsgi.input"] = ReplayedInput(body, environ["wsgi.input"])
            return None
        del environ["wsgi.input"]  # under the gateway, it refers to the environment in turn
        return Admitted(operation, kind, Call(environ, caller, now, body, key, kind.like), staleness)

    def perform(self, admitted: Admitted) -> Served | None:
        """Return the answer, or None if Django must answer. Raises WouldWait, and has done nothing then."""
        current.environ = admitted.call.environ
        try:
            return self.finish(admitted, _attempt(admitted.operation.handle, admitted.call))
        finally:
            current.environ = None

    def attempt_together(self, admitted: Sequence[Admitted]) -> Sequence[Attempted]:
        """Do what requests for an operation ask for that serves them together. `finish` makes the answer of each."""
        handle = admitted[0].operation.handle_together
        assert handle is not None  # noqa: S101 (callers look)
        return _attempt(handle, [request.call for request in admitted]) or [None] * len(admitted)

    def finish(self, admitted: Admitted, reply: Attempted) -> Served | None:
        """Return the answer after an attempt, or None if Django must answer."""
        _, kind, call, staleness = admitted
        environ = call.environ
        if reply is None:
            environ["wsgi.input"] = BytesIO(call.body)
            return None
        if isinstance(reply, Failed):
            response = kind.fail(reply.error, environ)
            headers = [*response.items(), *stale_header(staleness).items()]
            return f"{response.status_code} {response.reason_phrase}", headers, response.content
        return _STATUS_LINES[reply.status], kind.headers_of(reply, request_id_of(environ), staleness), reply.body

    def _understands(self, environ: Mapping[str, Any]) -> bool:
        """Return whether all headers are understood, and learn names that no client can choose: the process's own."""
        unknown = environ.keys() - self._names
        if any(name.startswith("HTTP_") for name in unknown):
            return False
        self._names = self._names | unknown
        return True

    def _admit(self, path: str, environ: dict[str, Any]) -> tuple[Kind, Caller, datetime, int | None] | None:
        """Return the kind of a request, its caller, its time, and how stale its answer is, or None if it is refused.

        Nothing is learned for callers who are refused.
        """
        try:
            now = datetime.now(UTC)
            snapshot.refresh()
            staleness = snapshot.staleness()
            caller = caller_without_session(environ, now)
            if caller is None:
                return None
            kind = self._kind_of(path, environ)
            if not kind.admits(caller):
                return None
            require_allowance(environ, caller)
        except Exception:  # Django meets the same exception, and answers it
            return None
        return kind, caller, now, staleness

    def _kind_of(self, path: str, environ: Mapping[str, Any]) -> Kind:
        sent = (*map(environ.get, self._traits),)
        traits = (path, is_trusted(environ.get("REMOTE_ADDR", "")), sent)
        kind = self._kinds.get(traits)
        if kind is None:
            if any(len(trait or "") > _LONGEST_TRAIT for trait in sent):
                raise NotServed
            if len(self._kinds) >= _MOST_KINDS:
                self._kinds.clear()
            kind = self._kinds[traits] = Kind(self.application, environ)
        return kind


def _length(environ: Mapping[str, Any]) -> int:
    """Return the length of the body of a request that may be one for the lane, or 0 for any other request."""
    if environ["REQUEST_METHOD"] != "POST" or environ.get("QUERY_STRING"):
        return 0
    announced = environ.get("CONTENT_LENGTH", "")
    if not announced.isdecimal() or len(announced) > _MOST_DIGITS:
        return 0
    length = int(announced)
    return length if length <= MOST_BYTES else 0


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
