"""The sidebar of the admin: only what this person may see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from django.http import HttpRequest
from django.urls import reverse


class _Item(NamedTuple):
    """A page for those who may look at objects of a model: by default the list of them."""

    title: str
    icon: str
    app: str
    model: str
    page: str = "changelist"


_GROUPS: tuple[tuple[str | None, tuple[_Item, ...]], ...] = (
    (
        None,
        (
            _Item("Flags", "flag", "flags", "flag"),
            _Item("Segments", "groups", "flags", "segment"),
            _Item("Experiments", "science", "experiments", "experiment"),
            _Item("Metrics", "monitoring", "experiments", "metric"),
            _Item("Planner", "straighten", "experiments", "experiment", "planner"),
            _Item("Events", "bolt", "events", "event"),
            _Item("Change log", "history", "config", "change"),
        ),
    ),
    (
        "Settings",
        (
            _Item("Environments", "layers", "config", "environment"),
            _Item("API keys", "key", "config", "apikey"),
            _Item("Users", "person", "auth", "user"),
            _Item("Groups", "group", "auth", "group"),
        ),
    ),
)


def sidebar(request: HttpRequest) -> list[dict[str, Any]]:
    """The groups of the sidebar, as unfold takes them."""
    overview = {"title": "Overview", "icon": "space_dashboard", "link": reverse("admin:index")}
    visible = [(title, [_link(item) for item in items if _may_see(request, item)]) for title, items in _GROUPS]
    _mark_active(request, [link for _, links in visible for link in links])
    groups = [
        {"title": title, "separator": title is not None, "items": items if title else [overview, *items]}
        for title, items in visible
    ]
    return [*groups, {"title": "Help", "separator": True, "items": _help()}]


def _help() -> list[dict[str, Any]]:
    """Return the links to public pages outside of the admin."""
    return [
        {"title": "Guide", "icon": "menu_book", "link": reverse("guide")},
        {"title": "API reference", "icon": "api", "link": reverse("docs")},
    ]


def _link(item: _Item) -> dict[str, Any]:
    address = reverse(f"admin:{item.app}_{item.model}_{item.page}")
    return {"title": item.title, "icon": item.icon, "link": address}


def _mark_active(request: HttpRequest, links: Sequence[dict[str, Any]]) -> None:
    """Of a page and the list above it, both of which the address begins with, only the page is the one looked at."""
    nearest = max((each["link"] for each in links if request.path.startswith(each["link"])), key=len, default=None)
    for each in links:
        each["active"] = each["link"] == nearest


def _may_see(request: HttpRequest, item: _Item) -> bool:
    return any(request.user.has_perm(f"{item.app}.{right}_{item.model}") for right in ("view", "change"))
