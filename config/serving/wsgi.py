"""The WSGI application that `manage.py serve` runs."""

from __future__ import annotations

import os
from typing import Any

import django
from django.conf import settings
from django.core import signals
from django.core.cache import close_caches
from django.core.handlers.wsgi import WSGIHandler, WSGIRequest
from django.db import reset_queries
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.http import parse_header_parameters


class Request(WSGIRequest):
    """A request whose body may come in chunks. WSGI gives those no length, and Django would read nothing.

    Its text is UTF-8. Django would decode even the query string by the `charset` of `Content-Type`, and fail where it
    is one such as `base64`, before anything could answer.
    """

    def __init__(self, environ: dict[str, Any]) -> None:
        if "HTTP_TRANSFER_ENCODING" in environ:
            # Read later, by whoever knows that the caller may send a body, and up to one byte over the bound.
            environ["CONTENT_LENGTH"] = str(settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1)
        self.has_broken_path = not _is_utf8(environ["PATH_INFO"])
        """Django makes percent signs of what is not UTF-8 in a path, and forgets that somebody else had sent them."""
        super().__init__(environ)

    def _set_content_type_params(self, meta: dict[str, Any]) -> None:
        try:
            self.content_type, self.content_params = parse_header_parameters(meta.get("CONTENT_TYPE", ""))
        except (ValueError, TypeError, LookupError):
            # The header is parsed once more by whoever reads the body, and would fail there, too.
            meta["CONTENT_TYPE"] = self.content_type = ""
            self.content_params = {}

    def read_rest(self) -> bool:
        """Read what is left of the body, unless that is too much: is all of it read?

        The server closes a connection on which a request was answered before all of its body was there, and the next
        request, which the caller may have sent by then, would be lost.
        """
        announced = self.META.get("CONTENT_LENGTH", "")
        if announced in ("", "0"):
            return True
        length = int(announced) if announced.isdecimal() else 0
        most: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        if length > most and "HTTP_TRANSFER_ENCODING" not in self.META:
            return False
        try:
            return len(self.environ["wsgi.input"].read(most + 1)) <= most
        except OSError:
            return False


def _is_utf8(text: str) -> bool:
    """Of bytes, as WSGI gives them."""
    try:
        text.encode("latin-1").decode()
    except UnicodeError:
        return False
    return True


class Application(WSGIHandler):
    request_class = Request

    def get_response(self, request: HttpRequest) -> HttpResponseBase:
        response = super().get_response(request)
        if isinstance(request, Request) and not request.read_rest():
            response.headers["Connection"] = "close"
        return response


os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup(set_prefix=False)
# What Django tidies up around each request although nothing of it is used here: a twentieth of a request's time.
signals.request_finished.disconnect(close_caches)
if not settings.DEBUG:
    signals.request_started.disconnect(reset_queries)
application = Application()
