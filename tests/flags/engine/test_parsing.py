"""Parsing: which rules are taken, and that every wrong field is named with the right code."""

from __future__ import annotations

import gc
import json
import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from config.errors import Detail, DetailCode, ValidationFailed
from flags.engine import conditions
from flags.engine.evaluation import evaluate
from flags.engine.operators import OPERATORS
from flags.engine.parsing import Reference, parse_flag, parse_segment, references
from flags.engine.types import Configuration, Context, Reason, Rule, RuleType
from tests.flags.engine.refusals import blamed_in, refused
from tests.flags.engine.strategies import ANY_JSON, ATTRIBUTES, NOW, RIGHT_RULES, TEXT

FIXED = settings(derandomize=True, deadline=None, max_examples=300)
PRO = {"attribute": "plan", "operator": "equals", "value": "pro"}


def one_of_or_anything(*values: object) -> st.SearchStrategy[object]:
    return st.sampled_from(values) | ANY_JSON


NEARLY_A_CONDITION = st.fixed_dictionaries(
    {},
    optional={
        "attribute": one_of_or_anything("plan", "userId"),
        "operator": one_of_or_anything(*OPERATORS),
        "value": one_of_or_anything("pro", 1, True, ["a", 1]),
        "vlaue": ANY_JSON,
    },
)
NEARLY_A_RULE = st.fixed_dictionaries(
    {},
    optional={
        "type": one_of_or_anything(*map(str, RuleType)),
        "percentage": one_of_or_anything(0, 0.001, 50, 100),
        "conditions": st.lists(NEARLY_A_CONDITION | ANY_JSON, max_size=3) | ANY_JSON,
        "userIds": st.lists(TEXT | ANY_JSON, max_size=3) | ANY_JSON,
        "percentge": ANY_JSON,
    },
)


def parse_rules(value: object) -> tuple[Rule, ...]:
    return parse_flag({"key": "new-checkout", "enabled": True, "rules": value}).rules


def details_of(value: object) -> list[Detail]:
    return refused({"rules": value})


def blamed(value: object) -> list[tuple[str, str]]:
    return blamed_in({"rules": value})


def percentage_rule(percentage: object) -> list[object]:
    return [{"type": "percentage", "percentage": percentage}]


def users_rule(user_ids: object) -> list[object]:
    return [{"type": "users", "userIds": user_ids}]


def attribute_rule(*conditions: object) -> list[object]:
    return [{"type": "attribute", "conditions": list(conditions)}]


