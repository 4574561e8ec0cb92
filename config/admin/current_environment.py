"""The environment that a user of the admin works in.

The session has it, and every page shows it. A form that was opened in another environment, for example in another tab,
writes nothing. Instead, a page offers to switch back, which fills in the form again.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.contrib import admin, messages
from django.db import Error
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import Resolver404, resolve, reverse
from django.utils.http import url_has_allowed_host_and_scheme

from config.admin.browser_middleware import ENVIRONMENT_KEY, ForBrowsers
from config.admin.failure_pages import answer_unavailable
from config.admin.kept_input import (
    SWITCHED,
    carried_in,
    carry,
    collect,
    environment_of,
    give_back,
    is_of_person,
    sent_input,
)
from config.errors import DomainError, ErrorCode
from config.models import Environment

_OPENED_ELSEWHERE = 412


def environments_of(request: HttpRequest) -> list[Environment]:
    """Return all environments, the default first. A request reads them once."""
    environments: list[Environment] | None = getattr(request, "environments", None)
    if environments is None:
        environments = list(Environment.objects.all())
        request.environments = environments  # type: ignore[attr-defined]  # ours
    return environments


def current_environment(request: HttpRequest) -> Environment:
    """Return the environment that the user chose, or else the default one."""
    chosen = request.session.get(ENVIRONMENT_KEY)
    environments = environments_of(request)
    return next((environment for environment in environments if environment.key == chosen), environments[0])


def check_environment(request: HttpRequest, opened_in: str | None) -> None:
    """Raise PreconditionFailed if the page was opened in another environment."""
    current = current_environment(request)
    if opened_in != current.key:
        message = (
            f"You opened this page in another environment and have switched to {current.name} since. Nothing was "
            "changed. Switch back, or open the page again."
        )
        raise DomainError(ErrorCode.PRECONDITION_FAILED, message)


def page_context(request: HttpRequest) -> dict[str, Any]:
    """Return the environments for the templates of every page. Unfold calls this."""
    if not (request.user.is_active and request.user.is_staff):
        return {}
    current = current_environment(request)
    return {
        "environments": environments_of(request),
        "current_environment": current,
    }


def switch_environment(request: HttpRequest) -> HttpResponse:
    """Switch to an environment, or back to the environment of a form, which is filled in again."""
    if request.method != "POST":  # such as after signing in again
        return HttpResponseRedirect(_page_after(sent_input(request).get("next", "")))
    if kept := carried_in(request):
        give_back(request, kept, SWITCHED)
        return HttpResponseRedirect(kept["page"])
    key = request.POST.get("environment")
    if any(environment.key == key for environment in environments_of(request)):
        request.session[ENVIRONMENT_KEY] = key
    else:
        messages.error(request, "This environment does not exist.")
    return HttpResponseRedirect(_page_after(request.POST.get("next", "")))


def _page_after(page: str) -> str:
    """Return the page the user was on, or the list if the object may be missing in the new environment."""
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


class OpenedElsewhereMiddleware(ForBrowsers):
    """Answers forms of other environments, because a view may not find their objects in the current one."""

    def process_view(self, request: HttpRequest, *_: Any) -> HttpResponseBase | None:
        if request.method != "POST" or not is_of_person(request):
            return None
        try:
            opened_in = _opened_elsewhere(request)
            return _page(request, opened_in) if opened_in else None
        except Error as error:
            unavailable = answer_unavailable(request, error)
            if unavailable is None:
                raise
            return unavailable


def _opened_elsewhere(request: HttpRequest) -> Environment | None:
    """Return the environment in which a form was opened, unless it is the current one or does not exist."""
    key = environment_of(dict(request.POST.lists()))
    if not key or not admin.site.has_permission(request) or key == current_environment(request).key:
        return None
    return next((each for each in environments_of(request) if each.key == key), None)


def _page(request: HttpRequest, opened_in: Environment) -> HttpResponseBase:
    kept = collect(request)
    context = {
        **admin.site.each_context(request),
        **carry(kept),
        "title": f"This page was opened in {opened_in.name}",
        "opened_in": opened_in,
        "page": kept["page"],
    }
    return TemplateResponse(request, "admin/opened_elsewhere.html", context, status=_OPENED_ELSEWHERE)
