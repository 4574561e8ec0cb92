"""Changes in words."""

from __future__ import annotations

from typing import Any

import pytest

from config.change_log.descriptions import Comparison, compare_documents, describe_differences, describe_path


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("description", "description"),
        ("states.production.enabled", "production, enabled"),
        ("states.eu.rules[0].percentage", "eu, rule 1, percentage"),
        ("rules[1].conditions[0].value", "rule 2, condition 1, value"),
        ("offVariant", "off variant"),
        ("userIds[3]", "user id 4"),
        ("rules[0].userIds", "rule 1, user ids"),
    ],
)
def test_path__in_words(path: str, expected: str) -> None:
    assert describe_path(path) == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": "x"}, ['a: 1 → "x"']),
        ({"a": 1}, {}, ["a: 1 → nothing"]),
        ({}, {"at": "2026-01-31T12:00:00.000000Z"}, ["at: nothing → 2026-01-31 12:00:00 UTC"]),
        ({"a": "x"}, {"a": "on 2026-01-31T12:00:00.000000Z"}, ['a: "x" → "on 2026-01-31T12:00:00.000000Z"']),
        ({"a": ["x", "y"]}, {"a": ["y", "z"]}, ['a: 1 added ("z"), 1 removed ("x")']),
        ({"a": ["x", "y"]}, {"a": ["y", "x"]}, ["a: in another order"]),
        ({"id": "1", "key": "k"}, None, []),
        (
            None,
            {"states": {"eu": {"enabled": True}, "us": {"enabled": False}}},
            ["eu, enabled: nothing → true", "us, enabled: nothing → false"],
        ),
        ({"a": "x" * 400}, {"a": ""}, [f'a: "{"x" * 299}… → ""']),
    ],
)
def test_difference__in_words(before: Any, after: Any, expected: list[str]) -> None:
    assert describe_differences(before, after) == expected


def test_difference__of_long_lists__is_counted() -> None:
    before, after = [f"u{number}" for number in range(100_000)], ["new"]
    assert describe_differences({"userIds": before}, {"userIds": after}) == [
        'user ids: 1 added ("new"), 100,000 removed ("u0", "u1", "u2", "u3", "u4", …)'
    ]


def test_differences__of_which_there_are_too_many__are_counted() -> None:
    lines = describe_differences(None, {f"n{number}": number for number in range(250)})
    assert (len(lines), lines[-1]) == (201, "and 50 more differences")


def test_value__for_which_there_are_words__is_told_by_them() -> None:
    assert describe_differences({"a": 1}, {"a": 2}, lambda path, value: f"{path} {value}!") == ["a: a 1! → a 2!"]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("Theirs", "Mine", ("Theirs", "Mine")),
        ("", "EUR", ("nothing", "EUR")),
        (5, "5", ("5", '"5"')),
        (True, "yes", ("yes", '"yes"')),
        (None, {"flag": "beta", "variants": ["on", "off"]}, ("nothing", "flag: beta; variants: (on, off)")),
        ([], {"minProperties": 1}, ("none", "min properties: 1")),
        ("x" * 301, {}, (f"{'x' * 300}…", "nothing")),
    ],
)
def test_comparison__of_two_versions__has_no_quotes_and_brackets(
    first: Any, second: Any, expected: tuple[str, str]
) -> None:
    [comparison] = compare_documents({"a": first}, {"a": second}, lambda _path, _value: None)
    assert comparison == Comparison("a", *expected)


def test_comparison__of_lists_of_text__names_what_each_alone_has() -> None:
    [comparison] = compare_documents({"tags": ["a", "b"]}, {"tags": ["a", "c"]}, lambda _path, _value: None)
    assert comparison == Comparison("tags", "1 that the other lacks (b)", "1 that the other lacks (c)")