@pytest.mark.parametrize(
    "value",
    [
        [],
        [{"type": "percentage", "percentage": 1}] * 200,
        attribute_rule(*[PRO] * 100),
        attribute_rule({"attribute": "a" * 200, "operator": "notExists"}),
        users_rule([f"user-{number}" for number in range(10_000)]),
        users_rule(["x" * 200]),
        percentage_rule(100.0),
        percentage_rule(99.999),
    ],
)
def test_parse_rules__value_at_a_limit__is_taken(value: list[object]) -> None:
    assert len(parse_rules(value)) == len(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *[(value, [("rules", "invalid_type")]) for value in (None, {}, "rules", 1, True, math.nan)],
        ([{}] * 201, [("rules", "out_of_range")]),
        *[([value], [("rules[0]", "invalid_type")]) for value in (None, [], "percentage", 1, False)],
        ([{}], [("rules[0].type", "required")]),
        *[([{"type": value}], [("rules[0].type", "invalid_type")]) for value in (None, 1, True, [], {}, ["users"])],
        *[([{"type": value}], [("rules[0].type", "invalid_value")]) for value in ("", "Percentage", "experiment")],
        ([{"type": "percentage"}], [("rules[0].percentage", "required")]),
        *[
            (percentage_rule(value), [("rules[0].percentage", "invalid_type")])
            for value in (None, "10", True, False, [], {})
        ],
        *[
            (percentage_rule(value), [("rules[0].percentage", "out_of_range")])
            for value in (-1, -0.001, 100.001, 10**5000, -(10**400), 1e300, math.nan, math.inf, -math.inf)
        ],
        *[
            (percentage_rule(value), [("rules[0].percentage", "invalid_value")])
            for value in (0.0001, 12.3456, 0.1 + 0.2, 1e-300, 99.9999)
        ],
        (
            [{"type": "percentage", "percentge": 5}],
            [("rules[0].percentge", "unknown_field"), ("rules[0].percentage", "required")],
        ),
        (
            [{"type": "percentage", "percentage": 5, "userIds": [None]}],
            [("rules[0].userIds", "unknown_field")],
        ),
        (
            [{"type": "attribute", "conditions": [PRO], "userIds": ["a"]}],
            [("rules[0].userIds", "unknown_field")],
        ),
        ([{"type": "attribute"}], [("rules[0].conditions", "required")]),
        (attribute_rule(), [("rules[0].conditions", "out_of_range")]),
        (attribute_rule(*[PRO] * 101), [("rules[0].conditions", "out_of_range")]),
        *[
            ([{"type": "attribute", "conditions": value}], [("rules[0].conditions", "invalid_type")])
            for value in (None, {}, "plan", 1)
        ],
        ([{"type": "users"}], [("rules[0].userIds", "required")]),
        *[(users_rule(value), [("rules[0].userIds", "invalid_type")]) for value in (None, {}, "user-1", 1)],
        (users_rule([]), [("rules[0].userIds", "out_of_range")]),
        (users_rule(["a"] * 10_001), [("rules[0].userIds", "out_of_range")]),
        (
            users_rule(["a", 1, None, "", "x" * 201, ["a"], "b", "a"]),
            [
                ("rules[0].userIds[1]", "invalid_type"),
                ("rules[0].userIds[2]", "invalid_type"),
                ("rules[0].userIds[3]", "invalid_value"),
                ("rules[0].userIds[4]", "too_long"),
                ("rules[0].userIds[5]", "invalid_type"),
                ("rules[0].userIds[7]", "duplicate"),
            ],
        ),
    ],
)
def test_parse_rules__wrong_rule__is_blamed_on_its_field(value: object, expected: list[tuple[str, str]]) -> None:
    assert blamed(value) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        *[(value, [("", "invalid_type")]) for value in (None, [], "plan", 1, True)],
        ({}, [(".attribute", "required"), (".operator", "required")]),
        ({"attribute": "plan", "operator": "equals"}, [(".value", "required")]),
        ({"attribute": "plan", "value": "pro"}, [(".operator", "required")]),
        ({"operator": "exists"}, [(".attribute", "required")]),
        (PRO | {"attribute": 1}, [(".attribute", "invalid_type")]),
        (PRO | {"attribute": ""}, [(".attribute", "invalid_value")]),
        (PRO | {"attribute": "a" * 201}, [(".attribute", "too_long")]),
        *[(PRO | {"operator": value}, [(".operator", "invalid_type")]) for value in (None, 1, [], {}, ["equals"])],
        *[(PRO | {"operator": value}, [(".operator", "invalid_value")]) for value in ("", "Equals", "equals ")],
        (PRO | {"value": None}, [(".value", "invalid_type")]),
        (PRO | {"operator": "in"}, [(".value", "invalid_type")]),
        (
            PRO | {"operator": "in", "value": ["a", None, [], 1]},
            [(".value[1]", "invalid_type"), (".value[2]", "invalid_type")],
        ),
        (PRO | {"operator": "lessThan"}, [(".value", "invalid_type")]),
        (PRO | {"operator": "exists"}, [(".value", "unknown_field")]),
        (PRO | {"operator": "notExists", "value": None}, [(".value", "unknown_field")]),
        (PRO | {"negate": 1, "ignoreCase": "yes"}, [(".ignoreCase", "invalid_type"), (".negate", "invalid_type")]),
        (PRO | {"not": True}, [(".not", "unknown_field")]),
        ({"operator": "inSegment", "value": "beta", "attribute": "plan"}, [(".attribute", "invalid_value")]),
        ({"operator": "inSegment"}, [(".value", "required")]),
        ({"operator": "inSegment", "value": "no key"}, [(".value", "invalid_value")]),
        ({"attribute": "os", "operator": "matches", "value": "(?=x)"}, [(".value", "invalid_value")]),
    ],
)
def test_parse_rules__wrong_condition__is_blamed_on_its_field(
    condition: object, expected: list[tuple[str, str]]
) -> None:
    where = "rules[1].conditions[1]"
    rules = [{"type": "percentage", "percentage": 1}, {"type": "attribute", "conditions": [PRO, condition]}]
    assert blamed(rules) == [(f"{where}{suffix}", code) for suffix, code in expected]


