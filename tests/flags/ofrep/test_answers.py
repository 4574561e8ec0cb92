"""The answers of OFREP: each reason, each type of value, and the metadata."""

from __future__ import annotations

import json
from typing import Any

import orjson

from flags.engine.evaluation import evaluate
from flags.engine.openfeature import reason_of
from flags.engine.types import Configuration, Context
from flags.ofrep.answers import CommonMetadata, answer_flag, answer_flags, answer_missing_key
from flags.validation.parsing import parse_flag
from tests.conftest import NOON
from tests.flags.engine.experiments import experiment_rule

ALL = {"type": "percentage", "percentage": 100}
HALF = {"type": "percentage", "percentage": 50}
NOBODY = {"type": "percentage", "percentage": 0}
PRO = {"type": "attribute", "conditions": [{"attribute": "plan", "operator": "equals", "value": "pro"}]}
FREE = {"type": "attribute", "conditions": [{"attribute": "plan", "operator": "equals", "value": "free"}]}
AUDIENCE = {"conditions": FREE["conditions"]}
COLOURS = {"type": "string", "variants": [{"key": "blue", "value": "#00f"}, {"key": "green", "value": "#0f0"}]}
FACTS = CommonMetadata("production", 42)
METADATA = {"flagSetId": "production", "revision": 42, "version": "7"}


def ask(user_id: str = "u", *, facts: CommonMetadata = FACTS, shows_rules: bool = True, **flag: Any) -> dict[str, Any]:
    """Evaluate a flag for a user with the plan pro."""
    off = parse_flag({"key": "off", "enabled": False})
    asked = parse_flag({"key": "f", "enabled": True, "version": 7, **flag})
    context = Context(user_id, {"plan": "pro"}, Configuration({"f": asked, "off": off}, {}), NOON)
    return answer_flag(asked, context, facts, shows_rules=shows_rules).as_json()


def numbers(*values: float) -> dict[str, Any]:
    return {"type": "number", "variants": [{"key": f"v{at}", "value": value} for at, value in enumerate(values)]}


def test_reason__of_each_evaluation__is_one_of_openfeature_s_beside_our_own():
    for flag, reason, own in [
        ({"enabled": False}, "DISABLED", "disabled"),
        ({"archivedAt": "2026-01-31T12:00:00Z"}, "DISABLED", "disabled"),
        ({}, "STATIC", "default"),
        ({"rules": [NOBODY]}, "SPLIT", "no_rule_match"),
        ({"rules": [FREE, NOBODY, FREE]}, "SPLIT", "no_rule_match"),
        ({"rules": [FREE]}, "UNKNOWN", "no_rule_match"),
        ({"rules": [{**FREE, "percentage": 0}]}, "UNKNOWN", "no_rule_match"),
        ({"rules": [{**PRO, "percentage": 0}]}, "SPLIT", "no_rule_match"),
        ({"rules": [{**NOBODY, "enabled": False}]}, "UNKNOWN", "no_rule_match"),
        ({"rules": [{**NOBODY, "startAt": "2027-01-01"}]}, "UNKNOWN", "no_rule_match"),
        ({"rules": [{**NOBODY, "bucketBy": "plan"}]}, "SPLIT", "no_rule_match"),
        ({"rules": [{**ALL, "bucketBy": "company"}]}, "UNKNOWN", "no_rule_match"),
        ({"rules": [{**PRO, "ramp": [{"at": "2027-01-01", "percentage": 100}]}]}, "SPLIT", "no_rule_match"),
        ({**COLOURS, "rules": [{**FREE, "split": [{"variant": "blue", "weight": 1}]}]}, "UNKNOWN", "no_rule_match"),
        ({"rules": [NOBODY, PRO]}, "SPLIT", "rule_match"),
        ({"rules": [{**FREE, "percentage": 0}, PRO]}, "TARGETING_MATCH", "rule_match"),
        ({"rules": [FREE, PRO, NOBODY]}, "TARGETING_MATCH", "rule_match"),
        ({"prerequisites": [{"flag": "off"}]}, "UNKNOWN", "prerequisite_failed"),
        ({"rules": [ALL]}, "SPLIT", "rule_match"),
        ({"rules": [PRO]}, "TARGETING_MATCH", "rule_match"),
        ({"rules": [{"type": "users", "userIds": ["u"]}]}, "TARGETING_MATCH", "rule_match"),
        ({"rules": [{**PRO, "percentage": 99.999}]}, "SPLIT", "rule_match"),
        ({"rules": [{**PRO, "ramp": [{"at": "2026-01-01", "percentage": 100}]}]}, "SPLIT", "rule_match"),
        ({"rules": [{**PRO, "bucketBy": "plan"}]}, "SPLIT", "rule_match"),
        ({**COLOURS, "rules": [{**PRO, "split": [{"variant": "blue", "weight": 1}]}]}, "SPLIT", "rule_match"),
    ]:
        answer = ask(**flag)
        assert (answer["reason"], answer["metadata"]["reason"]) == (reason, own), (flag, own)


def test_value__of_each_type__stands_beside_its_variant():
    for flag, value, variant in [
        ({}, True, "on"),
        ({"enabled": False}, False, "off"),
        ({"rules": [NOBODY]}, False, "off"),
        (COLOURS, "#00f", "blue"),
        ({**COLOURS, "enabled": False}, "#0f0", "green"),
        ({**COLOURS, "rules": [{**PRO, "variant": "green"}]}, "#0f0", "green"),
        ({"type": "boolean", "variants": [{"key": "y", "value": False}, {"key": "x", "value": True}]}, True, "x"),
        ({"type": "object", "variants": [{"key": "a", "value": {"x": [1, None]}}]}, {"x": [1, None]}, "a"),
        ({"type": "object", "variants": [{"key": "a", "value": {}}]}, {}, "a"),
    ]:
        answer = ask(**flag)
        assert (answer["value"], answer["variant"]) == (value, variant), (flag, value)
        assert type(answer["value"]) is type(value), (flag, value)


