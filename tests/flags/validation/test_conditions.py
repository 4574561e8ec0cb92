"""The values that conditions may compare with."""

from __future__ import annotations

import math
from typing import Any

from config.errors import DetailCode
from flags.engine.operands import Operand
from flags.engine.operators import OPERATORS
from flags.validation.conditions import OPERANDS
from tests.flags.engine.test_operators import LISTS, NUMBERS, SCALARS, TEXTS, TIMES, VALUELESS, VERSIONS


def refused() -> list[tuple[str, Any, str, DetailCode]]:
    return [
        *[(name, value, "", DetailCode.INVALID_TYPE) for name in SCALARS for value in (None, [], ["a"], {})],
        *[(name, value, "", DetailCode.INVALID_VALUE) for name in SCALARS for value in (math.nan, math.inf)],
        *[(name, value, "", DetailCode.INVALID_TYPE) for name in LISTS for value in (None, "a", 1, True, {})],
        *[(name, value, "", DetailCode.OUT_OF_RANGE) for name in LISTS for value in ([], list(range(1_001)))],
        *[(name, ["a", value], "[1]", DetailCode.INVALID_TYPE) for name in LISTS for value in (None, [], {})],
        *[(name, ["a", math.nan], "[1]", DetailCode.INVALID_VALUE) for name in LISTS],
        *[(name, value, "", DetailCode.INVALID_TYPE) for name in TEXTS for value in (None, 1, True, ["a"], {})],
        *[(name, "", "", DetailCode.INVALID_VALUE) for name in TEXTS],
        *[
            ("matches", value, "", DetailCode.INVALID_VALUE)
            for value in (
                "[",
                "(?=a)",
                r"(a)\1",
                "((a{1000}){1000}){1000}",
                r"\pL{300}",
                "[\u0391-\u03a9]{1000}" * 25,
                "\ud800",
            )
        ],
        ("matches", "a" * 1_001, "", DetailCode.TOO_LONG),
        *[(name, value, "", DetailCode.INVALID_TYPE) for name in TIMES for value in (None, 1, True, [], {})],
        *[
            (name, value, "", DetailCode.INVALID_VALUE)
            for name in TIMES
            for value in ("", "soon", "7d", "-7", "-7y", "-123456d", "2026-02-30")
        ],
        *[(name, value, "", DetailCode.INVALID_TYPE) for name in VERSIONS for value in (None, 1, 1.2, [], {})],
        *[
            (name, value, "", DetailCode.INVALID_VALUE)
            for name in VERSIONS
            for value in ("", "latest", "1.2.3.4", "01.2.3", "1.2.3-", "1.2.3-a..b", "1.2.3-01", "1.2.3+a..b")
        ],
        *[("inCidr", value, "", DetailCode.INVALID_TYPE) for value in (None, 1, True, {})],
        *[("inCidr", value, "", DetailCode.INVALID_VALUE) for value in ("", "10.0.0.0/33", "10.0.0", "example.com")],
        *[("inCidr", f"10.0.0.0/{mask}", "", DetailCode.INVALID_VALUE) for mask in ("255.0.0.0", "0.0.0.255", "", "٨")],
        *[("inCidr", value, "", DetailCode.OUT_OF_RANGE) for value in ([], ["10.0.0.0/8"] * 1_001)],
        ("inCidr", ["10.0.0.0/8", "x"], "[1]", DetailCode.INVALID_VALUE),
        *[("inSegment", value, "", DetailCode.INVALID_TYPE) for value in (None, 1, ["beta"], {})],
        *[("inSegment", value, "", DetailCode.INVALID_VALUE) for value in ("", "no key")],
        *[(name, value, "", DetailCode.INVALID_TYPE) for name in NUMBERS for value in (None, "1", True, [1], {})],
        *[(name, value, "", DetailCode.INVALID_VALUE) for name in NUMBERS for value in (math.nan, -math.inf)],
    ]


def taken() -> list[tuple[str, Any]]:
    return [
        *[(name, value) for name in SCALARS for value in ("a", "", 0, -1.5, True, False, 10**400)],
        *[(name, value) for name in LISTS for value in (["a"], [""], [1, 1.0, True, "1"], list(range(1_000)))],
        *[(name, value) for name in TEXTS for value in ("a", " ", "😀" * 30)],
        *[(name, value) for name in NUMBERS for value in (0, -0.0, 1e300, 2**63, 10**400)],
        *[(name, value) for name in TIMES for value in ("2026-03-01", "2026-03-01T12:00:00+02:00", "-7d", "+99999w")],
        *[(name, value) for name in VERSIONS for value in ("1", "1.2", "v1.2.3", "1.2.3-rc.1+5")],
        *[("inCidr", value) for value in ("10.0.0.0/8", "::/0", "192.0.2.1", ["10.0.0.0/8", "::1"])],
        ("inSegment", "beta.users-2"),
    ]


def test_operands__table__describes_every_kind() -> None:
    assert set(OPERANDS) == set(Operand)


def test_operator__value_that_it_takes__is_not_complained_about() -> None:
    for name, value in taken():
        operator = OPERATORS[name]
        check = OPERANDS[operator.operand].check
        assert check is not None, (name, value)
        assert list(check(value, "value")) == [], (name, value)
        assert callable(operator.compile(value, False)), (name, value)


def test_operator__value_that_it_cannot_take__is_named() -> None:
    for name, value, suffix, code in refused():
        check = OPERANDS[OPERATORS[name].operand].check
        assert check is not None, name
        found = [(detail.field, detail.code) for detail in check(value, "value")]
        assert found == [(f"value{suffix}", code)], (name, value)


def test_operator__exists_and_not_exists__take_no_value() -> None:
    for name in VALUELESS:
        assert OPERANDS[OPERATORS[name].operand].check is None, name
