"""The environment that a person of the admin works in: kept in the session, shown on every page, switched by POST."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import Resolver404, resolve, reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from config.errors import DomainError, ErrorCode
from config.models import Environment

SESSION_KEY = "environment"

_production = re.compile(r"(?<![a-z])(prod|production|live)(?![a-z])", re.IGNORECASE)


def environments_of(request: HttpRequest) -> list[Environment]:
    """All environments, the default first, read once a request."""
    found: list[Environment] | None = getattr(request, "environments", None)
    if found is None:
        found = list(Environment.objects.all())
        request.environments = found  # type: ignore[attr-defined]  # ours
    return found


def current_environment(request: HttpRequest) -> Environment:
    """The environment that this person chose, or else the default one."""
    chosen = request.session.get(SESSION_KEY)
    environments = environments_of(request)
    return next((each for each in environments if each.key == chosen), environments[0])


def is_production(environment: Environment) -> bool:
    """Whether real users are behind it, as its key tells; the admin then shows it in red."""
    return _production.search(environment.key) is not None


def check_environment(request: HttpRequest, opened_in: str | None) -> None:
    """Refuse to write from a page that was opened before its reader switched environments, perhaps in another tab."""
    current = current_environment(request)
    if opened_in != current.key:
        message = (
            f"This page was opened in another environment, and you are in {current.name} now, so nothing was changed. "
            "Switch back first, or open the page again."
        )
        raise DomainError(ErrorCode.PRECONDITION_FAILED, message)


def page_context(request: HttpRequest) -> dict[str, Any]:
    """What every page shows of environments; unfold asks for it."""
    if not (request.user.is_active and request.user.is_staff):
        return {}
    current = current_environment(request)
    return {
        "environments": environments_of(request),
        "current_environment": current,
        "is_production": is_production(current),
    }


@require_POST
def switch_environment(request: HttpRequest) -> HttpResponse:
    key = request.POST.get("environment")
    if any(environment.key == key for environment in environments_of(request)):
        request.session[SESSION_KEY] = key
    else:
        messages.error(request, "There is no such environment.")
    return HttpResponseRedirect(_page_after(request.POST.get("next", "")))


def _page_after(page: str) -> str:
    """The page that the reader was on, or its list where the object is unknown in the other environment."""
    if url_has_allowed_host_and_scheme(page, allowed_hosts=None):
        try:
            match = resolve(urlsplit(page).path)
        except Resolver404:
            return reverse("admin:index")
        model_admin = getattr(match.func, "model_admin", None)
        if model_admin is None or "object_id" not in match.kwargs or getattr(model_admin, "is_common", True):
            return page
        return reverse(f"admin:{model_admin.opts.app_label}_{model_admin.opts.model_name}_changelist")
    return reverse("admin:index")
