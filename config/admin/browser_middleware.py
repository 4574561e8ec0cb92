"""Sessions, and the middleware that only browsers need."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import middleware as auth
from django.contrib.messages import middleware as messages
from django.contrib.sessions import middleware as sessions
from django.contrib.sessions.backends import db
from django.http import HttpRequest
from django.utils.deprecation import MiddlewareMixin


class _ForBrowsers(MiddlewareMixin):
    def __call__(self, request: HttpRequest) -> Any:
        # An API call without cookies skips the middleware, which would make it a fifth slower.
        if not request.META.get("HTTP_COOKIE") and request.path_info.startswith(("/v1/", "/ofrep/")):
            return self.get_response(request)
        return super().__call__(request)


class SessionMiddleware(_ForBrowsers, sessions.SessionMiddleware):
    """Django's own, skipped by API calls without cookies."""


class AuthenticationMiddleware(_ForBrowsers, auth.AuthenticationMiddleware):
    """Django's own, skipped by API calls without cookies."""


class MessageMiddleware(_ForBrowsers, messages.MessageMiddleware):
    """Django's own, skipped by API calls without cookies."""


class SessionStore(db.SessionStore):
    """Sessions in the database, which is only asked for keys that this service can have issued."""

    def _validate_session_key(self, key: Any) -> bool:
        is_valid = super()._validate_session_key(key)  # type: ignore[misc]  # not in the stubs
        # PostgreSQL would fail on a key that contains U+0000.
        return bool(is_valid) and key.isascii() and key.isalnum()
