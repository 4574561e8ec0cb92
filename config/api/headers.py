"""Headers: the reason of a write, what the client has already or accepts as gzip, and how old an answer may be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

from django.utils.http import parse_etags
from rest_framework.request import Request

from config.errors import Detail, DetailCode, ErrorCode, ValidationFailed
from config.slugs import REASON_LENGTH

_is_gzip = re.compile(r"(gzip|\*)(;q=(1|0?\.0*[1-9])[0-9.]*)?")


def is_known(headers: Mapping[str, Any], etag: str) -> bool:
    """Return whether `If-None-Match` in a WSGI environment names this tag. Weak and strong tags are equal."""
    if "HTTP_IF_NONE_MATCH" not in headers:
        return False
    tags = parse_etags(headers["HTTP_IF_NONE_MATCH"])
    return "*" in tags or etag.removeprefix("W/") in (tag.removeprefix("W/") for tag in tags)


def takes_gzip(headers: Mapping[str, Any]) -> bool:
    """Return whether `Accept-Encoding` in a WSGI environment allows gzip."""
    codings = headers.get("HTTP_ACCEPT_ENCODING", "").lower().replace(" ", "").split(",")
    return any(_is_gzip.fullmatch(coding) for coding in codings)


def stale_header(seconds: int | None) -> dict[str, str]:
    """Return the header of an answer from a state that was last known to be current `seconds` ago."""
    return {} if seconds is None else {"X-Stale": str(seconds)}


_REASON = "X-Change-Reason"


def change_reason(request: Request) -> str:
    """Return the reason that came with a request, or "". Raises DomainError `invalid_parameter`."""
    text = request.META.get("HTTP_X_CHANGE_REASON")
    if text is None:
        return ""
    # WSGI passes each byte as one character, and granian passes a header with bytes beyond ASCII as
    # an empty one.
    raw = text.strip().encode("latin-1", errors="replace")
    if not raw:
        message = "Must not be empty; percent-encode characters other than ASCII, as UTF-8."
        raise _refused(DetailCode.INVALID_VALUE, message)
    reason = _decode(unquote_to_bytes(raw)) or _decode(raw)
    if reason is None:
        raise _refused(DetailCode.INVALID_VALUE, "Must be ASCII, or UTF-8 that is percent-encoded.")
    if "\0" in reason:
        raise _refused(DetailCode.INVALID_VALUE, "Must not contain the character U+0000.")
    if len(reason) > REASON_LENGTH:
        raise _refused(DetailCode.TOO_LONG, f"Must be at most {REASON_LENGTH} characters.")
    return reason


def _decode(raw: bytes) -> str | None:
    """Decode UTF-8, or return None. A reason such as "100%FF" is not percent-encoded and used unchanged."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _refused(code: DetailCode, message: str) -> ValidationFailed:
    return ValidationFailed([Detail(_REASON, code, message)], code=ErrorCode.INVALID_PARAMETER)