def test_value__number__is_written_as_the_one_type_that_all_of_its_flag_have():
    for values, written in [
        ((5, 10), "5"), ((5, 0.5), "5.0"), ((0, 0.5), "0.0"), ((-3, 0.5), "-3.0"), ((0.5, 5), "0.5"),
        ((5.0, 10), "5.0"), ((2**53, 0.5), "9007199254740992.0"), ((2**63, 1), "9223372036854775808"),
        ((1e300, 1), "1e+300"),
    ]:  # fmt: skip
        answer = orjson.dumps(ask(**numbers(*values)))
        assert f'"value":{written},' in answer.decode(), (values, written)
        assert type(json.loads(answer)["value"]) is (
            float if any(isinstance(value, float) for value in values) else int
        ), (values, written)


def test_metadata__of_a_match__tells_the_rule_and_its_name():
    answer = ask(rules=[NOBODY, {**PRO, "name": "Payers"}])
    assert answer["metadata"] == {**METADATA, "reason": "rule_match", "rule": 1, "ruleName": "Payers"}


def test_metadata__of_a_rule_without_a_name__tells_its_number_alone():
    assert ask(rules=[PRO])["metadata"] == {**METADATA, "reason": "rule_match", "rule": 0}


def test_metadata__for_those_who_may_not_know__tells_nothing_of_rules():
    answer = ask(rules=[{**HALF, "percentage": 100, "name": "Secret plan"}], shows_rules=False)
    assert answer == {
        "key": "f",
        "reason": "SPLIT",
        "value": True,
        "variant": "on",
        "metadata": {**METADATA, "reason": "rule_match"},
    }


def test_metadata__where_no_rule_decided__tells_of_none():
    for flag in [{}, {"enabled": False}, {"rules": [NOBODY]}]:
        assert ask(**flag)["metadata"].keys() == {*METADATA, "reason"}, flag


def test_reason__of_a_user_whom_no_rule_of_a_driven_flag_takes__is_split_where_the_hash_decided():
    for rule, reason in [
        ({"percentage": 0}, "SPLIT"),
        ({"group": {"key": "g", "from": 0, "to": 0.001}}, "SPLIT"),
        ({"percentage": 0, **AUDIENCE}, "STATIC"),
        ({"group": {"key": "g", "from": 0, "to": 0.001}, **AUDIENCE}, "STATIC"),
        (AUDIENCE, "STATIC"),
        ({"percentage": 0, "conditions": PRO["conditions"]}, "SPLIT"),
    ]:
        flag = parse_flag({"key": "f", "enabled": True, "rules": [experiment_rule(**rule)]})
        context = Context("u", {"plan": "pro"}, Configuration({"f": flag}, {}), NOON)
        assert reason_of(flag, flag.otherwise, None, context) == reason, rule
        flag = parse_flag({"key": "f", "enabled": True, "rules": [experiment_rule(**rule), PRO]})
        expected = "TARGETING_MATCH" if reason == "STATIC" else "SPLIT"
        assert reason_of(flag, evaluate(flag, context), flag.rules[1], context) == expected, rule


def test_metadata__of_a_driven_flag__names_the_experiment_and_the_variant_that_the_user_has():
    for rules, enabled, expected in [
        ([experiment_rule()], True, {"experimentVariant": "treatment", "inExperiment": True}),
        ([experiment_rule(forced={"v": "treatment"})], True, {"experimentVariant": "treatment", "inExperiment": False}),
        ([experiment_rule(**AUDIENCE)], True, {"inExperiment": False}),
        ([experiment_rule(percentage=0)], True, {"inExperiment": False}),
        ([PRO, experiment_rule()], True, {"inExperiment": False}),
        ([experiment_rule()], False, {"inExperiment": False}),
    ]:
        for shows_rules in (True, False):
            metadata = ask("v", rules=rules, enabled=enabled, shows_rules=shows_rules)["metadata"]
            about = {name: value for name, value in metadata.items() if "xperiment" in name}
            assert about == {"experiment": "checkout", **expected}, (rules, enabled)


def test_metadata__of_a_driven_flag_for_an_anonymous_user__says_that_nobody_is_counted():
    metadata = ask("", rules=[experiment_rule(percentage=0)])["metadata"]
    assert metadata["experiment"] == "checkout"
    assert metadata["inExperiment"] is False
    assert "experimentVariant" not in metadata


def test_answer_flags__without_a_targeting_key__fails_only_for_flags_that_need_one():
    flags = {
        key: parse_flag({"key": key, "enabled": True, **more})
        for key, more in {
            "plain": {},
            "half": {"rules": [HALF]},
            "pro": {"rules": [PRO]},
            "child": {"prerequisites": [{"flag": "half"}]},
        }.items()
    }
    context = Context("", {"plan": "pro"}, Configuration(flags, {}), NOON)
    answers = {
        answer.key: answer.as_json() for answer in answer_flags(flags.values(), context, FACTS, shows_rules=True)
    }
    assert list(answers) == list(flags)
    assert {key: answer.get("reason") for key, answer in answers.items()} == {
        "plain": "STATIC",
        "half": None,
        "pro": "TARGETING_MATCH",
        "child": None,
    }
    assert answers["half"] == answer_missing_key("half").as_json()
    assert answers["child"]["errorCode"] == "TARGETING_KEY_MISSING"
    assert "targetingKey" in answers["child"]["errorDetails"]
