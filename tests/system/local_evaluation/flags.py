"""Flags and segments of every kind, as sent to the API. They use everything that an evaluator must support."""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]

COLOURS = {
    "type": "string",
    "variants": [{"key": "red", "value": "#f00"}, {"key": "green", "value": "#0f0"}, {"key": "blue", "value": ""}],
}
SWITCH = {
    "type": "boolean",
    "variants": [{"key": "off", "value": False}, {"key": "on", "value": True}, {"key": "no", "value": False}],
}
SIZES = {"type": "number", "variants": [{"key": "small", "value": 1}, {"key": "large", "value": 2.5}]}
LAYOUTS = {
    "type": "object",
    "variants": [{"key": "wide", "value": {"columns": [1, {"x": None}]}}, {"key": "none", "value": {}}],
    "defaultVariant": "none",
    "offVariant": "wide",
}


def _condition(attribute: str, operator: str, *value: object, **others: object) -> Document:
    return {"attribute": attribute, "operator": operator, **({"value": value[0]} if value else {}), **others}


SEGMENTS: list[Document] = [
    {"key": "listed", "conditions": [], "userIds": ["user-1", "user-2", "ünïcode", "user-150"]},
    {"key": "paying", "conditions": [_condition("plan", "in", ["pro", "max"])], "userIds": ["user-3"]},
    {
        "key": "old-and-paying",
        "conditions": [{"operator": "inSegment", "value": "paying"}, _condition("age", "greaterThan", 17.5)],
        "userIds": [],
    },
    {"key": "nobody", "conditions": [], "userIds": []},
]

CONDITIONS: list[Document] = [
    _condition("plan", "equals", "pro"),
    _condition("plan", "equals", "PRO", ignoreCase=True),
    _condition("plan", "notEquals", "pro"),
    _condition("plan", "notEquals", "pro", negate=True),
    _condition("plan", "equals", 5),
    _condition("plan", "equals", True),
    _condition("plan", "in", ["Pro", 5.0, False]),
    _condition("plan", "notIn", ["PRO", 6], ignoreCase=True),
    _condition("plan", "exists"),
    _condition("plan", "exists", negate=True),
    _condition("plan", "notExists"),
    _condition("constructor", "notExists"),
    _condition("userId", "startsWith", "user-1"),
    _condition("userId", "in", ["user-4", "user-5"], negate=True),
    _condition("email", "contains", "@example."),
    _condition("email", "contains", "STRASSE", ignoreCase=True),
    _condition("email", "notContains", "ada"),
    _condition("email", "startsWith", "ΣΊΣΥΦΟΣ", ignoreCase=True),
    _condition("email", "endsWith", ".com", negate=True),
    _condition("email", "matches", r"^[a-z.]+@example\.(com|de)$"),
    _condition("email", "matches", r"(ada|bob)@.*M$", ignoreCase=True),
    _condition("email", "matches", "^.$"),
    _condition("long", "matches", "x$"),
    _condition("age", "equals", 18),
    _condition("age", "greaterThan", 18),
    _condition("age", "greaterThanOrEqual", 18.0),
    _condition("age", "lessThan", 9007199254740992),
    _condition("age", "lessThanOrEqual", 18.5, negate=True),
    _condition("joined", "before", "2020-01-01"),
    _condition("joined", "after", "2020-01-01T01:00:00+01:00"),
    _condition("joined", "before", "2020-01-01T00:00:00.000001Z", negate=True),
    _condition("joined", "after", "-3650d"),
    _condition("joined", "before", "+99999w"),
    _condition("version", "semverEquals", "1.2.3"),
    _condition("version", "semverGreaterThan", "1.2.3-alpha.1"),
    _condition("version", "semverGreaterThanOrEqual", "v1.2"),
    _condition("version", "semverLessThan", "1.2.3-beta.11"),
    _condition("version", "semverLessThanOrEqual", "2-rc", negate=True),
    _condition("address", "inCidr", "10.0.0.0/8"),
    _condition("address", "inCidr", ["10.1.9.9/16", "2001:db8::/32", "fe80::1/10"]),
    _condition("address", "inCidr", "::ffff:10.1.0.0/112"),
    _condition("address", "inCidr", "::/0"),
    _condition("address", "inCidr", ["0.0.0.0/0"], negate=True),
    _condition("address", "inCidr", ["10.1.2.3", "1:2:3:4:5:6:7:0"]),
    _condition("tags", "equals", "a"),
    _condition("tags", "notEquals", "a"),
    _condition("tags", "in", ["A", "b"], ignoreCase=True),
    _condition("tags", "exists"),
    {"operator": "inSegment", "value": "old-and-paying"},
    {"operator": "inSegment", "value": "paying", "negate": True},
    {"operator": "inSegment", "value": "nobody", "negate": True},
]

