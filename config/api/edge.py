"""The middleware of the API: every request gets an id, and every error is JSON wherever it was raised.

The middleware for pages does not run. Pages of other sites may only send the requests of clients, to the paths that
settings name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from corsheaders.middleware import CorsMiddleware
from django.conf import settings
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.db import Error
from django.http import HttpRequest, HttpResponse
from django.urls import resolve
from rest_framework.response import Response

from config.api.failures import RETRY_AFTER_SECONDS, log_outage, payload, reshape
from config.database.outages import is_outage
from config.errors import DomainError
from config.monitoring.request_ids import current, request_id_of

KEPT_BUT_ASKED = "private, no-cache"
"""`Cache-Control` of an answer that the caller may keep, but must revalidate before each use."""
VARIES_BY = "Authorization, Cookie, X-API-Key, X-Environment"
"""`Vary` of such an answer: the headers that name the caller and the environment."""


class EdgeMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request_id = request_id_of(request.META)
        request.request_id = request_id  # type: ignore[attr-defined]  # ours, read back by failures.request_id
        before, current.environ = current.environ, request.META
        try:
            return self._answer(request, request_id)
        finally:
            current.environ = before

    def _answer(self, request: HttpRequest, request_id: str) -> HttpResponse:
        response = self.get_response(request)
        if response.status_code >= 400 and not _is_json(response) and (shape := _shape(request.path_info)):
            response = reshape(request, response, shape)
        elif response.status_code == 301 and request.method not in ("GET", "HEAD"):
            response.status_code = 308  # clients repeat a request as GET after a 301
        response.headers["X-Request-Id"] = request_id
        if request.path_info.startswith(("/v1/", "/ofrep/")):
            _set_caching(response.headers)
        if isinstance(response, Response):
            _break_cycle(response)
        return response


def _set_caching(headers: Any) -> None:
    """Set headers so that caches keep an answer for its caller only. Only answers with an ETag may be kept."""
    if "Cache-Control" not in headers:
        headers["Cache-Control"] = KEPT_BUT_ASKED if "ETag" in headers else "no-store"
        if "ETag" in headers:
            headers["Vary"] = f"{headers['Vary']}, {VARIES_BY}" if "Vary" in headers else VARIES_BY


def _break_cycle(answer: Any) -> None:
    """Break the reference cycle of view, request and answer, so that the body is freed at once.

    Only the view is left to the garbage collector, because it refers to its own methods.
    """
    view = answer.renderer_context["view"]
    if view.request is not None:
        view.request.parser_context = {}
    view.request = view.response = None
    answer.renderer_context = {}


def is_of_api(path: str) -> bool:
    """Return whether this is a path of an API, whose errors are JSON."""
    return _shape(path) is not None


def _shape(path: str) -> Callable[[DomainError, str], dict[str, Any]] | None:
    """Return the function that makes the body of an error for this path, or None outside the APIs."""
    match path.lstrip("/").split("/", 1):
        case ["v1", *_]:
            return payload
        case ["ofrep", *_]:
            return _ofrep_payload
        case _:
            return None


def _ofrep_payload(failure: DomainError, _request_id: str) -> dict[str, Any]:
    """OpenFeature's protocol has its own form of errors."""
    return {"errorDetails": failure.message}


def _is_json(response: HttpResponse) -> bool:
    return response.headers.get("Content-Type", "").startswith("application/json")


class ApiMiddleware:
    """Calls the views of the APIs itself, so that their requests skip the middleware after it.

    Only requests with a session cookie pass Django's middleware for sessions.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response
        self._call_with_session = SessionMiddleware(AuthenticationMiddleware(_call_view))

    def __call__(self, request: HttpRequest) -> Any:
        if not is_of_api(request.path_info):
            return self.get_response(request)
        try:
            if settings.SESSION_COOKIE_NAME in request.COOKIES:
                return self._call_with_session(request)
            return _call_view(request)
        except Error as error:  # of a session that is saved, since views answer their own
            if not is_outage(error):
                raise
            log_outage(request, error)
            return HttpResponse(status=503, headers={"Retry-After": str(RETRY_AFTER_SECONDS)})


def _call_view(request: HttpRequest) -> Any:
    """Return the answer of the view at the path, or of the view that the server has resolved. Raises Http404."""
    match = request.resolver_match = request.resolver_match or resolve(request.path_info)
    response = match.func(request, *match.args, **match.kwargs)
    return response.render() if isinstance(response, Response) else response


class CrossOriginMiddleware(CorsMiddleware):
    """Allows cross-origin POSTs only. Browsers send a GET without a preflight, so events must not be readable."""

    def __call__(self, request: HttpRequest) -> Any:
        # Not from a page of another site. POSTs are not cached, so `Vary` is not needed.
        if "HTTP_ORIGIN" not in request.META:
            return self.get_response(request)
        return super().__call__(request)

    def is_enabled(self, request: HttpRequest) -> bool:
        return request.method in ("POST", "OPTIONS") and super().is_enabled(request)
