"""Middleware that only browsers need. A call of the API without any cookie goes past it: it would cost a fifth more."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import middleware as auth
from django.contrib.messages import middleware as messages
from django.contrib.sessions import middleware as sessions
from django.http import HttpRequest
from django.utils.deprecation import MiddlewareMixin


class _ForBrowsers(MiddlewareMixin):
    def __call__(self, request: HttpRequest) -> Any:
        if not request.META.get("HTTP_COOKIE") and request.path_info.startswith(("/v1/", "/ofrep/")):
            return self.get_response(request)
        return super().__call__(request)


class SessionMiddleware(_ForBrowsers, sessions.SessionMiddleware):
    """Django's, for browsers."""


class AuthenticationMiddleware(_ForBrowsers, auth.AuthenticationMiddleware):
    """Django's, for browsers."""


class MessageMiddleware(_ForBrowsers, messages.MessageMiddleware):
    """Django's, for browsers."""