_EVERYONE = {"type": "percentage", "percentage": 100}
_SPLIT = [{"variant": "red", "weight": 0.1}, {"variant": "green", "weight": 0}, {"variant": "blue", "weight": 1e-7}]
_RAMP = [
    {"at": "2020-01-01", "percentage": 10.5},
    {"at": "2021-01-01", "percentage": 60},
    {"at": "2999-01-01", "percentage": 100},
]


def _flag(key: str, *rules: Document, enabled: bool = True, **others: object) -> Document:
    return {"key": key, "enabled": enabled, "rules": list(rules), **others}


def _share(percentage: float, **others: object) -> Document:
    return {"type": "percentage", "percentage": percentage, **others}


def _range(salt: str, start: float, end: float) -> Document:
    return {"salt": salt, "from": start, "to": end}


_OF_ALL_KINDS: list[Document] = [
    _flag("plain"),
    _flag("off", _EVERYONE, enabled=False),
    _flag("coloured", **COLOURS),
    _flag("off-and-coloured", enabled=False, **COLOURS),
    _flag("switch", **SWITCH),
    _flag("switched-by-rule", {"type": "users", "userIds": ["user-7"], "variant": "no"}, _share(50), **SWITCH),
    _flag("sizes", _share(50, variant="large"), **SIZES),
    _flag("layouts", {"type": "segment", "segment": "paying", "variant": "wide"}, **LAYOUTS),
    _flag("half", _share(50)),
    _flag("tiny", _share(0.001), _share(12.345, salt="another")),
    _flag("nobody", _share(0)),
    _flag("sleeping", _share(100, enabled=False)),
    _flag("began", _share(100, startAt="2020-01-01T00:00:00+14:00", endAt="2999-01-01")),
    _flag("ended", _share(100, endAt="2020-01-01")),
    _flag("to-come", _share(100, startAt="2999-01-01")),
    _flag("ramped", {"type": "percentage", "ramp": _RAMP}),
    _flag("ramp-to-come", _share(30, ramp=_RAMP[2:])),
    _flag("ramp-from-nothing", {"type": "attribute", "conditions": [_condition("plan", "exists")], "ramp": _RAMP[2:]}),
    _flag("by-company", _share(50, bucketBy="company")),
    _flag("by-company-all", _share(100, bucketBy="company")),
    _flag("users-by-company", {"type": "users", "userIds": [f"user-{n}" for n in range(90)], "bucketBy": "company"}),
    _flag("by-user-id", _share(50, bucketBy="userId", salt="half")),
    _flag("ranged", _share(70, salt="s", ranges=[_range("checkout", 12.5, 60.001), _range("half", 0, 80)])),
    _flag("ranged-only", {"type": "segment", "segment": "paying", "ranges": [_range("checkout", 50, 100)]}),
    _flag("ranged-by-company", _share(100, bucketBy="company", ranges=[_range("companies", 0, 40)])),
    _flag("not-served", _share(30, serves=False), _share(60, serves=True)),
    _flag("split", _share(80, split=_SPLIT), **COLOURS),
    _flag("split-by-company", _share(70, split=_SPLIT, bucketBy="company", salt="s"), **COLOURS),
    _flag(
        "in-turn",
        {"type": "segment", "segment": "listed", "percentage": 60, "variant": "green"},
        {
            "type": "segment",
            "segment": "old-and-paying",
            "conditions": [_condition("tags", "exists")],
            "variant": "blue",
        },
        {"type": "users", "userIds": ["user-9", "ünïcode"], "split": _SPLIT[2:]},
        **COLOURS,
    ),
    _flag("needs-half", prerequisites=[{"flag": "half"}]),
    _flag("needs-colour", _share(90), prerequisites=[{"flag": "split", "variants": ["red", "green"]}], **SIZES),
    _flag("needs-switch", prerequisites=[{"flag": "switched-by-rule"}, {"flag": "needs-half"}], **LAYOUTS),
    _flag("needs-off", prerequisites=[{"flag": "off-and-coloured", "variants": ["blue"]}]),
]

FLAGS: list[Document] = _OF_ALL_KINDS + [
    _flag(f"condition-{at}", {"type": "attribute", "conditions": [condition]})
    for at, condition in enumerate(CONDITIONS)
]
"""The flags in an order in which they can be created. Each of the last ones has a single condition."""
