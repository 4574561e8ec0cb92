"""Renders answers as JSON: a payload under `data`, a failure as it is.

An operation can offer other forms than JSON, for callers that prefer them.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from typing import Any

import orjson
from django.http import HttpRequest
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

_is_utf8 = re.compile(r"""(^|;)\s*charset\s*=\s*"?utf-?8"?\s*(;|$)""")


class EnvelopeRenderer(BaseRenderer):
    """Wrap a payload as `{"data": ...}`; failures have their envelope already."""

    media_type = "application/json"
    format = "json"
    charset = None
    render_style = "binary"

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        status = renderer_context["response"].status_code if renderer_context else 200
        if status in (204, 304):
            return b""
        return orjson.dumps(data) if status >= 400 else envelope(data)


def envelope(data: Any) -> bytes:
    """Return the body of a success."""
    return orjson.dumps({"data": data})


class AlwaysJSON(BaseContentNegotiation):
    """Ignores `Accept`, because answers are always JSON. The media type of a body chooses its parser."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser | None:
        media_type = media_type_of(request.content_type)
        return next((parser for parser in parsers if parser.media_type == media_type), None)

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        renderer = next(iter(renderers))
        return renderer, renderer.media_type


def media_type_of(content_type: str) -> str | None:
    """Return the media type of a body, or None if its charset is not UTF-8."""
    media_type, _, parameters = content_type.lower().partition(";")
    if "charset" in parameters and not _is_utf8.search(parameters):
        return None
    return media_type.strip()


_JSON = ("application/json", "application/*", "*/*")


def preferred(request: HttpRequest, offered: Container[str]) -> str | None:
    """Return the offered media type that the request prefers to JSON, or None."""
    try:
        accepted = [f"{media_type.main_type}/{media_type.sub_type}".lower() for media_type in request.accepted_types]
    except (ValueError, TypeError, LookupError):  # the header is not a list of media types
        return None
    first = next((media_type for media_type in accepted if media_type in offered or media_type in _JSON), None)
    return None if first in _JSON else first
