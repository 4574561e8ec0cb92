"""What the tests of undoing in the admin share."""

from __future__ import annotations

import re
from typing import Any

from django.urls import reverse

from flags.models import Flag
from tests.admin import AdminClient, answer, messages_of, revision

LIST = "/admin/flags/flag/"
HALF = [{"type": "percentage", "percentage": 50}]
GONE = "The change of f is undone."


def address(page: str, flag: Flag) -> str:
    return reverse(f"admin:flags_flag_{page}", args=[flag.pk])


def switch(client: AdminClient, *flags: Flag, wanted: str = "on") -> Any:
    selected = [str(flag.pk) for flag in flags]
    page = client.post(LIST, {"action": f"production:{wanted}", "_selected_action": selected, "index": "0"})
    return answer(client, page, typed_name="Production")


def undo(client: AdminClient, number: int | None = None, **sent: str) -> Any:
    return client.post(reverse("admin:config_change_undo", args=[number or revision()]), sent)


def said(response: Any) -> str:
    """Return the last message."""
    return messages_of(response)[-1]


def undo_addresses(page: Any) -> list[str]:
    return re.findall(r'action="([^"]*/undo/)"', page.content.decode())
