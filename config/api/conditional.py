"""Headers about answers: whether the client has it already, takes it as gzip, and how old it may be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django.utils.http import parse_etags

_is_gzip = re.compile(r"(gzip|\*)(;q=(1|0?\.0*[1-9])[0-9.]*)?")


def is_known(headers: Mapping[str, Any], etag: str) -> bool:
    """Return whether `If-None-Match` in a WSGI environment names this tag; weak and strong tags are
    equal.
    """
    if "HTTP_IF_NONE_MATCH" not in headers:
        return False
    tags = parse_etags(headers["HTTP_IF_NONE_MATCH"])
    return "*" in tags or etag.removeprefix("W/") in (tag.removeprefix("W/") for tag in tags)


def takes_gzip(headers: Mapping[str, Any]) -> bool:
    """Return whether `Accept-Encoding` in a WSGI environment allows gzip."""
    codings = headers.get("HTTP_ACCEPT_ENCODING", "").lower().replace(" ", "").split(",")
    return any(_is_gzip.fullmatch(coding) for coding in codings)


def stale_header(seconds: int | None) -> dict[str, str]:
    """Return the header of an answer from a state that was last known to be the newest so many seconds ago."""
    return {} if seconds is None else {"X-Stale": str(seconds)}
