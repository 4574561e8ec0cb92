"""Points in time in templates: elements with the exact time, in the time zone of the setting."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime

import pytest
from django.template import Context, Template, engines

from config.admin.columns import unbroken
from config.admin.template_filters import link_users
from config.change_log.named_users import fill, name_user
from tests.named_users import HOSTILE, links_of

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


def test_words__with_any_id__link_it_and_escape_the_rest() -> None:
    for user_id in HOSTILE:
        words = fill("{} & {}<i>", user_id, name_user(user_id))
        shown = link_users(words)
        assert links_of(shown) == [(user_id, user_id, "")], user_id
        assert set(re.findall(r"<[^>]*>", shown)) == {re.search(r"<a [^>]*>", shown)[0], "</a>"}, user_id  # type: ignore[index]
        assert html.unescape(re.sub(r"<[^>]*>", "", shown)) == words, user_id


def test_words__that_are_shortened__link_the_whole_id() -> None:
    assert links_of(link_users(name_user("u" * 200, "uuu…"))) == [("u" * 200, "uuu…", "")]


def test_words__of_another_environment__lead_there() -> None:
    assert links_of(link_users(name_user("a&b"), "staging")) == [("a&b", "a&b", "staging")]


@pytest.mark.parametrize("user_id", ["5 %", "a % b"])
def test_words__with_percent_signs__stay_linked(user_id: str) -> None:
    words = unbroken(fill("25 % of {}", name_user(user_id)))
    assert links_of(link_users(words)) == [(user_id, user_id.replace(" %", "\N{NO-BREAK SPACE}%"), "")]


def test_text__that_names_nobody__is_escaped() -> None:
    assert link_users("<b> & ada") == "&lt;b&gt; &amp; ada"


def test_template__without_the_filter__has_plain_text() -> None:
    rendered = Template("{{ words }} {{ words|link_users_aside }}").render(Context({"words": name_user("<ada>")}))
    first, _, second = rendered.partition(" ")
    assert first == "&lt;ada&gt;"
    assert second.startswith(
        '<a class="hy-named" href="/admin/experiments/experiment/user/?id=%3Cada%3E" target="_blank">'
    )
