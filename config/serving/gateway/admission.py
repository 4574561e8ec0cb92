"""Decides who may send a body: by the key, the path and the announced length, before any of it is read."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum, auto
from typing import Any

from django.conf import settings
from django.core.handlers.wsgi import get_path_info
from django.urls import resolve
from django.urls.exceptions import Resolver404

from config import snapshot
from config.api.authentication import Caller, caller_without_session


class Admission(Enum):
    """What becomes of the body of a request before Django gets the request."""

    NO_BODY = auto()
    READ = auto()
    """The caller may call the operation."""
    READ_OF_BROWSER = auto()
    """Only the database knows whether this browser is signed in, or this kill switch exists."""
    DISCARD = auto()
    """The request of a known caller is refused. Many clients send all of a body before they read the answer."""
    WITHHOLD = auto()
    """The caller is refused."""


def admit(environ: dict[str, Any]) -> Admission:
    """Return what becomes of the body of a request, by what this process has in memory."""
    is_chunked = "HTTP_TRANSFER_ENCODING" in environ
    length = int(environ.get("CONTENT_LENGTH") or 0)
    if not length and not is_chunked:
        return Admission.NO_BODY
    is_short = length <= settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    view = view_of(environ)
    if view is not None and not hasattr(view, "cls"):  # a page, such as one of the admin, where no key counts
        is_of_form = _has_cookies(environ) or _comes_from_here(environ)
        return Admission.READ_OF_BROWSER if is_short and is_of_form else Admission.WITHHOLD
    if view is not None and getattr(view.cls, "own_credentials", False):  # only the database knows these callers
        return Admission.READ_OF_BROWSER if is_short and "HTTP_AUTHORIZATION" in environ else Admission.WITHHOLD
    try:
        snapshot.refresh()
        caller = caller_without_session(environ, datetime.now(UTC))
    except Exception:  # Django meets the same exception, and answers it
        return Admission.WITHHOLD
    if caller is None:
        return Admission.READ_OF_BROWSER if is_short and is_of_browser(environ) else Admission.WITHHOLD
    if is_short and view is not None and _is_allowed(caller, view, environ["REQUEST_METHOD"]):
        return Admission.READ
    # A client that asks before it sends has sent nothing, and reads first.
    return Admission.WITHHOLD if "HTTP_EXPECT" in environ else Admission.DISCARD


def is_of_browser(environ: dict[str, Any]) -> bool:
    """Return whether a request without a key may be one of a browser, which the database recognises."""
    has_key = "HTTP_AUTHORIZATION" in environ or "HTTP_X_API_KEY" in environ
    return not has_key and _has_cookies(environ)


def _has_cookies(environ: dict[str, Any]) -> bool:
    cookies = environ.get("HTTP_COOKIE", "")
    return settings.SESSION_COOKIE_NAME in cookies or settings.CSRF_COOKIE_NAME in cookies


def _comes_from_here(environ: dict[str, Any]) -> bool:
    """Return whether a browser names a page of this host as the sender.

    The form of a browser whose cookies have been deleted is read, so that what somebody typed can be kept.
    """
    host = environ.get("HTTP_HOST", "")
    return bool(host) and environ.get("HTTP_ORIGIN", "").partition("://")[2] == host


def view_of(environ: dict[str, Any]) -> Any | None:
    """Return the view of a request, or None if its path has none."""
    try:
        return resolve(get_path_info(environ)).func
    except Resolver404:
        return None


def _is_allowed(caller: Caller, view: Any, method: str) -> bool:
    """Return whether the view has such an operation, and a key of this scope may call it."""
    action = getattr(view, "actions", {}).get(method.lower())
    access = view.cls.access.get(action) if action else None
    return access is not None and caller.scope is not None and caller.scope.includes(access.scope)
