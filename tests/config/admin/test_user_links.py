"""Words on pages of the admin: each id of a user in them is a link to this user, and all the rest is text."""

from __future__ import annotations

import html
import re

import pytest
from django.template import Context, Template

from config.admin.columns import unbroken
from config.admin.user_links import link_users
from config.change_log.named_users import fill, name_user
from tests.named_users import HOSTILE, links_of


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
