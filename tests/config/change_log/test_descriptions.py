"""Changes in words: sentences of differences, and how they read once they were made."""

from __future__ import annotations

from typing import Any

import pytest

from config.change_log.descriptions import (
    Comparison,
    compare_documents,
    describe_change,
    describe_differences,
    describe_path,
)
from config.change_log.named_users import users_in
from config.change_log.sentences import KindWords, in_past, kind_words
from config.models import Change
from tests.conftest import NOON

KIND = "thing"


def differences(before: Any, after: Any) -> list[str]:
    return describe_differences(before, after, KIND, NOON)


def test_path__in_words() -> None:
    for path, expected in [
        ("description", "description"),
        ("states.production.enabled", "production, enabled"),
        ("states.eu.rules[0].percentage", "eu, rule 1, percentage"),
        ("rules[1].conditions[0].value", "rule 2, condition 1, value"),
        ("offVariant", "variant when off"),
        ("userIds[3]", "user id 4"),
        ("rules[0].userIds", "rule 1, user ids"),
    ]:
        assert describe_path(path, KindWords(labels={"offVariant": "the variant when off"})) == expected


def test_difference__is_a_sentence() -> None:
    for before, after, expected in [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": "x"}, ["Change the a from 1 to “x”"]),
        ({"a": 1}, {}, ["Remove the a: 1"]),
        ({"a": ""}, {"a": "x"}, ["Set the a to “x”"]),
        ({"a": 1_000}, {"a": 2_500.5}, ["Change the a from 1,000 to 2,500.5"]),
        ({"a": False}, {"a": True}, ["Change the a from no to yes"]),
        ({}, {"at": "2026-01-31T12:00:00.000000Z"}, ["Set the at to 31 Jan 2026, 12:00 UTC"]),
        ({}, {"at": "2026-01-31T12:00:07.500000Z"}, ["Set the at to 31 Jan 2026, 12:00:07 UTC"]),
        ({}, {"a": "on 2026-01-31T12:00:00.000000Z"}, ["Set the a to “on 2026-01-31T12:00:00.000000Z”"]),
        ({"a": ["x", "y"]}, {"a": ["y", "z"]}, ["Add z to the a", "Remove x from the a"]),
        ({"a": ["x", "y"]}, {"a": ["y", "x"]}, ["Change the order of the a"]),
        ({"a": [1, 1]}, {"a": [1, True]}, ["Add yes to the a", "Remove 1 from the a"]),
        ({"id": "1", "key": "k"}, None, []),
        (None, {"offVariant": "blue", "tags": []}, ["Set the off variant to “blue”"]),
        ({"a": "x" * 400}, {"a": ""}, [f"Remove the a: “{'x' * 300}…”"]),
    ]:
        assert differences(before, after) == expected


def test_difference__of_long_lists__is_counted() -> None:
    before, after = [f"u{number}" for number in range(100_000)], ["new"]
    assert differences({"userIds": before}, {"userIds": after}) == [
        "Add new to the user ids",
        "Remove 100,000 (u0, u1, u2, u3, u4, …) from the user ids",
    ]


def test_differences__of_which_there_are_too_many__are_counted() -> None:
    lines = differences(None, {f"n{number}": number for number in range(250)})
    assert (len(lines), lines[-1]) == (201, "and 50 more differences")


def test_difference__for_which_a_kind_has_words__is_reported_by_them(monkeypatch: pytest.MonkeyPatch) -> None:
    words = KindWords({"a": "the first"}, lambda path, value, at: f"{path} {value}!", missing={"b": "much"})
    monkeypatch.setitem(kind_words, KIND, words)
    assert differences({"a": 1}, {"a": 2, "b": 1}) == [
        "Change the first from a 1! to a 2!",
        "Change the b from much to b 1!",
    ]
    [comparison] = compare_documents({"a": 1}, {"a": 2}, KIND, NOON)
    assert comparison == Comparison("first", "a 1!", "a 2!")


def test_comparison__of_two_versions__has_no_quotes_and_brackets() -> None:
    for first, second, expected in [
        ("Theirs", "Mine", ("Theirs", "Mine")),
        ("", "EUR", ("nothing", "EUR")),
        (5, "5", ("5", "“5”")),
        (True, "yes", ("yes", "“yes”")),
        (" ", ["", "a,b", "5", 5], ("“ ”", "“”, “a,b”, “5”, 5")),
        (None, {"flag": "beta", "variants": ["on", "off"]}, ("nothing", "flag: beta; variants: (on, off)")),
        ([], {"minProperties": 1}, ("none", "min properties: 1")),
        ("x" * 301, {}, (f"{'x' * 300}…", "nothing")),
    ]:
        [comparison] = compare_documents({"a": first}, {"a": second}, KIND, NOON)
        assert comparison == Comparison("a", *expected)


