"""Authentication by an API key, by a session of the admin, or anonymously if settings allow it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from config.access.api_keys import live_keys
from config.access.environments import known_environments
from config.change_log.writing import Actor
from config.errors import Detail, DetailCode, ErrorCode, ValidationFailed
from config.models import Environment, Scope, Source
from config.monitoring.addresses import parse_address


class Caller(NamedTuple):
    """`request.auth`: the environment of the request, and who calls with which rights.

    Users of the admin have no scope; Django's permissions decide instead. `key_id` is empty for callers without a key.
    """

    environment: Environment
    actor: Actor
    scope: Scope | None
    key_id: str = ""


Authenticated = tuple[AbstractBaseUser | AnonymousUser, Caller]

_nobody = AnonymousUser()


class KeyAuthentication(BaseAuthentication):
    """`Authorization: Bearer <key>` or `X-API-Key: <key>`."""

    def authenticate(self, request: Request) -> Authenticated | None:
        caller = caller_with_key(request.META, _now(request))
        return None if caller is None else (_nobody, caller)

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


def caller_with_key(headers: Mapping[str, Any], now: datetime) -> Caller | None:
    """Return the caller whose key is in a WSGI environment, or None if there is no key.

    Raises AuthenticationFailed, or ValidationFailed for a key of another environment.
    """
    secret = secret_in(headers)
    if secret is None:
        return None
    key = live_keys.state.find(secret)
    if key is None or not key.is_live(now):
        raise AuthenticationFailed("This API key is unknown, expired or revoked; ask for a new one.")
    if "HTTP_X_ENVIRONMENT" in headers and headers["HTTP_X_ENVIRONMENT"] != key.environment.key:
        raise _wrong_environment(DetailCode.INVALID_VALUE, "This API key belongs to another environment.")
    return Caller(key.environment, key.actor, key.scope, key.id)


def caller_without_session(headers: Mapping[str, Any], now: datetime) -> Caller | None:
    """Return the caller of a WSGI environment, with or without a key, or None if settings allow no anonymous ones.

    Raises AuthenticationFailed or ValidationFailed.
    """
    return caller_with_key(headers, now) or anonymous_caller(headers)


def secret_in(headers: Mapping[str, Any]) -> str | None:
    """Return the unchecked key in a WSGI environment, or None. Raises AuthenticationFailed for other schemes."""
    authorization = headers.get("HTTP_AUTHORIZATION")
    if authorization is None:
        secret: str | None = headers.get("HTTP_X_API_KEY")
        return secret
    scheme, _, secret = authorization.partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise AuthenticationFailed("Send `Authorization: Bearer <key>`, or the key as `X-API-Key`.")
    return secret.strip()


class AdminSessionAuthentication(SessionAuthentication):
    """A signed-in user of the admin, with CSRF protection, in the environment that `X-Environment` names."""

    def authenticate(self, request: Request) -> Authenticated | None:
        if settings.SESSION_COOKIE_NAME not in request.COOKIES:
            return None
        user = request._request.user
        if not isinstance(user, User) or not user.is_active or not user.is_staff:
            return None
        self.enforce_csrf(request)
        return user, Caller(_environment(request.META), Actor(f"user {user.get_username()}", Source.API), None)


class AnonymousAuthentication(BaseAuthentication):
    """Gives callers on this machine ANONYMOUS_SCOPE if they have no credentials."""

    def authenticate(self, request: Request) -> Authenticated | None:
        caller = anonymous_caller(request.META)
        return None if caller is None else (_nobody, caller)


def anonymous_caller(headers: Mapping[str, Any]) -> Caller | None:
    """Return an anonymous caller, or None if settings allow none.

    Raises AuthenticationFailed, or ValidationFailed for an unknown environment.
    """
    scope = settings.ANONYMOUS_SCOPE
    if scope == "none":
        return None
    if why := why_not_local(headers):
        raise AuthenticationFailed(f"Send an API key: without one, {why}.")
    return Caller(_environment(headers), Actor("anonymous", Source.API), Scope(scope))


_FORWARDING_HEADERS = (
    "HTTP_CF_CONNECTING_IP",
    "HTTP_FORWARDED",
    "HTTP_TRUE_CLIENT_IP",
    "HTTP_VIA",
    "HTTP_X_CLIENT_IP",
    "HTTP_X_FORWARDED_FOR",
    "HTTP_X_FORWARDED_HOST",
    "HTTP_X_FORWARDED_PORT",
    "HTTP_X_FORWARDED_PROTO",
    "HTTP_X_FORWARDED_SERVER",
    "HTTP_X_REAL_IP",
)


def why_not_local(meta: Mapping[str, Any]) -> str | None:
    """Return why a request does not come from this machine itself, or None if it does."""
    if not _is_loopback(meta.get("REMOTE_ADDR", "")):
        return "only requests from this machine itself are answered"
    if any(header in meta for header in _FORWARDING_HEADERS):
        return "a request that a proxy forwarded is not answered"
    if meta.get("HTTP_SEC_FETCH_SITE", "none") not in ("none", "same-origin"):
        return "a request from another web site is not answered"
    host = meta.get("HTTP_HOST", "")
    if meta.get("HTTP_ORIGIN", f"http://{host}") not in (f"http://{host}", f"https://{host}"):
        return "a request from another web site is not answered"
    return None


def _is_loopback(address: str) -> bool:
    parsed = parse_address(address)
    return parsed is not None and parsed.is_loopback


def _environment(headers: Mapping[str, Any]) -> Environment:
    key = headers.get("HTTP_X_ENVIRONMENT")
    if key is None:
        return known_environments.state.default
    environment = known_environments.state.by_key.get(key)
    if environment is None:
        message = f"Unknown environment; use one of: {', '.join(known_environments.state.by_key)}."
        raise _wrong_environment(DetailCode.UNKNOWN_REFERENCE, message)
    return environment


def _wrong_environment(code: DetailCode, message: str) -> ValidationFailed:
    return ValidationFailed([Detail("X-Environment", code, message)], code=ErrorCode.INVALID_PARAMETER)


def _now(request: Request) -> datetime:
    """Return the time of the request, which the view has read once."""
    now: datetime = getattr(request, "now", None) or timezone.now()
    return now
