"""The reason for a write in the header `X-Change-Reason`, which the change log keeps. Characters
other than ASCII are percent-encoded, as UTF-8.
"""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from rest_framework.request import Request

from config.errors import Detail, DetailCode, ErrorCode, ValidationFailed
from config.slugs import REASON_LENGTH

HEADER = "X-Change-Reason"


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
    """Return None if the bytes are not UTF-8: a text such as "100%FF" is not percent-encoded, and is used as it is."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _refused(code: DetailCode, message: str) -> ValidationFailed:
    return ValidationFailed([Detail(HEADER, code, message)], code=ErrorCode.INVALID_PARAMETER)