def test_comparison__of_lists_of_text__names_what_each_alone_has() -> None:
    [comparison] = compare_documents({"tags": ["a", "b"]}, {"tags": ["a", "c"]}, KIND, NOON)
    assert comparison == Comparison("tags", "1 that the other lacks (b)", "1 that the other lacks (c)")


def test_comparison__of_texts_with_commas__quotes_each() -> None:
    [comparison] = compare_documents({"tags": ["a", "b"]}, {"tags": ["a", "b, c"]}, KIND, NOON)
    assert comparison == Comparison("tags", "1 that the other lacks (b)", "1 that the other lacks (“b, c”)")
    [comparison] = compare_documents({"a": {"in": ["b, c"]}}, {"a": None}, KIND, NOON)
    assert comparison.first == "in: (“b, c”)"


def test_sentence__in_the_past() -> None:
    for sentence, expected in [
        ("Switch on in production", "Switched on in production"),
        ("Archive", "Archived"),
        ("Set the owner to “ada”", "Set the owner to “ada”"),
        ("Stop the experiment and ship green", "Stopped the experiment and shipped green"),
        ("Stop protecting the environment", "Stopped protecting the environment"),
        ("and 3 more differences", "and 3 more differences"),
    ]:
        assert in_past(sentence) == expected


LISTED = {"type": "users", "userIds": ["ada", "bob"]}


def test_change__of_lists_of_users__names_those_of_one_side() -> None:
    for before, after, expected in [
        ({"userIds": ["ada", "bob"]}, {"userIds": ["bob", "cy"]}, []),  # the lines name them
        ({"userIds": []}, {"userIds": [*"abcdefg"]}, ["f", "g"]),
        (None, {"rules": [{"segment": "s"}, LISTED]}, ["ada", "bob"]),
        # Another environment lists the same users.
        (
            {"states": {"a": {"rules": [LISTED]}, "b": {"rules": [LISTED]}}},
            {"states": {"a": {"rules": [LISTED]}}},
            ["ada", "bob"],
        ),
        ({"forcedVariants": None}, {"forcedVariants": {"ada": "blue"}}, ["ada"]),
        ({"rules": [{"forced": {"ada": "blue"}}]}, {"rules": [{"forced": {}}]}, ["ada"]),
        ({"description": "ada"}, {"description": "bob"}, []),
    ]:
        change = describe_change(Change(kind=KIND, before=before, after=after, at=NOON))
        assert (list(change.users), change.more_users) == (expected, 0)


def test_change__of_many_users__names_the_first() -> None:
    after = {"userIds": [f"u{number:02}" for number in range(25)]}
    change = describe_change(Change(kind=KIND, before=None, after=after, at=NOON))
    assert (change.users[0], change.users[-1], change.more_users) == ("u00", "u09", 15)


def for_ids(value: Any) -> dict[str, Any]:
    return {"rules": [{"conditions": [{"attribute": "userId", "operator": "in", "value": value}]}]}


def test_comparison__of_versions_that_name_users__knows_them() -> None:
    for first, second, expected, users in [
        ({"userIds": ["a,b", "5"]}, {"userIds": []}, ("User ids", "(“a,b”, 5)", "none"), ["a,b", "5"]),
        ({"userIds": ["ada"]}, {"userIds": None}, ("User ids", "ada", "nothing"), ["ada"]),
        (
            {"forcedVariants": {"a.B": "x"}},
            {"forcedVariants": {"a.B": "y"}},
            ("Forced variants, a.B", "x", "y"),
            ["a.B"],
        ),
        (
            {"rules": [{"forced": {"a": "x"}}]},
            {"rules": [{"forced": None}]},
            ("Rule 1, forced", "a: x", "nothing"),
            ["a"],
        ),
        (
            for_ids(["ada"]),
            for_ids(["bob", 5]),
            ("Rule 1, condition 1, value", "(ada)", "(bob, the number 5)"),
            ["ada", "bob"],
        ),
        (for_ids("ada"), for_ids("bob"), ("Rule 1, condition 1, value", "ada", "bob"), ["ada", "bob"]),
        (
            {"variants": [{"value": {"userIds": ["a"]}}]},
            {"variants": [{"value": {"userIds": []}}]},
            ("", "(a)", ""),
            [],
        ),
    ]:
        [comparison] = compare_documents(first, second, KIND, NOON)
        shown = (comparison.title, comparison.first, comparison.second)
        assert all(part in whole for part, whole in zip(expected, shown, strict=True)), shown
        assert [user.user_id for text in shown for user in users_in(text)] == users
