"""The published evaluations agree with the engine, and cover everything that a flag can have."""

from __future__ import annotations

import json
from typing import Any

import pytest

from config.timestamps import parse_timestamp
from flags.engine.compiling import compile_segment
from flags.engine.evaluation import evaluate
from flags.engine.operators import OPERATORS
from flags.engine.types import Configuration, Context, Reason, RuleType, ValueType
from flags.validation.parsing import parse_flag
from tests.flags.engine.reference import VECTORS


@pytest.fixture(scope="module")
def published() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((VECTORS / "evaluations.json").read_text(encoding="utf-8"))
    return document


def test_evaluations__all_that_are_published__are_reproduced(published: dict[str, Any]) -> None:
    ruleset = published["ruleset"]
    flags = [parse_flag({name: entry[name] for name in entry if name != "archived"}) for entry in ruleset["flags"]]
    configuration = Configuration(
        {flag.key: flag for flag in flags}, {entry["key"]: compile_segment(entry) for entry in ruleset["segments"]}
    )
    assert len(published["evaluations"]) > 1500
    for entry in published["evaluations"]:
        context = Context(entry["userId"], entry["attributes"], configuration, parse_timestamp(entry["now"]))
        assert evaluate(configuration.flags[entry["flag"]], context).answer == entry["answer"], entry


def test_evaluations__operators_rules_types_and_reasons__all_occur(published: dict[str, Any]) -> None:
    flags = published["ruleset"]["flags"]
    rules = [rule for flag in flags for rule in flag["rules"]]
    conditions = [condition for rule in rules for condition in rule.get("conditions", ())]
    assert {condition["operator"] for condition in conditions} == OPERATORS.keys()
    assert {rule["type"] for rule in rules} == set(RuleType)
    assert {flag["type"] for flag in flags if "type" in flag} == set(ValueType)
    names = {name for entry in (*rules, *conditions) for name in entry}
    assert names >= {"enabled", "startAt", "endAt", "ramp", "salt", "bucketBy", "split", "variant", "negate"}
    assert names >= {"ranges", "serves"}
    assert names >= {"experiment", "variants", "percentage", "conditions", "group", "forced"}
    assert {entry["answer"]["reason"] for entry in published["evaluations"]} == set(Reason)
    assert {entry["flag"] for entry in published["evaluations"]} == {flag["key"] for flag in flags}
    ways = {(entry["flag"], entry["answer"]["enabled"]) for entry in published["evaluations"]}
    about_a = [flag["key"] for flag in flags if '"attribute": "a"' in json.dumps(flag)]
    assert len(about_a) > 40
    assert ways >= {(key, enabled) for key in about_a for enabled in (True, False)}
