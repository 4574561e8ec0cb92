"""Parsing: which rules are taken, and that every wrong field is named with the right code."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from config.errors import Detail, DetailCode, ErrorCode, ValidationFailed
from flags.engine.bucketing import BUCKETS
from flags.engine.evaluation import compile_flag, evaluate
from flags.engine.operators import OPERATORS
from flags.engine.parsing import parse_rules
from flags.engine.types import Reason, Rule, RuleType

FIXED = settings(derandomize=True, deadline=None, max_examples=300)
PRO = {"attribute": "plan", "operator": "equals", "value": "pro"}

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
SCALAR = TEXT | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
NAMES = st.sampled_from(["plan", "age", "userId", "country"])


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


def condition_with(name: str) -> st.SearchStrategy[dict[str, Any]]:
    number = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    values: dict[str, st.SearchStrategy[Any]] = {
        **dict.fromkeys(("equals", "notEquals"), SCALAR),
        **dict.fromkeys(("in", "notIn"), st.lists(SCALAR, min_size=1, max_size=5)),
        **dict.fromkeys(("contains", "startsWith", "endsWith"), TEXT.filter(bool)),
        **dict.fromkeys(("greaterThan", "greaterThanOrEqual", "lessThan", "lessThanOrEqual"), number),
    }
    value = {"value": values[name]} if name in values else {}
    return st.fixed_dictionaries({"attribute": NAMES, "operator": st.just(name), **value})


CONDITIONS = st.lists(st.sampled_from(list(OPERATORS)).flatmap(condition_with), min_size=1, max_size=3)
PERCENTAGES = st.integers(0, BUCKETS).map(lambda step: step / 1_000)
USER_IDS = st.lists(TEXT.filter(bool), min_size=1, max_size=3, unique=True)
RIGHT_RULE = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("percentage"), "percentage": PERCENTAGES}, optional={"conditions": CONDITIONS}
    ),
    st.fixed_dictionaries(
        {"type": st.just("attribute"), "conditions": CONDITIONS}, optional={"percentage": PERCENTAGES}
    ),
    st.fixed_dictionaries(
        {"type": st.just("users"), "userIds": USER_IDS},
        optional={"percentage": PERCENTAGES, "conditions": CONDITIONS},
    ),
)


def details_of(value: object, **options: Any) -> list[Detail]:
    with pytest.raises(ValidationFailed) as caught:
        parse_rules(value, **options)
    assert caught.value.code is ErrorCode.VALIDATION_FAILED
    return list(caught.value.details)


def blamed(value: object, **options: Any) -> list[tuple[str, str]]:
    return [(detail.field, str(detail.code)) for detail in details_of(value, **options)]


def percentage_rule(percentage: object) -> list[object]:
    return [{"type": "percentage", "percentage": percentage}]


def users_rule(user_ids: object) -> list[object]:
    return [{"type": "users", "userIds": user_ids}]


def attribute_rule(*conditions: object) -> list[object]:
    return [{"type": "attribute", "conditions": list(conditions)}]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"type": "percentage", "percentage": 12.5}, Rule(RuleType.PERCENTAGE, 12_500)),
        ({"type": "percentage", "percentage": 0, "conditions": []}, Rule(RuleType.PERCENTAGE, 0)),
        ({"type": "users", "userIds": ["a", "b"]}, Rule(RuleType.USERS, BUCKETS, (), frozenset({"a", "b"}))),
        ({"type": "users", "userIds": ["a"], "percentage": 5}, Rule(RuleType.USERS, 5_000, (), frozenset({"a"}))),
    ],
)
def test_parse_rules__right_rule__is_compiled(rule: dict[str, Any], expected: Rule) -> None:
    assert parse_rules([rule]) == (expected,)


def test_parse_rules__conditions__keep_what_was_sent_beside_the_predicate() -> None:
    (rule,) = parse_rules(attribute_rule(PRO, {"attribute": "age", "operator": "exists"}))
    assert (rule.type, rule.threshold, rule.user_ids) == (RuleType.ATTRIBUTE, BUCKETS, None)
    assert [(one.attribute, one.operator, one.value) for one in rule.conditions] == [
        ("plan", "equals", "pro"),
        ("age", "exists", None),
    ]
    assert [one.matches("pro") for one in rule.conditions] == [True, True]
    assert [one.matches(None) for one in rule.conditions] == [False, False]


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
        *[([{"type": value}], [("rules[0].type", "invalid_value")]) for value in ("", "Percentage", "segment")],
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
        (PRO | {"negate": True}, [(".negate", "unknown_field")]),
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
    assert sorted(blamed(rules, path="flags[2].rules")) == [
        ("flags[2].rules[0].percentage", "out_of_range"),
        ("flags[2].rules[1].percentage", "invalid_type"),
        ("flags[2].rules[1].userIds[1]", "duplicate"),
        ("flags[2].rules[2].conditions[0].operator", "invalid_value"),
        ("flags[2].rules[2].conditions[1].operator", "required"),
        ("flags[2].rules[3].extra", "unknown_field"),
        ("flags[2].rules[3].percentage", "out_of_range"),
        ("flags[2].rules[3].type", "invalid_value"),
        ("flags[2].rules[3].userIds[0]", "invalid_type"),
        ("flags[2].rules[4]", "invalid_type"),
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (percentage_rule("10"), "Must be a number from 0 to 100."),
        (percentage_rule(0.0001), "Must have at most three decimals, such as 12.5 or 0.125."),
        ([{"type": "everyone"}], 'Unknown rule type "everyone"; use one of: percentage, attribute, users.'),
        (
            attribute_rule(PRO | {"operator": "equalz"}),
            f'Unknown operator "equalz"; use one of: {", ".join(OPERATORS)}.',
        ),
        ([{"type": "x" * 1_000}], f'Unknown rule type "{"x" * 50}"; use one of: percentage, attribute, users.'),
        (
            [{"type": "percentage", "percentage": 1, "userIds": []}],
            "There is no such field here; leave it out. Fields are: type, percentage, conditions.",
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
        rules = parse_rules(value, path="body.rules")
    except ValidationFailed as refusal:
        details = refusal.details
    assert details or (isinstance(value, list) and len(rules) == len(value))
    for detail in details:
        assert detail.field.startswith("body.rules")
        assert isinstance(detail.code, DetailCode)
        assert detail.message.endswith(".")


@FIXED
@given(st.lists(RIGHT_RULE, max_size=3), TEXT, st.dictionaries(NAMES | TEXT, ANY_JSON, max_size=4))
def test_parse_rules__what_parses__evaluates_whatever_the_attributes(
    value: list[Any], user_id: str, attributes: dict[str, object]
) -> None:
    answer = evaluate(compile_flag("new-checkout", True, parse_rules(value)), user_id, attributes)
    assert answer.reason in ({Reason.RULE_MATCH, Reason.NO_RULE_MATCH} if value else {Reason.DEFAULT})
    assert answer.enabled is (answer.reason is not Reason.NO_RULE_MATCH)
