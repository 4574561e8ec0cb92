"""What the admin pages of all apps have in common."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from config.admin.columns import time_cell
from config.timestamps import format_timestamp
from tests.admin import sign_in

LAST = datetime.max.replace(tzinfo=UTC)
FIRST = datetime.min.replace(tzinfo=UTC)


@pytest.mark.parametrize(("zone", "at"), [("Pacific/Kiritimati", LAST), ("America/Adak", FIRST)])
def test_moment__that_the_time_zone_cannot_hold__is_shown_in_utc(settings: Any, zone: str, at: datetime) -> None:
    settings.TIME_ZONE = zone

    assert str(at.year) in str(time_cell(at))
    assert format_timestamp(at) in str(time_cell(at))


@pytest.mark.django_db
def test_list__any__is_called_as_in_the_menu() -> None:
    client = sign_in()
    for page, title in [
        ("flags/flag", "Flags"),
        ("experiments/metric", "Metrics"),
        ("config/apikey", "API keys"),
        ("auth/user", "Users"),
        ("auth/group", "Groups"),
    ]:
        content = client.get(f"/admin/{page}/").content.decode()
        found = re.search(r"<title>\s*(.*?)\s*</title>", content, re.DOTALL)
        assert found is not None, (page, title)
        assert found[1] == f"{title} | Halyard", (page, title)
