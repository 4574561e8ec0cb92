"""Who may send a body: decided by the key, the path and the announced length, before any of it is read."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum, auto
from typing import Any

from django.conf import settings
from django.core.handlers.wsgi import get_path_info
from django.urls import resolve
from django.urls.exceptions import Resolver404

from config import snapshot
from config.api.authentication import Caller, anonymous_caller, caller_with_key


class Admission(Enum):
    """What becomes of the body of a request before Django gets the request."""

    NO_BODY = auto()
    READ = auto()
    """The caller may call the operation."""
    READ_OF_BROWSER = auto()
    """Only the database knows whether this browser is signed in."""
    DISCARD = auto()
    """The request of a known caller is refused. Many clients send all of a body before they read the answer."""
    WITHHOLD = auto()
    """The caller is refused."""


def admit(environ: dict[str, Any]) -> Admission:
    is_chunked = "HTTP_TRANSFER_ENCODING" in environ
    length = int(environ.get("CONTENT_LENGTH") or 0)
    if not length and not is_chunked:
        return Admission.NO_BODY
    is_short = length <= settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    try:
        snapshot.refresh()
        caller = caller_with_key(environ, datetime.now(UTC)) or anonymous_caller(environ)
    except Exception:  # Django meets the same exception, and answers it
        return Admission.WITHHOLD
    if caller is None:
        return Admission.READ_OF_BROWSER if is_short and _may_be_signed_in(environ) else Admission.WITHHOLD
    if is_short and _is_allowed(caller, environ):
        return Admission.READ
    # A client that asks before it sends has sent nothing, and reads first.
    return Admission.WITHHOLD if "HTTP_EXPECT" in environ else Admission.DISCARD


def _may_be_signed_in(environ: dict[str, Any]) -> bool:
    cookies = environ.get("HTTP_COOKIE", "")
    return settings.SESSION_COOKIE_NAME in cookies or settings.CSRF_COOKIE_NAME in cookies


def _is_allowed(caller: Caller, environ: dict[str, Any]) -> bool:
    """Return whether there is such an operation, and a key of this scope may call it."""
    try:
        view: Any = resolve(get_path_info(environ)).func
    except Resolver404:
        return False
    action = getattr(view, "actions", {}).get(environ["REQUEST_METHOD"].lower())
    access = view.cls.access.get(action) if action else None
    return access is not None and caller.scope is not None and caller.scope.includes(access.scope)
