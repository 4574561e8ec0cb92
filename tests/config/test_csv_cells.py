"""Cells that a spreadsheet would compute: escaped in exports, and read back by imports as they were."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from config.csv_cells import escape, unescape


def test_escape__formula__gets_an_apostrophe() -> None:
    for text in ["=HYPERLINK(1)", "+1+1", "-a", "@x", "\tx", "\rx", "'=x"]:
        assert escape(text) == f"'{text}", text


def test_escape__anything_else__stays() -> None:
    for value in ["plain", "a=b", "", "'quoted'", "-1", "+1.5e-05", -1, -1.5, None, True]:
        assert escape(value) is value, value


@given(st.text(alphabet="'=+-@\t\ra1", max_size=6))
def test_escape__any_text__is_read_back_as_it_was(text: str) -> None:
    assert unescape(escape(text)) == text
    assert escape(text)[:1] not in tuple("=@\t\r")
    assert escape(text)[:1] not in ("+", "-") or text[1:].isdigit()
