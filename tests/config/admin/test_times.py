"""Points in time in templates: elements with the exact time, in the time zone of the setting."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.template import engines

MOMENT = datetime(2026, 1, 31, 23, 30, 5, 1, tzinfo=UTC)


def test_filter__is_an_element_with_the_exact_time(subtests: pytest.Subtests, settings: object) -> None:
    for name, zone, text in [
        ("minute", "UTC", "31 Jan 2026, 23:30"),
        ("second", "UTC", "31 Jan 2026, 23:30:05 UTC"),
        ("day", "UTC", "31 Jan 2026"),
        ("minute", "Europe/Zurich", "1 Feb 2026, 00:30"),
        ("second", "Europe/Zurich", "1 Feb 2026, 00:30:05 CET"),
    ]:
        with subtests.test(name=name, zone=zone):
            settings.TIME_ZONE = zone  # type: ignore[attr-defined]
            shown = engines["django"].from_string("{{ at|" + name + " }}").render({"at": MOMENT})
            assert shown == (
                '<time class="hy-moment" datetime="2026-01-31T23:30:05.000001Z" title="31 Jan 2026, 23:30:05 UTC">'
                f"{text}</time>"
            )


@pytest.mark.parametrize("name", ["minute", "second", "day"])
def test_filter__of_nothing__is_empty(name: str) -> None:
    assert engines["django"].from_string("{{ at|" + name + " }}").render({"at": None}) == ""


def test_filter__of_the_first_hour_of_the_calendar__is_shown_as_it_is(settings: object) -> None:
    settings.TIME_ZONE = "America/New_York"  # type: ignore[attr-defined]
    first = datetime(1, 1, 1, tzinfo=UTC)
    assert "1 Jan 0001, 00:00</time>" in engines["django"].from_string("{{ at|minute }}").render({"at": first})
