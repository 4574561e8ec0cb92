"""Operators: what each makes of every kind of attribute, and which values it takes."""

from __future__ import annotations

import math
from typing import Any

import pytest

from config.errors import DetailCode
from flags.engine.operators import OPERATORS

MISSING = None
SCALARS = ("equals", "notEquals")
LISTS = ("in", "notIn")
TEXTS = ("contains", "startsWith", "endsWith")
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
}
# By the kind of value that they are not: as keys, 1 and True would be one.
OTHER_KINDS: dict[type, list[object]] = {
    str: [MISSING, 0, 1, 1.5, math.nan, True, False, [], ["a"], ["a", "b"], {}, {"a": "a"}],
    int: [MISSING, "", "1", "a", True, False, [], [1], {}, {"1": 1}],
    bool: [MISSING, "true", "True", 0, 1, 1.0, [], [True], {}],
}

REFUSED = [
    *[(name, value, "", DetailCode.INVALID_TYPE) for name in SCALARS for value in (None, [], ["a"], {})],
    *[(name, value, "", DetailCode.INVALID_VALUE) for name in SCALARS for value in (math.nan, math.inf)],
    *[(name, value, "", DetailCode.INVALID_TYPE) for name in LISTS for value in (None, "a", 1, True, {})],
    *[(name, value, "", DetailCode.OUT_OF_RANGE) for name in LISTS for value in ([], list(range(1_001)))],
    *[(name, ["a", value], "[1]", DetailCode.INVALID_TYPE) for name in LISTS for value in (None, [], {})],
    *[(name, ["a", math.nan], "[1]", DetailCode.INVALID_VALUE) for name in LISTS],
    *[(name, value, "", DetailCode.INVALID_TYPE) for name in TEXTS for value in (None, 1, True, ["a"], {})],
    *[(name, "", "", DetailCode.INVALID_VALUE) for name in TEXTS],
    *[(name, value, "", DetailCode.INVALID_TYPE) for name in NUMBERS for value in (None, "1", True, [1], {})],
    *[(name, value, "", DetailCode.INVALID_VALUE) for name in NUMBERS for value in (math.nan, -math.inf)],
]

TAKEN = [
    *[(name, value) for name in SCALARS for value in ("a", "", 0, -1.5, True, False, 10**400)],
    *[(name, value) for name in LISTS for value in (["a"], [""], [1, 1.0, True, "1"], list(range(1_000)))],
    *[(name, value) for name in TEXTS for value in ("a", " ", "😀" * 300)],
    *[(name, value) for name in NUMBERS for value in (0, -0.0, 1e300, 2**63, 10**400)],
]


def test_operators__table__has_exactly_the_promised_names() -> None:
    assert sorted(OPERATORS) == sorted(SCALARS + LISTS + TEXTS + NUMBERS + VALUELESS)


@pytest.mark.parametrize(("name", "value", "actual", "expected"), MATCHES)
def test_operator__attribute_of_its_kind__compares(name: str, value: Any, actual: object, expected: bool) -> None:
    assert OPERATORS[name].compile(value)(actual) is expected


@pytest.mark.parametrize("name", RIGHT_VALUES)
def test_operator__attribute_missing_or_of_another_kind__does_not_match(name: str) -> None:
    value = RIGHT_VALUES[name]
    matches = OPERATORS[name].compile(value)
    for actual in OTHER_KINDS[int if name in NUMBERS else str]:
        assert matches(actual) is False, actual


@pytest.mark.parametrize("name", ["equals", "notEquals"])
def test_operator__boolean_value__does_not_match_numbers_or_text(name: str) -> None:
    matches = OPERATORS[name].compile(True)
    assert not any(matches(actual) for actual in OTHER_KINDS[bool])


@pytest.mark.parametrize("name", ["in", "notIn"])
@pytest.mark.parametrize("kind", ["a", 1, True])
def test_operator__list_of_one_kind__does_not_match_other_kinds(name: str, kind: Any) -> None:
    matches = OPERATORS[name].compile([kind])
    assert not any(matches(actual) for actual in OTHER_KINDS[type(kind)])


@pytest.mark.parametrize(("name", "value"), TAKEN)
def test_operator__value_that_it_takes__is_not_complained_about(name: str, value: Any) -> None:
    operator = OPERATORS[name]
    assert operator.check is not None
    assert list(operator.check(value, "value")) == []
    assert callable(operator.compile(value))


@pytest.mark.parametrize(("name", "value", "suffix", "code"), REFUSED)
def test_operator__value_that_it_cannot_take__is_named(name: str, value: Any, suffix: str, code: DetailCode) -> None:
    check = OPERATORS[name].check
    assert check is not None
    assert [(detail.field, detail.code) for detail in check(value, "value")] == [(f"value{suffix}", code)]


@pytest.mark.parametrize("name", VALUELESS)
def test_operator__exists_and_not_exists__take_no_value(name: str) -> None:
    assert OPERATORS[name].check is None