def test_parse_rules__many_mistakes__are_all_named_with_the_callers_path() -> None:
    rules = [
        {"type": "percentage", "percentage": 101},
        {"type": "users", "userIds": ["a", "a"], "percentage": "10"},
        {"type": "attribute", "conditions": [PRO | {"operator": "equalz"}, {"attribute": "age"}]},
        {"type": "nobody", "percentage": -1, "userIds": [1], "extra": None},
        7,
    ]
    assert sorted(blamed(rules)) == [
        ("rules[0].percentage", "out_of_range"),
        ("rules[1].percentage", "invalid_type"),
        ("rules[1].userIds[1]", "duplicate"),
        ("rules[2].conditions[0].operator", "invalid_value"),
        ("rules[2].conditions[1].operator", "required"),
        ("rules[3].extra", "unknown_field"),
        ("rules[3].percentage", "out_of_range"),
        ("rules[3].type", "invalid_value"),
        ("rules[3].userIds[0]", "invalid_type"),
        ("rules[4]", "invalid_type"),
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (percentage_rule("10"), "Must be a number from 0 to 100."),
        (percentage_rule(0.0001), "Must have at most three decimals, such as 12.5 or 0.125."),
        ([{"type": "everyone"}], 'Unknown rule type "everyone"; use one of: percentage, attribute, users, segment.'),
        (
            attribute_rule(PRO | {"operator": "equalz"}),
            f'Unknown operator "equalz"; use one of: {", ".join(OPERATORS)}.',
        ),
        (
            [{"type": "x" * 1_000}],
            f'Unknown rule type "{"x" * 50}"; use one of: percentage, attribute, users, segment.',
        ),
        (
            [{"type": "percentage", "percentage": 1, "userIds": []}],
            "There is no such field here; leave it out. Fields are: type, name, enabled, percentage, conditions, "
            "startAt, endAt, salt, bucketBy, ramp, variant, split.",
        ),
        (users_rule([]), "Must have 1 to 10,000 user ids."),
        ([{}] * 201, "Must have at most 200 rules."),
    ],
)
def test_parse_rules__message__says_what_to_do(value: object, expected: str) -> None:
    assert details_of(value)[0].message == expected


def test_parse_rules__unknown_field_of_any_length__is_echoed_short_and_writable() -> None:
    (detail,) = details_of([{"type": "percentage", "percentage": 1, "\ud800" + "k" * 500: 1}])
    assert detail.field == "rules[0].?" + "k" * 49
    assert json.dumps(detail.field, ensure_ascii=False).encode()


def test_parse_rules__what_was_sent__is_left_as_it_was() -> None:
    rules = [*users_rule(["b", "a"]), *attribute_rule(PRO), *percentage_rule(5.0)]
    before = json.dumps(rules)
    parse_rules(rules)
    assert json.dumps(rules) == before


@FIXED
@given(st.lists(NEARLY_A_RULE | ANY_JSON, max_size=3) | ANY_JSON)
def test_parse_rules__any_json__is_taken_or_blamed_within_the_path(value: object) -> None:
    rules: tuple[Rule, ...] = ()
    details: Sequence[Detail] = ()
    try:
        rules = parse_rules(value)
    except ValidationFailed as refusal:
        details = refusal.details
    assert details or (isinstance(value, list) and len(rules) == len(value))
    for detail in details:
        assert detail.field.startswith("rules")
        assert isinstance(detail.code, DetailCode)
        assert detail.message.endswith(".")


@FIXED
@given(RIGHT_RULES, TEXT.filter(bool), ATTRIBUTES)
def test_parse_flag__what_parses__evaluates_whatever_the_attributes(
    value: list[Any], user_id: str, attributes: dict[str, object]
) -> None:
    flag = parse_flag({"key": "new-checkout", "enabled": True, "rules": value})
    answer = evaluate(flag, Context(user_id, attributes, Configuration({}, {}), NOW))
    assert answer.reason in ({Reason.RULE_MATCH, Reason.NO_RULE_MATCH} if value else {Reason.DEFAULT})
    assert answer.enabled is (answer.reason is not Reason.NO_RULE_MATCH)


# --- further fields of a rule ----------------------------------------------------------------------------------------

