"""YAML and JSON: written text is read again, and invalid text is refused with its line."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from flags.files import syntax
from flags.files.syntax import MAX_DEPTH, UnreadableText, parse, write

TRICKY = [
    *("", " ", "yes", "No", "on", "null", "Null", "~", "true", "y", "1", "-1", "0x1F", "012", "1_000", "1e5", "12:30"),
    *("2026-01-31", "=", "<<", "- a", "? a", "a: b", "a #b", "a:", "#", "|", ">", "&a", "*a", "!a", "%a", "@a", "`a"),
    *("a\nb", "a\n\nb", "\na", "a\n", "a \nb", " a\nb", "a\n  b", "a\n---\nb", "a\r\nb", "a\tb", "---", "...", "\t"),
    *("é", "日本語", "\u2028", "\x85", "\xa0", "\ufeff", "\x7f", "\x01", "😀", "'", '"', "\\", "a ", " a"),
    *("x" * 90 + "y" * 40, "z" * 1500, '"quoted": 1', "{a}", "[a]", "a, b", "it's 5 % of it (or so)"),
]
TEXTS = st.one_of(
    st.sampled_from(TRICKY), st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
)
NUMBERS = st.one_of(st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False, allow_infinity=False))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=12,
)


def is_identical(one: Any, other: Any) -> bool:
    """Compare types and order too."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(is_identical(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_identical, one, other))
    return bool(one == other)


