"""Resolution: the rule that decides, and flags for anonymous users."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from flags.engine.evaluation import TargetingKeyMissing, evaluate, resolve
from flags.engine.types import Configuration, Context, Reason
from flags.validation.parsing import parse_flag, parse_segment

NOW = datetime(2026, 3, 15, 12, tzinfo=UTC)
HALF = {"type": "percentage", "percentage": 50}
ADA = {"type": "users", "userIds": ["ada"]}
PRO = {"attribute": "plan", "operator": "equals", "value": "pro"}
COLOURS = {"type": "string", "variants": [{"key": "red", "value": "#f00"}, {"key": "blue", "value": "#00f"}]}
SPLIT = [{"variant": "red", "weight": 1}, {"variant": "blue", "weight": 1}]


def among(*documents: dict[str, Any], segments: tuple[dict[str, Any], ...] = ()) -> Configuration:
    flags = [parse_flag({"enabled": True, **document}) for document in documents]
    return Configuration(
        {flag.key: flag for flag in flags}, {segment["key"]: parse_segment(segment) for segment in segments}
    )


def flag(*rules: dict[str, Any], **more: Any) -> Configuration:
    return among({"key": "f", "rules": list(rules), **more})


def context(configuration: Configuration, user_id: str = "", **attributes: Any) -> Context:
    return Context(user_id, attributes, configuration, NOW)


def test_resolve__any_user__answers_as_evaluate_does_and_names_the_rule() -> None:
    configuration = flag(ADA, {"type": "attribute", "conditions": [PRO], "percentage": 30}, HALF)
    compiled = configuration.flags["f"]
    indexes = set()
    for at in range(200):
        asked = context(configuration, "ada" if at == 0 else f"user-{at}", plan="pro" if at % 2 else "free")
        evaluation, rule = resolve(compiled, asked)
        assert evaluation == evaluate(compiled, asked)
        assert (rule is None) is (evaluation.reason is Reason.NO_RULE_MATCH)
        indexes.add(rule.index if rule else None)
    assert indexes == {0, 1, 2, None}


def test_is_split__rule__says_whether_the_hash_has_a_say() -> None:
    for rule, is_split in [
        (HALF, True),
        ({"type": "percentage", "percentage": 100}, True),
        ({"type": "attribute", "conditions": [PRO], "percentage": 99.999}, True),
        ({"type": "attribute", "conditions": [PRO], "split": SPLIT}, True),
        ({"type": "attribute", "conditions": [PRO], "ramp": [{"at": "2026-01-01", "percentage": 100}]}, True),
        ({"type": "attribute", "conditions": [PRO]}, False),
        (ADA, False),
    ]:
        [compiled] = flag(rule, **COLOURS).flags["f"].rules
        assert compiled.is_split is is_split, (rule, is_split)


def test_resolve__anonymous_user__gets_what_no_hash_decides() -> None:
    segment = {"key": "s", "userIds": ["ada"]}
    for rules, reason in [
        ([], Reason.DEFAULT),
        ([ADA], Reason.NO_RULE_MATCH),
        ([{"type": "segment", "segment": "s"}], Reason.NO_RULE_MATCH),
        ([{"type": "attribute", "conditions": [PRO]}], Reason.RULE_MATCH),
        ([{"type": "attribute", "conditions": [PRO], "percentage": 100}, HALF], Reason.RULE_MATCH),
        ([{**HALF, "percentage": 0}], Reason.NO_RULE_MATCH),
        ([{**HALF, "percentage": 100}], Reason.RULE_MATCH),
        ([{**HALF, "conditions": [{**PRO, "value": "free"}]}], Reason.NO_RULE_MATCH),
        ([{**HALF, "endAt": "2026-01-01"}], Reason.NO_RULE_MATCH),
        ([{**HALF, "enabled": False}], Reason.NO_RULE_MATCH),
        ([{**HALF, "bucketBy": "company"}], Reason.NO_RULE_MATCH),
        ([{"type": "percentage", "ramp": [{"at": "2026-01-01", "percentage": 100}]}], Reason.RULE_MATCH),
    ]:
        configuration = among({"key": "f", "rules": rules}, segments=(segment,))
        evaluation, rule = resolve(configuration.flags["f"], context(configuration, plan="pro"))
        assert evaluation.reason is reason, rules
        assert (rule is not None) is (reason is Reason.RULE_MATCH), rules


def test_resolve__anonymous_user__is_refused_if_a_hash_decides(subtests: pytest.Subtests) -> None:
    for rules in [
        [HALF],
        [ADA, HALF],
        [{**HALF, "bucketBy": "userId"}],
        [{"type": "attribute", "conditions": [PRO], "split": SPLIT}],
        [{"type": "percentage", "ramp": [{"at": "2026-01-01", "percentage": 1}]}],
    ]:
        with subtests.test(rules=rules):
            configuration = flag(*rules, **COLOURS)
            with pytest.raises(TargetingKeyMissing):
                resolve(configuration.flags["f"], context(configuration, plan="pro"))


def test_resolve__anonymous_user__company_is_hashed_as_usual() -> None:
    configuration = flag({**HALF, "bucketBy": "company", "split": SPLIT}, **COLOURS)
    compiled = configuration.flags["f"]
    for at in range(50):
        assert resolve(compiled, context(configuration, company=f"c-{at}"))[0] == evaluate(
            compiled, context(configuration, "ada", company=f"c-{at}")
        )


def test_resolve__anonymous_user__meets_no_condition_on_the_user_id() -> None:
    for operator in ["exists", "notEquals", "startsWith", "in", "notIn"]:
        value = {"exists": {}, "in": {"value": ["ada", "x"]}, "notIn": {"value": ["ada"]}}.get(operator, {"value": "x"})
        for negate in (False, True):
            condition = {"attribute": "userId", "operator": operator, "negate": negate, **value}
            configuration = flag({"type": "attribute", "conditions": [condition]})
            is_missing = operator == "exists" and negate
            assert resolve(configuration.flags["f"], context(configuration))[0].enabled is is_missing, operator


def test_resolve__prerequisite_that_a_hash_decides__cannot_be_resolved_either() -> None:
    configuration = among(
        {"key": "f", "rules": [], "prerequisites": [{"flag": "p"}]},
        {"key": "g", "rules": [], "prerequisites": [{"flag": "q"}]},
        {"key": "p", "rules": [HALF]},
        {"key": "q", "rules": [{"type": "attribute", "conditions": [PRO]}]},
    )
    with pytest.raises(TargetingKeyMissing):
        resolve(configuration.flags["f"], context(configuration))
    for plan, reason in (("pro", Reason.DEFAULT), ("free", Reason.PREREQUISITE_FAILED)):
        assert resolve(configuration.flags["g"], context(configuration, plan=plan))[0].reason is reason


def test_resolve__clock__decides_for_anonymous_users_too() -> None:
    configuration = flag({**HALF, "percentage": 100, "startAt": (NOW + timedelta(hours=1)).isoformat()})
    assert resolve(configuration.flags["f"], context(configuration))[0].enabled is False
    later = Context("", {}, configuration, NOW + timedelta(hours=1))
    assert resolve(configuration.flags["f"], later)[0].enabled is True