ALL = {"type": "percentage", "percentage": 100}
AT = "2026-03-15T12:00:00Z"
LATER = "2026-03-16T12:00:00Z"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        *[
            ({name: value}, [(name, "invalid_type")])
            for name in ("name", "salt", "bucketBy")
            for value in (None, 1, [])
        ],
        *[({name: ""}, [(name, "invalid_value")]) for name in ("name", "salt", "bucketBy")],
        *[({name: "x" * 201}, [(name, "too_long")]) for name in ("name", "salt", "bucketBy")],
        *[({"enabled": value}, [("enabled", "invalid_type")]) for value in (None, 0, "true")],
        *[({name: value}, [(name, "invalid_type")]) for name in ("startAt", "endAt") for value in (None, 1, True)],
        *[({name: value}, [(name, "invalid_value")]) for name in ("startAt", "endAt") for value in ("", "-7d", "soon")],
        ({"startAt": AT, "endAt": AT}, [("endAt", "invalid_value")]),
        ({"startAt": LATER, "endAt": AT}, [("endAt", "invalid_value")]),
        ({"ramp": {}}, [("ramp", "invalid_type")]),
        ({"ramp": []}, [("ramp", "out_of_range")]),
        ({"ramp": [{"at": AT, "percentage": 1}] * 101}, [("ramp", "out_of_range")]),
        ({"ramp": [7]}, [("ramp[0]", "invalid_type")]),
        ({"ramp": [{}]}, [("ramp[0].at", "required"), ("ramp[0].percentage", "required")]),
        (
            {"ramp": [{"at": "-7d", "percentage": 101}]},
            [("ramp[0].at", "invalid_value"), ("ramp[0].percentage", "out_of_range")],
        ),
        ({"ramp": [{"at": AT, "percentage": 1}, {"at": AT, "percentage": 2}]}, [("ramp[1].at", "invalid_value")]),
        ({"ramp": [{"at": LATER, "percentage": 1}, {"at": AT, "percentage": 2}]}, [("ramp[1].at", "invalid_value")]),
        ({"variant": 7}, [("variant", "invalid_type")]),
        ({"variant": "red"}, [("variant", "unknown_reference")]),
        ({"split": []}, [("split", "out_of_range")]),
        ({"split": [{"variant": "red", "weight": 1}]}, [("split[0].variant", "unknown_reference")]),
        ({"segment": "beta"}, [("segment", "unknown_field")]),
    ],
)
def test_parse_flag__wrong_field_of_a_rule__is_blamed(more: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert blamed([ALL | more]) == [(f"rules[0].{field}", code) for field, code in expected]


@pytest.mark.parametrize(
    "rule",
    [
        {"type": "percentage", "ramp": [{"at": AT, "percentage": 1}, {"at": LATER, "percentage": 0}]},
        {"type": "segment", "segment": "beta", "percentage": 12.345, "conditions": [PRO]},
        {"type": "attribute", "conditions": [{"operator": "inSegment", "value": "beta", "negate": True}]},
        ALL | {"name": "x" * 200, "salt": "x" * 200, "bucketBy": "x" * 200, "enabled": False},
        ALL | {"startAt": "2026-03-15", "endAt": "2026-03-15T00:00:00.000001Z"},
    ],
)
def test_parse_flag__right_rule__is_taken_and_remembers_what_was_sent(rule: dict[str, Any]) -> None:
    (parsed,) = parse_rules([rule])
    assert parsed.source == rule


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"type": "segment"}, [("segment", "required")]),
        ({"type": "segment", "segment": 7}, [("segment", "invalid_type")]),
        ({"type": "segment", "segment": "no key"}, [("segment", "invalid_value")]),
        ({"type": "users", "userIds": ["u"], "segment": "beta"}, [("segment", "unknown_field")]),
    ],
)
def test_parse_flag__wrong_segment_rule__is_blamed(rule: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert blamed([rule]) == [(f"rules[0].{field}", code) for field, code in expected]


# --- prerequisites, segments, references -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prerequisites", "expected"),
    [
        ({}, [("prerequisites", "invalid_type")]),
        ([{"flag": f"f{n}"} for n in range(21)], [("prerequisites", "out_of_range")]),
        (["other"], [("prerequisites[0]", "invalid_type")]),
        ([{}], [("prerequisites[0].flag", "required")]),
        ([{"flag": 7}], [("prerequisites[0].flag", "invalid_type")]),
        ([{"flag": "other"}, {"flag": "other"}], [("prerequisites[1].flag", "duplicate")]),
        ([{"flag": "other", "variants": []}], [("prerequisites[0].variants", "out_of_range")]),
        ([{"flag": "other", "variants": [7]}], [("prerequisites[0].variants[0]", "invalid_type")]),
        ([{"flag": "other", "variant": "on"}], [("prerequisites[0].variant", "unknown_field")]),
        ([{"flag": "other", "variants": ["on", "on"]}], [("prerequisites[0].variants[1]", "duplicate")]),
    ],
)
def test_parse_flag__wrong_prerequisites__are_blamed(prerequisites: Any, expected: list[tuple[str, str]]) -> None:
    assert blamed_in({"prerequisites": prerequisites}) == expected


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"conditions": {}}, [("conditions", "invalid_type")]),
        ({"conditions": [PRO] * 101}, [("conditions", "out_of_range")]),
        ({"conditions": [PRO | {"operator": "is"}]}, [("conditions[0].operator", "invalid_value")]),
        ({"userIds": "u"}, [("userIds", "invalid_type")]),
        ({"userIds": ["u", "u"]}, [("userIds[1]", "duplicate")]),
        ({"userIds": ["u"] * 100_001}, [("userIds", "out_of_range")]),
    ],
)
def test_parse_segment__wrong_document__is_blamed(document: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert blamed_in(document, parse_segment) == expected


def test_parse_segment__of_100_000_users__is_taken() -> None:
    assert len(parse_segment({"key": "s", "userIds": [f"user-{n}" for n in range(100_000)]}).user_ids) == 100_000


def test_references__of_a_flag__are_all_that_it_names() -> None:
    in_beta = {"operator": "inSegment", "value": "beta"}
    document = {
        "prerequisites": [{"flag": "a"}, {"flag": "b", "variants": ["on", "off"]}],
        "rules": [
            ALL,
            {"type": "segment", "segment": "gamma", "conditions": [PRO, in_beta]},
        ],
    }
    assert list(references(document)) == [
        Reference("flag", "a", "prerequisites[0].flag"),
        Reference(
            "flag",
            "b",
            "prerequisites[1].flag",
            (("on", "prerequisites[1].variants[0]"), ("off", "prerequisites[1].variants[1]")),
        ),
        Reference("segment", "gamma", "rules[1].segment"),
        Reference("segment", "beta", "rules[1].conditions[1].value"),
    ]
    assert list(references({"conditions": [PRO, in_beta]})) == [Reference("segment", "beta", "conditions[1].value")]


def test_parse_flag__conditions_that_are_written_alike__are_one_object() -> None:
    """And none that merely look alike to Python, for which 1, 1.0 and true are the same."""
    values: list[Any] = [1, 1.0, True, "1", 1]
    flag = parse_flag({"key": "f", "enabled": True, "rules": [*attribute_rule(*(PRO | {"value": v} for v in values))]})
    (rule,) = flag.rules
    assert [step is rule.steps[0] for step in rule.steps] == [True, False, False, False, True]
    assert [type(step.source["value"]) for step in rule.steps] == [int, float, bool, str, int]
    assert (
        parse_flag({"key": "g", "enabled": True, "rules": attribute_rule(PRO | {"value": 1})}).rules[0].steps[0]
        is (rule.steps[0])
    )


def test_parse_flag__thousands_of_variants_and_parts__are_refused_in_few_words() -> None:
    variants = [{"key": f"{n:0100}", "value": ""} for n in range(3_000)]
    split = [{"variant": "zz", "weight": 1}] * 4_000
    found = refused({"type": "string", "variants": variants, "rules": [ALL | {"split": split}]})
    assert [detail.field for detail in found] == ["variants", "rules[0].split"]
    few = refused({"type": "string", "variants": variants[:50], "rules": [ALL | {"split": split[:50]}]})
    assert max(len(detail.message) for detail in few) < 1_000


def test_conditions__of_flags_that_are_no_more__are_forgotten() -> None:
    parse_rules(attribute_rule(PRO | {"value": "only here"}))
    gc.collect()
    assert not [text for text in conditions._in_use if "only here" in text]
