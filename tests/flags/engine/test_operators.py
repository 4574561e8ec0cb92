"""Operators: the result of each for every type of attribute."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pytest

from flags.engine.conditions import compile_condition
from flags.engine.operators import OPERATORS
from flags.engine.types import Configuration, Context
from flags.validation.parsing import parse_segment

MISSING = None
NOW = datetime(2026, 3, 15, 12, tzinfo=UTC)
SCALARS = ("equals", "notEquals")
LISTS = ("in", "notIn")
TEXTS = ("contains", "notContains", "startsWith", "endsWith", "matches")
TIMES = ("before", "after")
VERSIONS = (
    "semverEquals",
    "semverGreaterThan",
    "semverGreaterThanOrEqual",
    "semverLessThan",
    "semverLessThanOrEqual",
)
NETWORKS = ("inCidr",)
SEGMENTS = ("inSegment",)
NUMBERS = ("greaterThan", "greaterThanOrEqual", "lessThan", "lessThanOrEqual")
VALUELESS = ("exists", "notExists")

MATCHES = [
    ("equals", "pro", "pro", True),
    ("equals", "pro", "Pro", False),
    ("equals", "", "", True),
    ("equals", 1, 1, True),
    ("equals", 1, 1.0, True),
    ("equals", 1.0, 1, True),
    ("equals", 1, 2, False),
    ("equals", 2**53 + 1, 2.0**53, False),
    ("equals", True, True, True),
    ("equals", True, False, False),
    ("equals", False, False, True),
    ("notEquals", "pro", "free", True),
    ("notEquals", "pro", "pro", False),
    ("notEquals", 1, 1.5, True),
    ("notEquals", 1, 1.0, False),
    ("notEquals", True, False, True),
    ("notEquals", True, True, False),
    ("in", ["DE", "AT"], "AT", True),
    ("in", ["DE", "AT"], "CH", False),
    ("in", ["DE", 1, True], "DE", True),
    ("in", ["DE", 1, True], 1.0, True),
    ("in", ["DE", 1, True], True, True),
    ("in", ["DE", 1, True], False, False),
    ("in", [0.5], 0.5, True),
    ("notIn", ["DE", "AT"], "CH", True),
    ("notIn", ["DE", "AT"], "AT", False),
    ("notIn", ["DE", 1], 2, True),
    ("notIn", ["DE", 1], 1.0, False),
    ("notIn", [True], False, True),
    ("contains", "@example.", "a@example.com", True),
    ("contains", "a", "a", True),
    ("contains", "A", "a", False),
    ("contains", "ab", "", False),
    ("startsWith", "beta-", "beta-7", True),
    ("startsWith", "beta-", "a-beta-", False),
    ("endsWith", ".de", "example.de", True),
    ("endsWith", ".de", "example.de ", False),
    ("greaterThan", 3, 3.5, True),
    ("greaterThan", 3, 3.0, False),
    ("greaterThan", 3, 2, False),
    ("greaterThanOrEqual", 3, 3, True),
    ("greaterThanOrEqual", 3, 2.999, False),
    ("lessThan", 0.5, 0, True),
    ("lessThan", 0.5, 0.5, False),
    ("lessThanOrEqual", 0.5, 0.5, True),
    ("lessThanOrEqual", -1, 0, False),
    ("lessThan", 10**400, 1e308, True),
    ("notContains", "@example.", "a@example.com", False),
    ("notContains", "@example.", "a@else.org", True),
    ("matches", "^a.+z$", "abcz", True),
    ("matches", "b+", "abbc", True),
    ("matches", "^b", "ab", False),
    ("matches", "ü", "für", True),
    ("matches", "(a+)+$", "a" * 4_000 + "!", False),
    ("matches", ".", "\ud800", False),
    ("before", "2026-03-01", "2026-02-28T23:59:59.999999Z", True),
    ("before", "2026-03-01", "2026-03-01T00:00:00Z", False),
    ("before", "2026-03-01T00:00:00Z", "2026-03-01T00:30:00+01:00", True),
    ("after", "2026-03-01", "2026-03-01T00:00:00.000001Z", True),
    ("after", "2026-03-01", "2026-03-01", False),
    ("after", "-7d", "2026-03-08T12:00:01Z", True),
    ("after", "-7d", "2026-03-08T12:00:00Z", False),
    ("before", "+36h", "2026-03-16T23:59:59Z", True),
    ("before", "+36h", "2026-03-17T00:00:00Z", False),
    ("after", "-2w", "2026-03-02", True),
    ("after", "-90s", "2026-03-15T11:58:31Z", True),
    ("after", "-30m", "2026-03-15T11:29:59Z", False),
    ("after", "2026-03-01", "yesterday", False),
    ("after", "2026-03-01", "2026-02-30", False),
    ("semverEquals", "1.2.3", "1.2.3", True),
    ("semverEquals", "1.2.3", "v1.2.3+build.7", True),
    ("semverEquals", "2", "2.0.0", True),
    ("semverEquals", "2.0.0", "2.0.0-rc.1", False),
    ("semverGreaterThan", "1.9.0", "1.10.0", True),
    ("semverGreaterThan", "1.10.0", "1.9.9", False),
    ("semverGreaterThan", "1.0.0-rc.1", "1.0.0", True),
    ("semverGreaterThan", "1.0.0-alpha.1", "1.0.0-alpha.beta", True),
    ("semverGreaterThan", "1.0.0-alpha", "1.0.0-alpha.1", True),
    ("semverGreaterThan", "1.0.0-beta.2", "1.0.0-beta.11", True),
    ("semverGreaterThanOrEqual", "2.1", "2.1.0", True),
    ("semverLessThan", "2.1", "2.1.0-rc.1", True),
    ("semverLessThan", "2.1", "2.1.1", False),
    ("semverLessThanOrEqual", "2.1", "2.1", True),
    ("semverGreaterThan", "1.0.0-7", "1.0.0-07", False),
    ("semverGreaterThan", "1.0.0-8", "1.0.0-07a", True),
    ("semverGreaterThan", "1", "01.2", False),
    ("semverLessThan", "1", "not a version", False),
    ("semverLessThan", "1", "9" * 5_000, False),
    ("inCidr", "10.0.0.0/8", "10.200.3.4", True),
    ("inCidr", "10.0.0.0/8", "11.0.0.1", False),
    ("inCidr", "10.1.2.3/8", "10.9.9.9", True),
    ("inCidr", "192.0.2.7", "192.0.2.7", True),
    ("inCidr", ["10.0.0.0/8", "2001:db8::/32"], "2001:db8::1", True),
    ("inCidr", ["10.0.0.0/8", "2001:db8::/32"], "2001:db9::1", False),
    ("inCidr", "10.0.0.0/8", "::ffff:10.1.2.3", True),
    ("inCidr", "::ffff:10.0.0.0/104", "10.1.2.3", True),
    ("inCidr", "::ffff:10.0.0.0/104", "::ffff:10.1.2.3", True),
    ("inCidr", "::ffff:10.0.0.0/104", "11.1.2.3", False),
    ("inCidr", "::/0", "::ffff:10.1.2.3", True),
    ("inCidr", "::/0", "10.1.2.3", False),
    ("inCidr", "10.0.0.0/8", "10.1.2", False),
    ("inSegment", "beta", "whatever", True),
    ("inSegment", "gamma", "whatever", False),
    ("inSegment", "no-such-segment", "whatever", False),
    ("exists", None, "pro", True),
    ("exists", None, "", True),
    ("exists", None, 0, True),
    ("exists", None, False, True),
    ("exists", None, [], True),
    ("exists", None, {}, True),
    ("exists", None, MISSING, False),
    ("notExists", None, MISSING, True),
    ("notExists", None, "", False),
    ("notExists", None, 0, False),
    ("notExists", None, [], False),
]

RIGHT_VALUES: dict[str, Any] = {
    **dict.fromkeys(SCALARS, "a"),
    "in": ["a", "b"],
    "notIn": ["a", "b"],
    **dict.fromkeys(TEXTS, "a"),
    **dict.fromkeys(NUMBERS, 1),
    **dict.fromkeys(TIMES, "2026-03-01"),
    **dict.fromkeys(VERSIONS, "1.0.0"),
    **dict.fromkeys(NETWORKS, "10.0.0.0/8"),
}
# By the kind of value that they are not: as keys, 1 and True would be one.
OTHER_KINDS: dict[type, list[object]] = {
    str: [MISSING, 0, 1, 1.5, math.nan, True, False, {}, {"a": "a"}, [1, None], [["a"]]],
    int: [MISSING, "", "1", "a", True, False, {}, {"1": 1}, ["1", True], [[1]]],
    bool: [MISSING, "true", "True", 0, 1, 1.0, {}, ["true", 1]],
}


BETA = parse_segment({"key": "beta", "userIds": ["user-1"]})
GAMMA = parse_segment({"key": "gamma", "userIds": ["user-2"]})


def holds(name: str, value: Any, actual: object, now: datetime = NOW, **modifiers: bool) -> bool:
    """Return whether `user-1` meets a condition on an attribute with this value."""
    attribute = {} if name in SEGMENTS else {"attribute": "asked"}
    compared = {} if name in VALUELESS else {"value": value}
    condition = compile_condition({**attribute, "operator": name, **compared, **modifiers})
    attributes = {} if actual is MISSING else {"asked": actual}
    return condition.test(Context("user-1", attributes, Configuration({}, {"beta": BETA, "gamma": GAMMA}), now))


def test_operators__table__has_exactly_the_promised_names() -> None:
    promised = SCALARS + LISTS + TEXTS + NUMBERS + TIMES + VERSIONS + NETWORKS + SEGMENTS + VALUELESS
    assert sorted(OPERATORS) == sorted(promised)


def test_operator__attribute_of_its_kind__compares() -> None:
    for name, value, actual, expected in MATCHES:
        assert holds(name, value, actual) is expected, (name, value)


COMPARABLE = [
    row for row in MATCHES if row[2] not in ("yesterday", "2026-02-30", "not a version", "10.1.2", "01.2", "1.0.0-07")
]
INCOMPARABLE = ("yesterday", "2026-02-30", "not a version", "10.1.2", "01.2", "1.0.0-07", "9" * 5_000, "\ud800")
COMPARABLE = [row for row in MATCHES if row[2] not in INCOMPARABLE]


def test_operator__negated__holds_where_it_did_not() -> None:
    for name, value, actual, expected in COMPARABLE:
        assert holds(name, value, actual, negate=True) is not expected, (name, value)
        assert holds(name, value, actual, negate=False) is expected, (name, value)


def test_operator__attribute_missing_or_of_another_kind__matches_neither_way() -> None:
    for negate in [False, True]:
        for name in RIGHT_VALUES:
            for actual in OTHER_KINDS[int if name in NUMBERS else str]:
                assert holds(name, RIGHT_VALUES[name], actual, negate=negate) is False, actual


@pytest.mark.parametrize("name", ["equals", "notEquals"])
def test_operator__boolean_value__does_not_match_numbers_or_text(name: str) -> None:
    assert not any(holds(name, True, actual) for actual in OTHER_KINDS[bool])


def test_operator__list_of_one_kind__does_not_match_other_kinds() -> None:
    for name in ["in", "notIn"]:
        for kind in ["a", 1, True]:
            assert not any(holds(name, [kind], actual) for actual in OTHER_KINDS[type(kind)]), (name, kind)


def test_operator__ignoring_case__compares_texts_alone_otherwise() -> None:
    for name, value, actual in [
        ("equals", "Straße", "STRASSE"), ("in", ["a", "Pro", 1], "PRO"), ("contains", "@Example.", "me@EXAMPLE.com"),
        ("startsWith", "Beta", "beta-7"), ("endsWith", ".DE", "example.de"), ("matches", "^beta-[a-z]+$", "BETA-X"),
        ("equals", 1, 1), ("greaterThan", 1, 2), ("inCidr", "2001:DB8::/32", "2001:db8::1"),
    ]:  # fmt: skip
        assert holds(name, value, actual, ignoreCase=True), (name, value)
        assert not holds(name, value, actual, ignoreCase=True, negate=True), (name, value)


def test_operator__by_default__minds_case() -> None:
    for name, value, actual in [
        ("equals", "pro", "PRO"), ("contains", "A", "a"), ("in", ["pro"], "Pro"), ("matches", "pro", "PRO"),
    ]:  # fmt: skip
        assert not holds(name, value, actual), (name, value)


def test_operator__list_as_attribute__matches_if_any_element_does() -> None:
    for name, value, actual, expected in [
        ("equals", "admin", ["user", "admin"], True),
        ("equals", "admin", ["user"], False),
        ("equals", "admin", [], False),
        ("equals", "admin", [1, "admin", None], True),
        ("in", ["admin", "owner"], ["user", "owner"], True),
        ("contains", "adm", ["user", "admin"], True),
        ("greaterThan", 10, [1, 11], True),
        ("after", "2026-01-01", ["2025-01-01", "2026-05-01"], True),
        ("notEquals", "admin", ["user", "admin"], False),
        ("notEquals", "admin", ["user", "owner"], True),
        ("notIn", ["admin"], ["user", "admin"], False),
        ("notIn", ["admin"], ["user"], True),
        ("notIn", ["admin"], [], True),
        ("notContains", "adm", ["user"], True),
        ("notContains", "adm", ["user", "admin"], False),
        ("exists", None, [None], True),
    ]:
        assert holds(name, value, actual) is expected, (name, value)
        assert holds(name, value, actual, negate=True) is not expected, (name, value)


def test_operator__attribute_that_is_too_long_to_look_at__matches_neither_way() -> None:
    for negate in [False, True]:
        for name, value, actual in [
            ("matches", "a", "a" * 4_097),
            ("in", ["a"], ["a"] * 1_001),
            ("semverGreaterThan", "1", f"2.0.0+{'a' * 251}"),
        ]:
            assert holds(name, value, actual[:-1] if isinstance(actual, str | list) else actual), (negate, name, value)
            assert not holds(name, value, actual, negate=negate), (negate, name, value)


def test_operator__relative_time_beyond_all_time__is_the_end_of_it() -> None:
    for name in TIMES:
        for now in [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)]:
            for value in ["-99999w", "+99999w"]:
                assert holds(name, value, "2026-01-01", now) is ((name == "before") is (now.year == 9999)), (
                    name,
                    now,
                    value,
                )
