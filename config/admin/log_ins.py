"""Log-ins. Each attempt is logged, and django-axes locks out clients that guess passwords."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

from axes.backends import AxesStandaloneBackend
from django.conf import settings
from django.contrib.auth.signals import user_logged_in, user_login_failed
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse

from config.admin.failure_pages import Failure, answer
from config.monitoring.addresses import address_of

logger = logging.getLogger(__name__)

_MAX_NAME_LENGTH = 150
"""Django gives no user a longer name."""


class LockOutBackend(AxesStandaloneBackend):
    """Refuses clients that are locked out. Commands check passwords without a request, so they are not limited."""

    def authenticate(self, request: HttpRequest | None, **credentials: Any) -> None:
        if request is not None:
            super().authenticate(request, **credentials)


def address_of_request(request: HttpRequest) -> str | None:
    """Return the address of a client. django-axes calls this."""
    return address_of(request.META) or None


def name_of_attempt(request: HttpRequest | None, credentials: dict[str, Any] | None = None) -> str | None:
    """Return the submitted user name, shortened so that it can be stored. django-axes calls this."""
    name = (credentials or {}).get("username") or (request.POST.get("username") if request else None)
    return None if name is None else str(name)[: _MAX_NAME_LENGTH + 1]


def show_lock_out(request: HttpRequest, *_: object) -> HttpResponse:
    """Return the page for a locked-out client. django-axes calls this."""
    seconds = int(settings.AXES_COOLOFF_TIME.total_seconds())
    failure = Failure(
        HTTPStatus.TOO_MANY_REQUESTS,
        "Too many wrong passwords",
        f"Nobody can sign in to this account from your address for {seconds // 60} minutes.",
        "An administrator can set a new password for you meanwhile.",
        seconds,
    )
    return answer(request, failure)


@receiver(user_logged_in, dispatch_uid="config.log_ins")
def log_success(*, request: HttpRequest | None, user: Any, **_: object) -> None:
    if request is not None:
        logger.info("%s has signed in%s", _name(user.get_username()), _from(request))


@receiver(user_login_failed, dispatch_uid="config.log_ins")
def log_failure(*, credentials: dict[str, Any], request: HttpRequest | None = None, **_: object) -> None:
    if request is not None:
        # django-axes, which is installed before this app, has counted the attempt by now.
        outcome = "is locked" if getattr(request, "axes_locked_out", False) else "failed"
        logger.warning("Signing in as %s%s %s", _name(credentials.get("username")), _from(request), outcome)


def _name(username: object) -> str:
    """Return a user name without line breaks."""
    return ascii(str(username)[:_MAX_NAME_LENGTH])


def _from(request: HttpRequest) -> str:
    """Return where a request comes from, or nothing if that is not known."""
    address = address_of(request.META)
    return f" from {address}" if address else ""
