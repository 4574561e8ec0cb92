"""The WSGI application that `manage.py serve` runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any, cast

from config.serving import setup  # noqa: F401 (first: modules below import models)

# isort: split
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler, WSGIRequest
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import ResolverMatch, set_script_prefix
from django.utils.http import parse_header_parameters

from config.monitoring.addresses import is_trusted
from config.serving.fast_lane import FastLane, served_operations

VIEW = "halyard.view"
"""Where Django's application leaves the view that it has found, in the WSGI environment."""


class Request(WSGIRequest):
    """A request whose body may be chunked, and whose text is UTF-8.

    A chunked body has no length in WSGI, and Django would read nothing of it. Django would also
    decode the query string by the `charset` of `Content-Type`, and fail before any error handler if
    that is one such as `base64`.
    """

    def __init__(self, environ: dict[str, Any]) -> None:
        if "HTTP_TRANSFER_ENCODING" in environ:
            # Read later, by code that knows whether the caller may send a body, up to one byte
            # beyond the limit.
            environ["CONTENT_LENGTH"] = str(settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1)
        self.has_broken_path = not _is_utf8(environ["PATH_INFO"])
        """Whether the path is not UTF-8. Django replaces such bytes by percent signs, which hides
        them.
        """
        super().__init__(environ)

    def build_absolute_uri(self, location: str | None = None) -> str:
        """Return an address with the host. The code names addresses of the API without the prefix of the service."""
        if location is not None and location.startswith("/v1/"):
            location = f"{settings.SCRIPT_NAME}{location}"
        return super().build_absolute_uri(location)

    @property
    def scheme(self) -> str | None:
        """What a proxy says of the connection of its client counts only if settings trust that proxy."""
        if is_trusted(self.META.get("REMOTE_ADDR", "")):
            return super().scheme
        return str(self.environ["wsgi.url_scheme"])

    def _set_content_type_params(self, meta: dict[str, Any]) -> None:
        try:
            self.content_type, self.content_params = parse_header_parameters(meta.get("CONTENT_TYPE", ""))
        except (ValueError, TypeError, LookupError):
            # Parsers of the body read the header again and would fail as well, so it is removed.
            meta["CONTENT_TYPE"] = self.content_type = ""
            self.content_params = {}


def _is_utf8(text: str) -> bool:
    """Return whether a text that WSGI made from bytes, by Latin-1, is UTF-8."""
    try:
        text.encode("latin-1").decode()
    except UnicodeError:
        return False
    return True


class Application(WSGIHandler):
    """Django's application. It leaves the view that it has found in the WSGI environment, for metrics."""

    request_class = Request

    def answer_by(self, view: Callable[[HttpRequest], HttpResponse], environ: Mapping[str, Any]) -> HttpResponse:
        """Return the answer of another view to a request without its body, after all middleware."""
        set_script_prefix(f"{settings.SCRIPT_NAME}/")
        request = Request({**environ, "wsgi.input": BytesIO(), "CONTENT_LENGTH": "0"})
        request.resolver_match = ResolverMatch(view, (), {})
        return cast(HttpResponse, super().get_response(request))  # of middleware that streams nothing

    def get_response(self, request: HttpRequest) -> HttpResponseBase:
        response = super().get_response(request)
        if request.resolver_match is not None:
            request.META[VIEW] = request.resolver_match.func
        return response

    def _get_response(self, request: HttpRequest) -> HttpResponseBase:
        if request.resolver_match is not None:  # chosen by `answer_by`
            return cast(HttpResponseBase, request.resolver_match.func(request))
        response: HttpResponseBase = super()._get_response(request)  # type: ignore[misc]  # no stub has it
        return response


def make_application() -> Application | FastLane:
    """Return Django's application, behind the fast lane unless settings switch that off."""
    if not settings.FAST_LANE:
        return Application()
    return FastLane(Application(), served_operations())


application = make_application()
