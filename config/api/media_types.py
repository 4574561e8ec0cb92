"""Answers in other forms than JSON, where a caller would rather have one of those that an operation offers."""

from __future__ import annotations

from collections.abc import Container

from django.http import HttpRequest

_JSON = ("application/json", "application/*", "*/*")


def preferred(request: HttpRequest, offered: Container[str]) -> str | None:
    """The media type among those offered that the request would rather have than JSON, if any."""
    try:
        accepted = [f"{each.main_type}/{each.sub_type}".lower() for each in request.accepted_types]
    except (ValueError, TypeError, LookupError):  # what stands there is no list of media types
        return None
    first = next((each for each in accepted if each in offered or each in _JSON), None)
    return None if first in _JSON else first