@pytest.fixture(params=["libyaml", "python"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both parsers, because the one in C may not be installed."""
    monkeypatch.setattr(syntax, "_new_yaml", partial(YAML, typ="safe", pure=request.param == "python"))


@given(VALUES)
@settings(max_examples=300)
def test_yaml__any_json_value__is_read_as_it_was_written(value: Any) -> None:
    assert is_identical(parse(write(value, "yaml"), "yaml").value, value)


@given(VALUES)
def test_json__any_json_value__is_read_as_it_was_written(value: Any) -> None:
    assert is_identical(parse(write(value, "json"), "json").value, value)


@given(VALUES)
def test_yaml__any_json_value__is_the_same_to_other_readers_of_yaml(value: Any) -> None:
    assert is_identical(_as_text(yaml.safe_load(write(value, "yaml"))), _as_text(value))


def _as_text(value: Any) -> Any:
    """Numbers as text, because YAML 1.1 reads 1e+16 as text."""
    if isinstance(value, dict):
        return {name: _as_text(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_as_text(each) for each in value]
    return str(value) if isinstance(value, float) else value


@pytest.mark.usefixtures("parser")
def test_yaml__tricky_text__is_read_as_it_was_written() -> None:
    for value in TRICKY:
        document = {value: [value, {"a": value}]}
        assert parse(write(document, "yaml"), "yaml").value == document, value


@pytest.mark.usefixtures("parser")
def test_yaml__without_quotes__is_what_json_says_or_else_text() -> None:
    for text, value in [
        ("yes", "yes"), ("True", "True"), ("~", "~"), ("012", "012"), ("0x1F", "0x1F"), ("1_000", "1_000"),
        ("12:30:45", "12:30:45"), ("2026-01-31", "2026-01-31"), (".5", ".5"), ("+1", "+1"), (".inf", ".inf"),
        ("NaN", "NaN"), ("<<", "<<"), ("1e5", 100000.0), ("-0.5", -0.5), ("12", 12), ('"12"', "12"),
        ("'true'", "true"), ("null", None),
    ]:  # fmt: skip
        found = parse(f"a: {text}", "yaml").value
        assert is_identical(found, {"a": value}), (text, value)


@pytest.mark.usefixtures("parser")
def test_yaml__that_is_not_taken__is_refused_with_its_line(subtests: pytest.Subtests) -> None:
    for text, line, words in [
        ("a: 1\nb: &x 2\n", 2, "anchor &x"),
        ("a: 1\nb: *x\n", 2, "alias *x"),
        ("a: &a [1]\nb: &b [*a, *a]\n", 1, "anchor"),
        ("a: !!python/object/apply:os.system [ls]\n", 1, "tag"),
        ("a: !!str 1\n", 1, "tag"),
        ("a: 1\n---\nb: 2\n", 2, "second document"),
        ("a: 1\nb:\nc: 2\n", 2, "value is missing"),
        ("a:\n  - 1\n  -\n", 3, "value is missing"),
        ("a: [1\nb: 2\n", 2, "not valid YAML"),
        ("a:\n\t- 1\n", 2, "not valid YAML"),
        ("a: 1\n? [b]\n: 2\n", 2, "name of a field"),
        ("a: 1\nb: \x07\n", 2, '"\\u0007"'),
        ("", 1, "empty"),
        ("# nothing\n", 1, "empty"),
        ("a:\n " + "[" * 70 + "]" * 70, 2, "nested deeper than 64"),
    ]:
        with subtests.test(text=text):
            with pytest.raises(UnreadableText) as refused:
                parse(text, "yaml")
            [defect] = refused.value.defects
            assert defect.line == line
            assert words in defect.message


def test_json__that_is_not_taken__is_refused_with_its_line(subtests: pytest.Subtests) -> None:
    for text, line, words in [
        ('{\n"a": 1,\n}', 3, "not valid JSON"),
        ('{"a": 1}\n{"b": 2}', 2, "extra data"),
        ('{"a":\n NaN}', 2, "NaN is not a number"),
        ('{"a":\n -Infinity}', 2, "-Infinity is not a number"),
        ("\n \n", 1, "empty"),
        ('{"a":\n' + "[" * 70 + "]" * 70 + "}", 2, "nested deeper than 64"),
        ("[" * 100_000, 1, "nested deeper than 64"),
        ("[" * 100_000 + "]" * 100_000, 1, "nested deeper than 64"),
    ]:
        with subtests.test(text=text):
            with pytest.raises(UnreadableText) as refused:
                parse(text, "json")
            [defect] = refused.value.defects
            assert defect.line == line
            assert words in defect.message


def test_value__that_no_field_may_hold__is_a_defect_with_its_line(subtests: pytest.Subtests) -> None:
    for text, line, words in [
        ('{"a": 1,\n"b": 2,\n"a": 3}', 3, '"a" appears twice'),
        ('{"a": 1,\n"\\u0061": 3}', 2, '"a" appears twice'),
        ('["a",\n"\\u0000"]', 2, "U+0000"),
        ("[1,\n18446744073709551616]", 2, "64 bits"),
        ("[1,\n" + "9" * 5000 + "]", 2, "64 bits"),
        ("[1,\n1e999]", 2, "too large"),
    ]:
        for form in ["yaml", "json"]:
            with subtests.test(text=text, form=form):
                with pytest.raises(UnreadableText) as refused:
                    parse(text, form)
                [defect] = refused.value.defects
                assert defect.line == line
                assert words in defect.message


def test_json__half_of_a_surrogate_pair__is_a_defect_with_its_line() -> None:
    with pytest.raises(UnreadableText) as refused:
        parse('["a",\n"\\ud83d"]', "json")
    [defect] = refused.value.defects
    assert (defect.line, defect.message) == (2, "Must not contain half of a surrogate pair.")


def test_depth__of_64__is_taken() -> None:
    text = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert parse(text, "json").value == parse(text, "yaml").value


FILE = """\
version: 1

flags:
  - key: a
    rules:
      - type: percentage
        percentage: 5
      - name: b
        type: users
  - a.b: 1
    a.b.c:
      - 2
"""


def test_lines__of_a_path__are_those_of_its_innermost_part() -> None:
    for path, line in [
        ("", 1), ("flags", 3), ("flags[0]", 4), ("flags[0].key", 4), ("flags[0].rules", 5), ("flags[0].rules[1]", 8),
        ("flags[0].rules[1].type", 9), ("flags[0].rules[1].missing", 8), ("flags[0].rules[7].type", 5),
        ("flags[1].a.b", 10), ("flags[1].a.b.c", 11), ("flags[1].a.b.c[0].d", 12), ("nothing.here", 1),
    ]:  # fmt: skip
        assert parse(FILE, "yaml").line_of(path) == line, path


def test_json__escapes__are_the_same_with_and_without_lines() -> None:
    for escaped in ['"\\ud83d\\ude00"', '"\\"\\\\\\ud83d\\ude00"', '"\\\\"']:
        text = f'{{"a": 1,\n{escaped}: [\n{escaped}]}}'
        name = json.loads(escaped)
        found = parse(text, "json")
        assert found.value == {"a": 1, name: [name]}, escaped
        assert (found.line_of(name), found.line_of(f"{name}[0]")) == (2, 3), escaped
