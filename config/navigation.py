"""The sidebar of the admin: only what this person may see."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.urls import reverse

_GROUPS: tuple[tuple[str | None, tuple[tuple[str, str, str, str], ...]], ...] = (
    (
        None,
        (
            ("Flags", "flag", "flags", "flag"),
            ("Segments", "groups", "flags", "segment"),
            ("Experiments", "science", "experiments", "experiment"),
            ("Events", "bolt", "events", "event"),
            ("Change log", "history", "config", "change"),
        ),
    ),
    (
        "Settings",
        (
            ("Environments", "layers", "config", "environment"),
            ("API keys", "key", "config", "apikey"),
            ("Users", "person", "auth", "user"),
            ("Groups", "group", "auth", "group"),
        ),
    ),
)


def sidebar(request: HttpRequest) -> list[dict[str, Any]]:
    """The groups of the sidebar, as unfold takes them."""
    overview = {"title": "Overview", "icon": "space_dashboard", "link": reverse("admin:index")}
    visible = [(title, [_item(*item) for item in items if _may_see(request, *item)]) for title, items in _GROUPS]
    return [
        {"title": title, "separator": title is not None, "items": items if title else [overview, *items]}
        for title, items in visible
    ]


def _item(title: str, icon: str, app: str, model: str) -> dict[str, str]:
    return {"title": title, "icon": icon, "link": reverse(f"admin:{app}_{model}_changelist")}


def _may_see(request: HttpRequest, _title: str, _icon: str, app: str, model: str) -> bool:
    return any(request.user.has_perm(f"{app}.{right}_{model}") for right in ("view", "change"))
