"""Every way to write configuration, read from the code: URLs, pages, commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from django.contrib import admin
from django.core.management import get_commands
from django.http import HttpRequest
from django.urls import resolve

from config.urls import urlpatterns

_READS = {"get", "head", "options"}
_PAGES_THAT_READ = {"changelist", "history"}
_PAGES_BY_PERMISSION = {"add", "change", "delete"}


def api_doors() -> set[str]:
    """Such as `PATCH v1/flags/<str:flag_key>`."""
    views = [(str(route.pattern), getattr(route.callback, "actions", {})) for route in urlpatterns]
    return {f"{method.upper()} {route}" for route, actions in views for method in actions if method not in _READS}


def api_door(method: str, path: str) -> str:
    """The door behind an address."""
    return f"{method} {resolve(path).route}"


def admin_doors(request: HttpRequest) -> set[str]:
    """The admin pages that somebody finds who may do everything, such as `flags_flag_add`, and what
    can be done to what is selected in a list, such as `flags_flag_changelist production:on`.
    """
    return {door for model_admin in admin.site._registry.values() for door in _doors_of(model_admin, request)}


def _doors_of(model_admin: Any, request: HttpRequest) -> Iterator[str]:
    prefix = f"{model_admin.opts.app_label}_{model_admin.opts.model_name}_"
    for url in model_admin.get_urls():
        page = (url.name or "").removeprefix(prefix)
        if page in _PAGES_BY_PERMISSION:
            if getattr(model_admin, f"has_{page}_permission")(request):
                yield url.name
        elif page and page not in _PAGES_THAT_READ:
            yield url.name
    for action in model_admin.get_actions(request):
        yield f"{prefix}changelist {action}"
    for edited in [*model_admin.list_editable, *model_admin.actions_submit_line]:
        yield f"{prefix} {edited}"  # forms within the list, and buttons within the form: there are none


def admin_door(path: str, data: dict[str, Any]) -> str:
    """Return the way of writing behind a page and the data sent to it. The address may have a query."""
    page = resolve(urlsplit(path).path).url_name
    return f"{page} {data['action']}" if "action" in data else page


def site_pages() -> set[str]:
    """Admin pages that belong to no model."""
    return {url.name for url in admin.site.get_urls() if getattr(url, "name", None)}


def command_doors() -> set[str]:
    """The commands of the service's own apps."""
    return {name for name, app in get_commands().items() if app in ("config", "events", "flags", "experiments")}
