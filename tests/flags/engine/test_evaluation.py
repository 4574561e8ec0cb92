"""Evaluation: the published reasons, the order of rules, and who is in an audience and its share."""

from __future__ import annotations

from itertools import pairwise
from types import MappingProxyType
from typing import Any

import pytest

from flags.engine.evaluation import compile_flag, evaluate
from flags.engine.parsing import parse_rules
from flags.engine.types import Evaluation, Flag, Reason
from tests.flags.engine.reference import load_vectors, reference_bucket

KEY = "new-checkout"
USER = "user-1"
ALL = {"type": "percentage", "percentage": 100}
NOBODY = {"type": "percentage", "percentage": 0}
PRO = {"attribute": "plan", "operator": "equals", "value": "pro"}
ADULT = {"attribute": "age", "operator": "greaterThanOrEqual", "value": 18}

MATCH = Evaluation(True, Reason.RULE_MATCH)
NO_MATCH = Evaluation(False, Reason.NO_RULE_MATCH)


def flag(*rules: dict[str, Any], enabled: bool = True, key: str = KEY) -> Flag:
    return compile_flag(key, enabled, parse_rules(list(rules)))


@pytest.mark.parametrize("rules", [[], [ALL], [NOBODY], [{"type": "users", "userIds": [USER]}]])
def test_evaluate__disabled_flag__is_off_whatever_its_rules(rules: list[dict[str, Any]]) -> None:
    assert evaluate(flag(*rules, enabled=False), USER, {}) == Evaluation(False, Reason.DISABLED)


def test_evaluate__no_rules__is_on_by_default() -> None:
    assert evaluate(flag(), USER, {}) == Evaluation(True, Reason.DEFAULT)


@pytest.mark.parametrize(
    ("rules", "attributes", "expected"),
    [
        ([ALL], {}, MATCH),
        ([NOBODY], {}, NO_MATCH),
        ([NOBODY, ALL], {}, MATCH),
        ([NOBODY, NOBODY], {}, NO_MATCH),
        ([{"type": "attribute", "conditions": [PRO]}], {"plan": "pro"}, MATCH),
        ([{"type": "attribute", "conditions": [PRO]}], {"plan": "free"}, NO_MATCH),
        ([{"type": "attribute", "conditions": [PRO]}], {"plan": None}, NO_MATCH),
        ([{"type": "attribute", "conditions": [PRO]}], {}, NO_MATCH),
        ([{"type": "attribute", "conditions": [PRO, ADULT]}], {"plan": "pro", "age": 18}, MATCH),
        ([{"type": "attribute", "conditions": [PRO, ADULT]}], {"plan": "pro", "age": 17}, NO_MATCH),
        ([{"type": "attribute", "conditions": [PRO, ADULT]}], {"age": 18}, NO_MATCH),
        (
            [{"type": "attribute", "conditions": [PRO]}, {"type": "attribute", "conditions": [ADULT]}],
            {"age": 40},
            MATCH,
        ),
        ([{"type": "attribute", "conditions": [PRO], "percentage": 0}], {"plan": "pro"}, NO_MATCH),
        ([{"type": "attribute", "conditions": [PRO], "percentage": 0}, ALL], {"plan": "pro"}, MATCH),
        ([ALL | {"conditions": [PRO]}], {"plan": "pro"}, MATCH),
        ([ALL | {"conditions": [PRO]}], {"plan": "free"}, NO_MATCH),
        ([ALL | {"conditions": []}], {}, MATCH),
        ([{"type": "users", "userIds": ["user-0", USER]}], {}, MATCH),
        ([{"type": "users", "userIds": ["user-0", "user-10", "USER-1"]}], {}, NO_MATCH),
        ([{"type": "users", "userIds": [USER], "conditions": [PRO]}], {"plan": "pro"}, MATCH),
        ([{"type": "users", "userIds": [USER], "conditions": [PRO]}], {}, NO_MATCH),
        ([{"type": "users", "userIds": [USER], "percentage": 0}], {}, NO_MATCH),
        ([{"type": "attribute", "conditions": [{"attribute": "plan", "operator": "notExists"}]}], {}, MATCH),
        (
            [{"type": "attribute", "conditions": [{"attribute": "plan", "operator": "notExists"}]}],
            {"plan": None},
            MATCH,
        ),
        (
            [{"type": "attribute", "conditions": [{"attribute": "plan", "operator": "exists"}]}],
            {"plan": None},
            NO_MATCH,
        ),
    ],
)
def test_evaluate__rules__are_tried_in_order(
    rules: list[dict[str, Any]], attributes: dict[str, object], expected: Evaluation
) -> None:
    assert evaluate(flag(*rules), USER, attributes) == expected


@pytest.mark.parametrize("attributes", [{}, {"userId": "somebody-else"}, {"userId": None}, {"userId": 7}])
def test_evaluate__attribute_user_id__is_the_user_whatever_the_caller_says(attributes: dict[str, object]) -> None:
    starts = {"attribute": "userId", "operator": "startsWith", "value": "user-"}
    other = {"attribute": "userId", "operator": "equals", "value": "somebody-else"}
    assert evaluate(flag({"type": "attribute", "conditions": [starts]}), USER, attributes) == MATCH
    assert evaluate(flag({"type": "attribute", "conditions": [other]}), USER, attributes) == NO_MATCH


def test_evaluate__share__ends_exactly_above_the_users_bucket() -> None:
    vectors = [vector for vector in load_vectors("buckets") if vector["userId"]]
    assert len(vectors) > 190
    for vector in vectors:
        below, above = vector["bucket"] / 1_000, (vector["bucket"] + 1) / 1_000
        out = flag({"type": "percentage", "percentage": below}, key=vector["salt"])
        within = flag({"type": "percentage", "percentage": above}, key=vector["salt"])
        assert evaluate(out, vector["userId"], {}) == NO_MATCH, vector
        assert evaluate(within, vector["userId"], {}) == MATCH, vector


def test_evaluate__user_outside_the_share__falls_through_to_the_next_rule() -> None:
    at = reference_bucket(KEY, USER)
    narrow = {"type": "attribute", "conditions": [PRO], "percentage": at / 1_000}
    wide = {"type": "percentage", "percentage": (at + 1) / 1_000}
    assert evaluate(flag(narrow, wide), USER, {"plan": "pro"}) == MATCH
    assert evaluate(flag(narrow, narrow), USER, {"plan": "pro"}) == NO_MATCH


def test_evaluate__raised_percentage__keeps_everyone_who_was_in() -> None:
    users = [f"user-{number}" for number in range(5_000)]
    enabled = [
        {user for user in users if evaluate(flag({"type": "percentage", "percentage": share}), user, {}).enabled}
        for share in (0, 1, 10, 50, 99, 100)
    ]
    assert all(smaller < larger for smaller, larger in pairwise(enabled))
    assert (len(enabled[0]), len(enabled[-1])) == (0, 5_000)


@pytest.mark.parametrize("percentage", [0, 50, 100])
def test_evaluate__same_flag_and_user__is_always_the_same_shared_answer(percentage: int) -> None:
    first, again = (
        evaluate(flag({"type": "percentage", "percentage": percentage}), USER, MappingProxyType({})) for _ in range(2)
    )
    assert first is again


def test_reason__published_names__are_spelled_as_promised() -> None:
    assert [str(reason) for reason in Reason] == ["disabled", "rule_match", "no_rule_match", "default"]
