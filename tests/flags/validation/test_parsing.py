"""Parsing rules: which are accepted, and the field and code of every refusal."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from config.errors import Detail, DetailCode, ValidationFailed
from flags.engine.operators import OPERATORS
from flags.engine.types import Rule, RuleType
from tests.flags.engine.strategies import ANY_JSON, TEXT
from tests.flags.validation.refusals import refused
from tests.flags.validation.rules import FIXED, PRO, attribute_rule, blamed, parse_rules


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


def details_of(value: object) -> list[Detail]:
    return refused({"rules": value})


def percentage_rule(percentage: object) -> list[object]:
    return [{"type": "percentage", "percentage": percentage}]


def users_rule(user_ids: object) -> list[object]:
    return [{"type": "users", "userIds": user_ids}]


def test_parse_rules__value_at_a_limit__is_taken() -> None:
    for value in [
        [],
        [{"type": "percentage", "percentage": 1}] * 200,
        attribute_rule(*[PRO] * 100),
        attribute_rule({"attribute": "a" * 200, "operator": "notExists"}),
        users_rule([f"user-{number}" for number in range(10_000)]),
        users_rule(["x" * 200]),
        percentage_rule(100.0),
        percentage_rule(99.999),
    ]:
        assert len(parse_rules(value)) == len(value), value


def test_parse_rules__wrong_rule__is_blamed_on_its_field() -> None:
    for value, expected in [
        *[(value, [("rules", "invalid_type")]) for value in (None, {}, "rules", 1, True, math.nan)],
        ([{}] * 201, [("rules", "out_of_range")]),
        *[([value], [("rules[0]", "invalid_type")]) for value in (None, [], "percentage", 1, False)],
        ([{}], [("rules[0].type", "required")]),
        *[([{"type": value}], [("rules[0].type", "invalid_type")]) for value in (None, 1, True, [], {}, ["users"])],
        *[([{"type": value}], [("rules[0].type", "invalid_value")]) for value in ("", "Percentage", "experiments")],
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
    ]:
        assert blamed(value) == expected, value


def test_parse_rules__wrong_condition__is_blamed_on_its_field() -> None:
    where = "rules[1].conditions[1]"
    for condition, expected in [
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
    ]:
        rules = [{"type": "percentage", "percentage": 1}, {"type": "attribute", "conditions": [PRO, condition]}]
        assert blamed(rules) == [(f"{where}{suffix}", code) for suffix, code in expected], condition


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


def test_parse_rules__message__says_what_to_do() -> None:
    for value, expected in [
        (percentage_rule("10"), "Must be a number from 0 to 100."),
        (percentage_rule(0.0001), "Must have at most three decimals, such as 12.5 or 0.125."),
        (
            [{"type": "everyone"}],
            'Unknown rule type "everyone"; use one of: percentage, attribute, users, segment, experiment.',
        ),
        (
            attribute_rule(PRO | {"operator": "equalz"}),
            f'Unknown operator "equalz"; use one of: {", ".join(OPERATORS)}.',
        ),
        (
            [{"type": "x" * 1_000}],
            f'Unknown rule type "{"x" * 50}"; use one of: percentage, attribute, users, segment, experiment.',
        ),
        (
            [{"type": "percentage", "percentage": 1, "userIds": []}],
            "Unknown field; leave it out. The fields are: type, name, comment, enabled, percentage, "
            "conditions, startAt, endAt, salt, bucketBy, ramp, ranges, serves, variant, split.",
        ),
        (users_rule([]), "Must have 1 to 10,000 user ids."),
        ([{}] * 201, "Must have at most 200 rules."),
    ]:
        assert details_of(value)[0].message == expected, value


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
