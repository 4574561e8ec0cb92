"""Lists of texts in forms, one a line: each list that the API accepts stays as it is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from config.admin.forms import LinesField
from tests.hostile_lines import HOSTILE, PLAIN, QUOTED

FIELD = LinesField()


def sent(values: list[str]) -> list[str]:
    """Return the list of a form that a browser sends as it was loaded."""
    shown = str(FIELD.prepare_value(values))
    return list(FIELD.clean(shown.replace("\r", "\n").replace("\n", "\r\n")))


def test_lines__any_text__stay_the_same() -> None:
    for value in HOSTILE:
        assert sent([value]) == [value], value
        assert sent(["a", value, "b"]) == ["a", value, "b"], value
        assert len(FIELD.prepare_value(["a", value, "b"]).split("\n")) == 3, value


@given(st.lists(st.text(alphabet=st.sampled_from('"\\\r\n\t nab,\u2028\ufeff\x85\x1c'))))
def test_lines__any_list__stays_the_same(values: list[str]) -> None:
    assert sent(values) == values


def test_line__that_is_plain__is_the_text_with_its_quotes() -> None:
    for line in PLAIN:
        assert FIELD.clean(line) == [line], line
        assert FIELD.prepare_value([line]) == line, line


def test_line__in_quotes__is_a_text_that_a_plain_line_cannot_show() -> None:
    for line, value in QUOTED:
        assert FIELD.clean(line) == [value], value
        assert FIELD.prepare_value([value]) == line, value


def test_lines__blank__are_ignored() -> None:
    assert FIELD.clean("a\r\n\r\n \t\r\n\ufeff\r\nb") == ["a", "b"]


def test_lines__typed__are_shown_as_they_were_typed() -> None:
    assert FIELD.prepare_value('"a\\u000ab"\n\n"') == '"a\\u000ab"\n\n"'
