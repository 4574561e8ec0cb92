"""Ids of users that are hard to show, and the links to users within the words of a page."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qs, urlsplit

HOSTILE = (
    *("<b>&\"'</b>", "a/b?c#d&e=f", "..", " x ", "é😀", "א-ב", "\u202eabc", "tab\tline\nbell\x07", "{}", "{0}", "5 %"),
    *("javascript:alert(1)", "x, y; z", "&lt;i&gt;", "%41+%42", "no", "5", "u" * 200),
)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str, str]] = []
        self._address = ""
        self._text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "a":
            address = given.get("href") or ""
            is_in_words = given.get("class") == "hy-named" or ("class" not in given and "/user/?id=" in address)
            self._address, self._text = address if is_in_words else "", ""

    def handle_data(self, data: str) -> None:
        self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "a" and self._address:
            address = urlsplit(self._address)
            assert address.path == "/admin/experiments/experiment/user/"
            query = {name: values[0] for name, values in parse_qs(address.query, strict_parsing=True).items()}
            self.found.append((query["id"], self._text, query.get("in", "")))
            self._address = ""


def links_of(text: str) -> list[tuple[str, str, str]]:
    """Return the id, the text and the environment of each link to a user within words, in order."""
    reader = _Reader()
    reader.feed(text)
    return reader.found


def linked_on(response: Any) -> set[str]:
    """Return the ids of the users to whom words on a page lead."""
    assert response.status_code == 200
    return {user_id for user_id, _, _ in links_of(response.content.decode())}
