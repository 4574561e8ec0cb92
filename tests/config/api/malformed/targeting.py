"""Rows: rules, values, prerequisites and segments that cannot be, or not any more."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.config.api.malformed.cases import (
    CREATE_FLAG,
    CREATE_SEGMENT,
    EXPLAIN,
    PREVIEW,
    PROMOTE,
    REVERT,
    UPDATE_FLAG,
    UPDATE_SEGMENT,
    Case,
)
from tests.config.api.malformed.fields import row

_CONDITION = {"attribute": "plan", "operator": "equals", "value": "pro"}
_SHARE = {"type": "percentage", "percentage": 50}
_STEP = {"at": "2027-01-31", "percentage": 50}
_VALUES = [{"key": "a", "value": "A"}, {"key": "b", "value": "B"}]

_BAD_CONDITIONS: Mapping[str, tuple[dict[str, Any], str]] = {
    "no such operator": ({**_CONDITION, "operator": "like"}, "operator"),
    "a pattern that does not end": ({**_CONDITION, "operator": "matches", "value": "(a"}, "value"),
    "a pattern that looks back": ({**_CONDITION, "operator": "matches", "value": r"(a)\1"}, "value"),
    "a pattern that looks ahead": ({**_CONDITION, "operator": "matches", "value": "(?=a)b"}, "value"),
    "a pattern of 1,001 characters": ({**_CONDITION, "operator": "matches", "value": "a" * 1001}, "value"),
    "a pattern that grows beyond bounds": (
        {**_CONDITION, "operator": "matches", "value": "((a{500}){500}){500}"},
        "value",
    ),
    "no moment": ({**_CONDITION, "operator": "before", "value": "soon"}, "value"),
    "no version": ({**_CONDITION, "operator": "semverEquals", "value": "two"}, "value"),
    "no network": ({**_CONDITION, "operator": "inCidr", "value": "10.0.0.0/33"}, "value"),
    "no such segment": ({"operator": "inSegment", "value": "nope"}, "value"),
    "a segment of another attribute": ({"attribute": "plan", "operator": "inSegment", "value": "used"}, "attribute"),
    "ignoreCase is a string": ({**_CONDITION, "ignoreCase": "yes"}, "ignoreCase"),
    "negate is null": ({**_CONDITION, "negate": None}, "negate"),
}
_BAD_RULES: Mapping[str, tuple[dict[str, Any], str]] = {
    "no such segment": ({"type": "segment", "segment": "nope"}, "segment"),
    "segment is missing": ({"type": "segment"}, "segment"),
    "no percentage and no ramp": ({"type": "percentage"}, "percentage"),
    "a ramp out of order": ({"type": "percentage", "ramp": [_STEP, {**_STEP, "at": "2026-12-31"}]}, "ramp[1].at"),
    "a ramp of two at once": ({"type": "percentage", "ramp": [_STEP, _STEP]}, "ramp[1].at"),
    "an empty ramp": ({"type": "percentage", "ramp": []}, "ramp"),
    "a ramp of 101 steps": ({"type": "percentage", "ramp": [_STEP] * 101}, "ramp"),
    "a ramp above 100": ({"type": "percentage", "ramp": [{**_STEP, "percentage": 101}]}, "ramp[0].percentage"),
    "it ends before it starts": ({**_SHARE, "startAt": "2027-01-31", "endAt": "2027-01-30"}, "endAt"),
    "startAt is no moment": ({**_SHARE, "startAt": "soon"}, "startAt"),
    "a variant of a flag without": ({**_SHARE, "variant": "a"}, "variant"),
    "a split of a flag without variants": (
        {**_SHARE, "split": [{"variant": "a", "weight": 1}]},
        "split[0].variant",
    ),
    "an empty name": ({**_SHARE, "name": ""}, "name"),
    "enabled is a string": ({**_SHARE, "enabled": "no"}, "enabled"),
    "an empty salt": ({**_SHARE, "salt": ""}, "salt"),
    "bucketBy is a number": ({**_SHARE, "bucketBy": 1}, "bucketBy"),
    "ranges without a range": ({**_SHARE, "ranges": []}, "ranges"),
    "11 ranges": ({**_SHARE, "ranges": [{"salt": "s", "from": 0, "to": 1}] * 11}, "ranges"),
    "a range without a salt": ({**_SHARE, "ranges": [{"from": 0, "to": 1}]}, "ranges[0].salt"),
    "a range that ends before it begins": ({**_SHARE, "ranges": [{"salt": "s", "from": 2, "to": 1}]}, "ranges[0].to"),
    "a range beyond 100": ({**_SHARE, "ranges": [{"salt": "s", "from": 0, "to": 101}]}, "ranges[0].to"),
    "serves is a string": ({**_SHARE, "serves": "off"}, "serves"),
}
_BAD_RULES_OF_EXPERIMENTS: Mapping[str, tuple[dict[str, Any], str]] = {
    "a rule that no experiment wrote": (
        {
            "type": "experiment",
            "experiment": "e",
            "variants": [{"key": key, "weight": 1, "serves": True} for key in "ab"],
        },
        "type",
    ),
    "a rule of an experiment with nothing in it": ({"type": "experiment"}, "type"),
    "an experiment in a rule of another type": ({**_SHARE, "experiment": "e"}, "experiment"),
    "forced users in a rule of another type": ({**_SHARE, "forced": {}}, "forced"),
}
_BAD_SERVING: Mapping[str, tuple[dict[str, Any], str]] = {
    "an unknown variant": ({"variant": "c"}, "variant"),
    "on or off in a flag with variants": ({"serves": False}, "serves"),
    "a variant and a split": ({"variant": "a", "split": [{"variant": "a", "weight": 1}]}, "split"),
    "an empty split": ({"split": []}, "split"),
    "a split onto an unknown variant": ({"split": [{"variant": "c", "weight": 1}]}, "split[0].variant"),
    "a split onto one twice": ({"split": [{"variant": "a", "weight": 1}] * 2}, "split[1].variant"),
    "a split of weights that are all 0": ({"split": [{"variant": key, "weight": 0} for key in "ab"]}, "split"),
    "a split of a negative weight": ({"split": [{"variant": "a", "weight": -1}]}, "split[0].weight"),
}
_BAD_VALUES: Mapping[str, tuple[dict[str, Any], str]] = {
    "variants without a type": ({"variants": _VALUES}, "type"),
    "a type without variants": ({"type": "string"}, "variants"),
    "no such type": ({"type": "text", "variants": _VALUES}, "type"),
    "a value of another type": ({"type": "number", "variants": _VALUES}, "variants[0].value"),
    "a key twice": ({"type": "string", "variants": [_VALUES[0], _VALUES[0]]}, "variants[1].key"),
    "51 variants": ({"type": "string", "variants": [{"key": f"v{at}", "value": ""} for at in range(51)]}, "variants"),
    "a value of 33 KiB": (
        {"type": "string", "variants": [{"key": "a", "value": "x" * 33 * 1024}]},
        "variants[0].value",
    ),
    "a variant without a value": ({"type": "string", "variants": [{"key": "a"}]}, "variants[0].value"),
    "an unknown variant when off": ({"type": "string", "variants": _VALUES, "offVariant": "c"}, "offVariant"),
    "an unknown default variant": ({"type": "string", "variants": _VALUES, "defaultVariant": "c"}, "defaultVariant"),
    "an object that fails its schema": (
        {
            "type": "object",
            "variants": [{"key": "a", "value": {"size": 1}}, {"key": "b", "value": {"size": "L"}}],
            "schema": {"type": "object", "properties": {"size": {"type": "integer"}}},
        },
        "variants[1].value.size",
    ),
    "an invalid schema": ({"type": "string", "variants": _VALUES, "schema": {"type": "text"}}, "schema.type"),
    "a schema of another host": (
        {"type": "string", "variants": _VALUES, "schema": {"$ref": "https://example.com/schema.json"}},
        "schema.$ref",
    ),
    "no such prerequisite": ({"prerequisites": [{"flag": "nope"}]}, "prerequisites[0].flag"),
    "a prerequisite's unknown variant": (
        {"prerequisites": [{"flag": "base", "variants": ["c"]}]},
        "prerequisites[0].variants[0]",
    ),
    "a prerequisite twice": ({"prerequisites": [{"flag": "base"}] * 2}, "prerequisites[1].flag"),
    "21 prerequisites": ({"prerequisites": [{"flag": f"f{at}"} for at in range(21)]}, "prerequisites"),
    "51 tags": ({"tags": [f"t{at}" for at in range(51)]}, "tags"),
    "a tag twice": ({"tags": ["a", "a"]}, "tags[1]"),
    "a tag of 51 characters": ({"tags": ["t" * 51]}, "tags[0]"),
    "an empty tag": ({"tags": [""]}, "tags[0]"),
    "an owner of 201 characters": ({"owner": "o" * 201}, "owner"),
}


def rules() -> Iterator[Case]:
    for operation in (CREATE_FLAG, UPDATE_FLAG):
        for name, (rule, field) in {**_BAD_RULES, **_BAD_RULES_OF_EXPERIMENTS}.items():
            yield row(operation, f"rule: {name}", {"rules": [rule]}, f"rules[0].{field}")
        for name, (serving, field) in _BAD_SERVING.items():
            flag = {"type": "string", "variants": _VALUES, "rules": [{**_SHARE, **serving}]}
            yield row(operation, f"rule: {name}", flag, f"rules[0].{field}")
        for name, (condition, field) in _BAD_CONDITIONS.items():
            rule = {"type": "attribute", "conditions": [condition]}
            yield row(operation, f"condition: {name}", {"rules": [rule]}, f"rules[0].conditions[0].{field}")
    for name, (rule, field) in {**_BAD_RULES, **_BAD_RULES_OF_EXPERIMENTS}.items():
        yield row(PREVIEW, f"rule: {name}", {"rules": [rule]}, f"rules[0].{field}")


def values() -> Iterator[Case]:
    for operation in (CREATE_FLAG, UPDATE_FLAG):
        for name, (changed, field) in _BAD_VALUES.items():
            yield row(operation, name, changed, field)
    base = UPDATE_FLAG._replace(path="/v1/flags/base", body={})
    circle = {"prerequisites": [{"flag": "child"}]}
    yield row(base, "a prerequisite that needs it itself", circle, "prerequisites[0].flag")
    yield row(UPDATE_FLAG, "itself as a prerequisite", {"prerequisites": [{"flag": "known"}]}, "prerequisites[0].flag")


def segments() -> Iterator[Case]:
    for operation in (CREATE_SEGMENT, UPDATE_SEGMENT):
        for name, (condition, field) in _BAD_CONDITIONS.items():
            yield row(operation, f"condition: {name}", {"conditions": [condition]}, f"conditions[0].{field}")
        users: Mapping[str, tuple[list[Any], str]] = {
            "100,001 user ids": ([str(at) for at in range(100_001)], "userIds"),
            "a user id twice": (["u", "v", "u"], "userIds[2]"),
            "an empty user id": ([""], "userIds[0]"),
            "a user id of 201 characters": (["u" * 201], "userIds[0]"),
            "a user id that is a number": (["u", 1], "userIds[1]"),
        }
        for name, (user_ids, field) in users.items():
            yield row(operation, name, {"userIds": user_ids}, field)
        yield row(operation, "101 conditions", {"conditions": [_CONDITION] * 101}, "conditions")
    itself = {"conditions": [{"operator": "inSegment", "value": "listed"}]}
    yield row(UPDATE_SEGMENT, "itself as a condition", itself, "conditions[0].value")


def moments() -> Iterator[Case]:
    body = json.dumps({**EXPLAIN.body, "at": "1999-12-31"}).encode()
    missing = {"status": 404, "code": "flag_not_found", "field": "at"}
    yield Case("explain: at is before the flag was", "POST", EXPLAIN.path, body, **missing)
    for name, revision in {"of another flag": 6, "of none": 999_999, "beyond 63 bits": 2**63, "0": 0, "-1": -1}.items():
        yield row(REVERT, f"revision {name}", {"revision": revision}, "revision")
    yield row(REVERT, "a fraction of a revision", {"revision": 3.5}, "revision")


def promotions() -> Iterator[Case]:
    for name, key in {"none": "moon", "no key": "a b", "the one that is written": "production"}.items():
        yield row(PROMOTE, f"from is {name}", {"from": key}, "from")
    for name, keys, field in (
        ("unknown", ["known", "unknown"], "flags[1]"),
        ("no key", ["a/b"], "flags[0]"),
        ("named twice", ["known", "known"], "flags[1]"),
        ("a number", [1], "flags[0]"),
    ):
        yield row(PROMOTE, f"a flag is {name}", {"flags": keys}, field)
    yield row(PROMOTE, "no flags", {"flags": []}, "flags")
    yield row(PROMOTE, "1,001 flags", {"flags": ["known"] * 1001}, "flags")
    yield row(PROMOTE, "dryRun is text", {"dryRun": "true"}, "dryRun")
    yield row(PROMOTE, "to is named", {"to": "production"}, "to")
    yield Case("promote: no body", "POST", PROMOTE.path, field="from")
    yield Case("promote: a parameter", "POST", f"{PROMOTE.path}?x=1", b"{}", code="invalid_parameter", field="x")


def in_use() -> Iterator[Case]:
    refused = {"status": 409, "code": "in_use"}
    yield Case("archive: a prerequisite", "POST", "/v1/flags/base/archive", **refused)
    yield Case("delete flag: a prerequisite", "DELETE", "/v1/flags/base", **refused)
    yield Case("delete segment: of a rule", "DELETE", "/v1/segments/used", **refused)
    lost = json.dumps({"variants": _VALUES[:1]}).encode()
    yield Case("update flag: a variant that a prerequisite names", "PATCH", "/v1/flags/base", lost, **refused)
    yield Case(
        "revert: to before a variant that a prerequisite names",
        "POST",
        "/v1/flags/base/revert",
        b'{"revision": 6}',
        **refused,
    )
    exists = {"status": 409, "code": "already_exists"}
    yield Case("create segment: a key that exists", "POST", "/v1/segments", b'{"key": "used"}', **exists)
