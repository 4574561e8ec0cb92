"""What the admin pages of all apps have in common."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from config.admin.site import moment

LAST = datetime.max.replace(tzinfo=UTC)
FIRST = datetime.min.replace(tzinfo=UTC)


@pytest.mark.parametrize(("zone", "at"), [("Pacific/Kiritimati", LAST), ("America/Adak", FIRST)])
def test_moment__that_the_time_zone_cannot_hold__is_shown_in_utc(settings: Any, zone: str, at: datetime) -> None:
    settings.TIME_ZONE = zone

    assert str(at.year) in str(moment(at))
    assert at.isoformat() in str(moment(at))
