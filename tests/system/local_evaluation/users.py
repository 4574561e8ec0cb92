"""Users with attributes at the edges of what an evaluator must distinguish, the same in every run.

They leave out what only RE2 can match, and what needs a JSON reader that distinguishes 7 and 7.0.
"""

from __future__ import annotations

from random import Random
from typing import Any

_LARGEST, _LEAST = 2**64 - 1, -(2**63)
_NINES = "9" * 18

_EDGES: dict[str, list[Any]] = {
    "plan": ["free", "pro", "Pro", "PRO", "", None, 5, 5.5, True, False, ["max", "free"], [], [None], [5], {"a": 1}],
    "email": [
        *("ada@example.com", "BOB@EXAMPLE.COM", "x@straße.de", "STRASSE@example.de", "Σίσυφος", "σίσυφοσ"),
        *("日本語", "😀", "", "\u0130@x", "ada", "ada@\nM", 5, None, ["ada@example.com", 5], ["", None]),
    ],
    "long": ["x", "x" * 4_096, "x" * 4_097, "😀" * 4_095 + "x", ["x" * 5_000], ["y", "x" * 5_000]],
    "age": [17, 18, 18.0, 18.5, 19, -1, 0, "18", True, 2**53, 1e300, [1, 30], ["x", 30], ["x"], [[30]]],
    "joined": [
        *("2020-01-01", "2020-01-01T00:00:00Z", "2020-01-01 00:00", "2019-12-31T23:59:59.999999Z", " 2020-01-01\n"),
        *("2020-01-01T00:00:00.0000019", "2020-01-01T00:00:00.1234567891Z", "2020-01-01t00:00:00z", "20200101"),
        *("2020-01-01T00:00.5", "2020-02-30", "2020-01-01T24:00", "2020-01-01T00:00:60", "2020-01-01T00:00:00,5-0530"),
        *("2020-01-01t00:00:61z", "2019-12-31t23:59:60.5+02", "2019-12-31T23:59:60Z", "2020-01-01T00:00:00+023"),
        *("0000-01-01", "0001-01-01T00:00+01:00", "9999-12-31T23:59-01:00", "9999-12-31T23:59:59.999999", "2020-W01-1"),
        *("2020-01-01T00:00:00+23:59", "2020-01-01T00:00:00+24:00", "2020-01-01T00:00+0530", "0001-01-01"),
        *("-7d", 1577836800, ["x", "2999-01-01"]),
    ],
    "version": [
        *("1.2.3", "v1.2.3", "V1.2.3", "1.2", "1", "2-rc", "2-rc.1", "01.2.3", "1.2.3.4", "1.2.3-01", "1.2.3-"),
        *("1.2.3-alpha", "1.2.3-alpha.1", "1.2.3-alpha.beta", "1.2.3-alpha.0.1", "1.2.3-beta.11", "1.2.3-beta.2"),
        *(f"1.{_NINES}", f"1.{_NINES}9", f"1.2.3-{_NINES}{_NINES}", f"1.2.3-{_NINES}{_NINES}0", "1.2.3-" + "a" * 250),
        *("1.2.3-" + "a" * 251, "1.2.3-x-y", "1.2.3-0x", "1.2.3+build.05", " 1.2.3", "", 1.2, ["x", "1.2.3"]),
    ],
    "address": [
        *("10.1.2.3", "::ffff:10.1.2.3", "::FFFF:a01:203", "11.0.0.1", "2001:db8::1", "2001:DB8:0:0::1", "fe80::1"),
        *("fe80::1%eth0", "010.1.2.3", "10.1.2", "::", "::ffff:0:0", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::", "::1.2.3.4"),
        *("1::8::", "10.1.2.3/32", "10.1.2.3 ", "64:ff9b::10.1.2.3", 167838211, "", ["x", "10.1.2.3"], ["x"]),
    ],
    "company": [
        *("acme", "initech", "日本", "", 7, -7, 0, 7.5, True, None, ["acme"], {"id": 7}, 2**53 - 1),
        *(2**53 + 1, _LARGEST, _LEAST, "7"),
    ],
    "tags": [
        *(["a", "b"], ["A"], ["b"], "a", [], [1], [None], [["a"]]),
        *(["a"] * 1_000, ["a"] * 1_001, ["b"] * 999 + ["a"]),
    ],
}

_IDS = ["ünïcode", "日本語", "😀", "a:b", " ", "USER-1", "x" * 200]


def users(count: int) -> list[dict[str, Any]]:
    """Return `count` users, each with most of the attributes."""
    chance = Random(20_260_301)
    names = [*_IDS, *(f"user-{number}" for number in range(count))][:count]
    return [{"userId": name, "attributes": _attributes(chance)} for name in names]


def _attributes(chance: Random) -> dict[str, Any]:
    attributes = {name: chance.choice(values) for name, values in _EDGES.items() if chance.random() < 0.9}
    return attributes | ({"userId": "user-1"} if chance.random() < 0.1 else {})
