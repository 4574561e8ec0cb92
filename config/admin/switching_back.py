"""Forms that were opened in another environment than the current one, such as in another tab.

They write nothing. A page keeps their input, and offers to switch back, which fills the form again.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db import Error
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse

from config.admin.browser_middleware import ForBrowsers
from config.admin.current_environment import current_environment, environments_of
from config.admin.failure_pages import answer_unavailable
from config.admin.kept_input import carry, collect, environment_of, is_of_person
from config.models import Environment

_STATUS = 412


class OpenedElsewhereMiddleware(ForBrowsers):
    """Answers such a form in place of its view, which might not even find the object in the current environment."""

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
    return TemplateResponse(request, "admin/opened_elsewhere.html", context, status=_STATUS)
