"""Kinds of requests, and what Django's middleware and the view add to the answers of each kind.

Requests of one kind ask for the same operation of the same host, in the same way, from the same origin. For the first
request of a kind, a blank answer goes out through the middleware. If it comes out as it went in, the headers that it
gathered are those of all answers of this kind. So the rules stay in the middleware.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Protocol

import orjson
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse
from django.urls import resolve
from django.urls.exceptions import Resolver404

from config.api.authentication import Caller
from config.api.bodies import JSONParser
from config.api.conditional import stale_header
from config.api.failures import answer_exception
from config.api.renderers import media_type_of
from config.serving.fast_lane.operations import Reply

Headers = list[tuple[str, str]]

_CREDENTIALS = ("HTTP_AUTHORIZATION", "HTTP_X_API_KEY")
_OF_EACH_ANSWER = ("X-Request-Id", "Content-Length")


class Middleware(Protocol):
    """Django's application, in which another function can stand for the view."""

    def answer_by(self, view: Callable[[HttpRequest], HttpResponse], environ: Mapping[str, Any]) -> HttpResponse: ...


class Kind:
    """A kind of requests that the middleware lets in.

    `like` is a request of this kind, without body and credentials. `view` is what serves it in Django.
    """

    like: HttpRequest

    def __init__(self, middleware: Middleware, environ: Mapping[str, Any]) -> None:
        """Raises NotServed."""
        if not _has_allowed_host(environ) or not _is_json(environ.get("CONTENT_TYPE", "")):
            raise NotServed
        self._middleware = middleware
        self._environ = {name: value for name, value in environ.items() if name not in _CREDENTIALS}
        self.view = view = _view_at(environ["PATH_INFO"])
        self._access = view.cls.access[view.actions["post"]]
        self._own = {"Content-Type": JSONParser.media_type, "Allow": _allowed_methods(view)}
        self._headers: dict[tuple[int, tuple[str, ...]], Headers] = {}
        self._learn(Reply(b""))

    def admits(self, caller: Caller) -> bool:
        """Return whether a caller with a key, or without credentials, may call the operation."""
        return caller.scope is not None and caller.scope.includes(self._access.scope)

    def headers_of(self, reply: Reply, request_id: str, staleness: int | None) -> Headers:
        """Return all headers of an answer."""
        learned = self._headers.get((reply.status, tuple(reply.headers))) or self._learn(reply)
        own = [*reply.headers.items(), ("X-Request-Id", request_id), ("Content-Length", str(len(reply.body)))]
        return [*learned, *own, *stale_header(staleness).items()]

    def fail(self, error: Exception, environ: Mapping[str, Any]) -> HttpResponse:
        """Return the answer to an exception of a request of this kind, as Django would give it."""

        def answer(request: HttpRequest) -> HttpResponse:
            failure = answer_exception(error, {"request": request})
            headers = {**failure.headers, **self._own}
            return HttpResponse(orjson.dumps(failure.data), status=failure.status_code, headers=headers)

        return self._middleware.answer_by(answer, environ)

    def _learn(self, reply: Reply) -> Headers:
        """Return the headers that the middleware and the view add to such an answer. Raises NotServed."""

        def answer(request: HttpRequest) -> HttpResponse:
            self.like = request
            response = HttpResponse(reply.body, status=reply.status, headers={**self._own, **reply.headers})
            if reply.status == HTTPStatus.NOT_MODIFIED:
                del response["Content-Type"]
            return response

        response = self._middleware.answer_by(answer, self._environ)
        # The request has dropped a type that it cannot read.
        if response.status_code != reply.status or response.cookies or not _is_json(self.like.META["CONTENT_TYPE"]):
            raise NotServed
        others = {*_OF_EACH_ANSWER, *reply.headers}
        learned = [(name, value) for name, value in response.items() if name not in others]
        self._headers[reply.status, tuple(reply.headers)] = learned
        return learned


class NotServed(Exception):
    """The middleware does not let such requests in, or answers them itself."""


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


def _view_at(path: str) -> Any:
    """Return the view set of DRF that serves a path."""
    try:
        return resolve(path).func
    except Resolver404:
        raise NotServed from None


def _allowed_methods(view: Any) -> str:
    """Return the header `Allow`, as DRF writes it."""
    methods = {*view.actions, *(["head"] if "get" in view.actions else [])}
    return ", ".join(method.upper() for method in view.cls.http_method_names if method in methods)
