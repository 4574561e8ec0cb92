"""The sidebar of the admin, with only the pages that the user may view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from django.http import HttpRequest
from django.urls import reverse


class _Item(NamedTuple):
    """A page for users who may view objects of a model, by default the list of them.

    The permission for one of `others` is enough, too.
    """

    title: str
    icon: str
    app: str
    model: str
    page: str = "changelist"
    others: tuple[str, ...] = ()


SHOWN_OF_USERS = ("flags.flag", "experiments.experiment", "events.event")
"""The models on the page of a user. Whoever may view one of them may open the page."""

_GROUPS: tuple[tuple[str | None, tuple[_Item, ...]], ...] = (
    (
        None,
        (
            _Item("Flags", "flag", "flags", "flag"),
            _Item("Segments", "groups", "flags", "segment"),
            _Item("Experiments", "science", "experiments", "experiment"),
            _Item("Finished experiments", "history_edu", "experiments", "experiment", "portfolio"),
            _Item("Metrics", "monitoring", "experiments", "metric"),
            _Item("Planner", "straighten", "experiments", "experiment", "planner"),
            _Item("Events", "bolt", "events", "event"),
            _Item("Find a user", "person_search", "experiments", "experiment", "user", SHOWN_OF_USERS),
            _Item("Change log", "history", "config", "change"),
        ),
    ),
    (
        "Settings",
        (
            _Item("Environments", "layers", "config", "environment"),
            _Item("API keys", "key", "config", "apikey"),
            _Item("Kill switches", "emergency", "flags", "killswitch"),
            _Item("Webhooks", "webhook", "config", "webhook"),
            _Item("Users", "person", "auth", "user"),
            _Item("Groups", "group", "auth", "group"),
        ),
    ),
)


def sidebar(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the groups of the sidebar, in the form that unfold expects."""
    overview = {"title": "Overview", "icon": "space_dashboard", "link": reverse("admin:index")}
    visible = [(title, [_link(item) for item in items if _may_see(request, item)]) for title, items in _GROUPS]
    _mark_active(request, [link for _, links in visible for link in links])
    groups = [
        {"title": title, "separator": title is not None, "items": items if title else [overview, *items]}
        for title, items in visible
    ]
    return [*groups, {"title": "Help", "separator": True, "items": _help()}]


def _help() -> list[dict[str, Any]]:
    """Return the links to the public pages outside the admin."""
    return [
        {"title": "Guide", "icon": "menu_book", "link": reverse("guide")},
        {"title": "API reference", "icon": "api", "link": reverse("docs")},
    ]


def _link(item: _Item) -> dict[str, Any]:
    address = reverse(f"admin:{item.app}_{item.model}_{item.page}")
    return {"title": item.title, "icon": item.icon, "link": address}


def _mark_active(request: HttpRequest, links: Sequence[dict[str, Any]]) -> None:
    """Mark the link with the longest matching address: the planner, not the experiments."""
    addresses = (link["link"] for link in links if request.path.startswith(link["link"]))
    nearest = max(addresses, key=len, default=None)
    for link in links:
        link["active"] = link["link"] == nearest


def _may_see(request: HttpRequest, item: _Item) -> bool:
    return any(may_view(request, model) for model in (f"{item.app}.{item.model}", *item.others))


def may_view(request: HttpRequest, model: str) -> bool:
    """Return whether the user may view objects of a model such as `flags.flag`."""
    app, _, name = model.partition(".")
    return any(request.user.has_perm(f"{app}.{right}_{name}") for right in ("view", "change"))
