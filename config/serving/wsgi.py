"""The WSGI application that `manage.py serve` runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from io import BytesIO
from typing import Any, cast

from config.serving import setup  # noqa: F401 (first: modules below import models)

# isort: split
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler, WSGIRequest
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.http import parse_header_parameters
from django.utils.module_loading import autodiscover_modules

from config.serving.fast_lane.lane import FastLane
from config.serving.fast_lane.operations import operations


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
        self.view: Callable[[HttpRequest], HttpResponse] | None = None
        """What answers the request instead of the view at its path, if anything."""
        super().__init__(environ)

    def _set_content_type_params(self, meta: dict[str, Any]) -> None:
        try:
            self.content_type, self.content_params = parse_header_parameters(meta.get("CONTENT_TYPE", ""))
        except (ValueError, TypeError, LookupError):
            # Parsers of the body read the header again and would fail as well, so it is removed.
            meta["CONTENT_TYPE"] = self.content_type = ""
            self.content_params = {}

    def read_rest(self) -> bool:
        """Read the rest of the body unless it is too large, and return whether all of it was read.

        granian closes a connection if the response comes before the whole body. The client may
        already have sent its next request on it, which would be lost.
        """
        announced = self.META.get("CONTENT_LENGTH", "")
        if announced in ("", "0"):
            return True
        length = int(announced) if announced.isdecimal() else 0
        limit: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        if length > limit and "HTTP_TRANSFER_ENCODING" not in self.META:
            return False
        try:
            return len(self.environ["wsgi.input"].read(limit + 1)) <= limit
        except OSError:
            return False


def _is_utf8(text: str) -> bool:
    """Return whether a text that WSGI made from bytes, by Latin-1, is UTF-8."""
    try:
        text.encode("latin-1").decode()
    except UnicodeError:
        return False
    return True


_MOST_DISCARDED = 64 * 1024**2
_SECONDS_TO_DISCARD = 5
"""How much of a body that is too large is read and thrown away, and for how long."""
_PIECE = 2**16
_discarding = threading.BoundedSemaphore(16)
_MAY_DISCARD = "halyard.may_discard"
"""The name in a WSGI environment of whether to read the rest of the body after the answer."""


class _DiscardingRest:
    """An answer to a request whose body is too large, and then the rest of that body.

    Many clients send all of a body before they read. If the connection were closed meanwhile, they
    would report a broken pipe instead of the answer.
    """

    def __init__(self, answer: Any, body: Any) -> None:
        self._answer = answer
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        yield from self._answer
        # A read has no deadline of its own, and one that waits for a silent client ends with the
        # connection. It has a thread of its own, of which there are only so many.
        if _discarding.acquire(blocking=False):
            reader = threading.Thread(target=self._discard, name="discard", daemon=True)
            reader.start()
            reader.join(_SECONDS_TO_DISCARD)

    def _discard(self) -> None:
        left = _MOST_DISCARDED
        try:
            with suppress(OSError):  # the client is gone
                while left > 0 and (piece := self._body.read(_PIECE)):
                    left -= len(piece)
        finally:
            _discarding.release()

    def close(self) -> None:
        self._answer.close()


class Application(WSGIHandler):
    request_class = Request

    def __call__(  # type: ignore[override]  # WSGI asks for no more
        self, environ: dict[str, Any], start_response: Any
    ) -> Iterable[bytes]:
        answer: HttpResponseBase = super().__call__(environ, start_response)
        # A client that asks before it sends has sent nothing, and reads first.
        is_sending = environ.get(_MAY_DISCARD, False) and "HTTP_EXPECT" not in environ
        return _DiscardingRest(answer, environ["wsgi.input"]) if is_sending else answer

    def get_response(self, request: HttpRequest) -> HttpResponseBase:
        response = super().get_response(request)
        if isinstance(request, Request) and not request.read_rest():
            response.headers["Connection"] = "close"
            # A silent client could keep its connection, so only callers that were recognised may.
            request.environ[_MAY_DISCARD] = getattr(request, "auth", None) is not None
        return response

    def answer_by(self, view: Callable[[HttpRequest], HttpResponse], environ: Mapping[str, Any]) -> HttpResponse:
        """Return the answer of another view to a request without its body, after all middleware."""
        request = Request({**environ, "wsgi.input": BytesIO(), "CONTENT_LENGTH": "0"})
        request.view = view
        return cast(HttpResponse, super().get_response(request))  # of middleware that streams nothing

    def _get_response(self, request: HttpRequest) -> HttpResponseBase:
        if isinstance(request, Request) and request.view is not None:
            return request.view(request)
        response: HttpResponseBase = super()._get_response(request)  # type: ignore[misc]  # no stub has it
        return response


def make_application() -> Application | FastLane:
    """Return Django's application, behind the fast lane unless settings switch that off."""
    if not settings.FAST_LANE:
        return Application()
    autodiscover_modules("fast_lane")  # each app registers its operations
    return FastLane(Application(), operations)


application = make_application()
