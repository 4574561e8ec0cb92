"""The id of each request. It is in the response, in log lines and in changes."""

from __future__ import annotations

import re
import threading
from typing import Any

from uuid_utils import uuid7

_KEPT = "halyard.request_id"
_acceptable = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)


class _Current(threading.local):
    environ: dict[str, Any] | None = None


current = _Current()
"""The WSGI environment of the request that this thread serves, if any."""


def request_id_of(environ: dict[str, Any]) -> str:
    """Return the id in a WSGI environment: the one that the client sent, or a new one, which is stored there."""
    kept: str | None = environ.get(_KEPT)
    if kept is None:
        sent = environ.get("HTTP_X_REQUEST_ID")
        kept = sent if sent is not None and _acceptable.fullmatch(sent) else str(uuid7())
        environ[_KEPT] = kept
    return kept


def current_request_id() -> str | None:
    return None if current.environ is None else request_id_of(current.environ)
