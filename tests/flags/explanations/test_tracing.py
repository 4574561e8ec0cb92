"""The explanation of a decision agrees with the evaluator."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings

from flags.engine.evaluation import evaluate
from flags.engine.types import Attributes, Configuration, Context
from flags.explanations.tracing import explain
from flags.validation.parsing import parse_flag, parse_segment
from tests.flags.engine.reference import reference_bucket
from tests.flags.engine.strategies import ATTRIBUTES, FLAGS, FLAGS_AT_ONCE, NOW, SEGMENTS, USERS

AT = datetime(2026, 3, 15, 12, tzinfo=UTC)
PRO = {"attribute": "plan", "operator": "equals", "value": "pro"}
ALL = {"type": "percentage", "percentage": 100}


def trace_of(
    rules: list[dict[str, Any]],
    attributes: Attributes | None = None,
    *,
    others: tuple[dict[str, Any], ...] = (),
    segments: tuple[dict[str, Any], ...] = (),
    **more: Any,
) -> dict[str, Any]:
    flag = parse_flag({"key": "asked", "enabled": True, "rules": rules, **more})
    flags = {other["key"]: parse_flag({"enabled": True, **other}) for other in others}
    among = Configuration({**flags, "asked": flag}, {segment["key"]: parse_segment(segment) for segment in segments})
    return explain(flag, Context("user-1", attributes or {}, among, AT)).as_json()


@settings(derandomize=True, deadline=None, max_examples=10_000 // FLAGS_AT_ONCE)
@given(FLAGS, SEGMENTS, USERS, ATTRIBUTES)
def test_explain__any_flag_and_user__answers_what_evaluate_answers(
    flags: list[dict[str, Any]], segments: list[dict[str, Any]], user_id: str, attributes: dict[str, object]
) -> None:
    parsed = {document["key"]: parse_flag(document) for document in flags}
    among = Configuration(parsed, {document["key"]: parse_segment(document) for document in segments})
    for flag in parsed.values():
        answer = evaluate(flag, Context(user_id, attributes, among, NOW)).answer
        trace = explain(flag, Context(user_id, attributes, among, NOW)).as_json()
        assert {name: trace[name] for name in ("enabled", "reason", "variant", "value") if name in trace} == answer
        assert_consistent(trace)


def assert_consistent(trace: dict[str, Any]) -> None:
    """Check that the steps agree with the decision."""
    assert all(_is_explained(rule) for rule in trace["rules"])
    matching = [rule["index"] for rule in trace["rules"] if rule["matches"]]
    served = [rule["index"] for rule in trace["rules"] if rule["isServed"]]
    is_open = trace["isEnabled"] and all(prerequisite["isMet"] for prerequisite in trace["prerequisites"])
    assert served == (matching[:1] if is_open else [])
    own = [rule for rule in trace["rules"] if rule["type"] != "experiment"]
    reason = "rule_match" if served else "no_rule_match" if own else "default"
    if not is_open:
        reason = "prerequisite_failed" if trace["isEnabled"] else "disabled"
    assert trace["reason"] == reason
    if served:
        serves = trace["rules"][served[0]]["serves"]
        assert all(serves[name] == trace[name] for name in ("enabled", "variant", "value") if name in trace)


def _is_explained(rule: dict[str, Any]) -> bool:
    passes = all(step["passed"] for step in rule.get("assignment", rule)["steps"])
    if "assignment" not in rule:
        return bool(rule["matches"] == passes)
    return rule["matches"] or not passes  # a user whose variant is forced need not pass


def test_explain__conditions__tell_the_value_compared() -> None:
    missing = {"attribute": "age", "operator": "greaterThan", "value": 17, "negate": True}
    null = {"attribute": "city", "operator": "exists"}
    inner = {"attribute": "company.id", "operator": "equals", "value": "c-2"}
    trace = trace_of(
        [{"type": "attribute", "name": "Payers", "conditions": [PRO, missing, null, inner]}],
        {"plan": "pro", "city": None, "company": {"id": "c-1"}},
    )
    assert trace == {
        "flag": "asked",
        "enabled": False,
        "reason": "no_rule_match",
        "isEnabled": True,
        "prerequisites": [],
        "rules": [
            {
                "index": 0,
                "type": "attribute",
                "name": "Payers",
                "matches": False,
                "isServed": False,
                "steps": [
                    {"test": "condition", **PRO, "actual": "pro", "passed": True},
                    {"test": "condition", **missing, "passed": False},
                    {"test": "condition", **null, "actual": None, "passed": False},
                    {"test": "condition", **inner, "actual": "c-1", "passed": False},
                ],
            }
        ],
    }
    assert json.dumps(trace)


def test_explain__share__has_bucket_and_threshold() -> None:
    at = reference_bucket("asked", "user-1")
    [out, within] = trace_of([{"type": "percentage", "percentage": share / 1_000} for share in (at, at + 1)])["rules"]
    step = {"test": "share", "salt": "asked", "bucketed": "user-1", "bucket": at}
    assert out["steps"] == [{**step, "percentage": at / 1_000, "threshold": at, "passed": False}]
    assert within["steps"] == [{**step, "percentage": (at + 1) / 1_000, "threshold": at + 1, "passed": True}]
    assert (out["isServed"], within["isServed"]) == (False, True)


def test_explain__share_by_attribute_that_is_missing__has_no_bucket() -> None:
    [rule] = trace_of([{"type": "percentage", "percentage": 100, "bucketBy": "company", "salt": "s"}])["rules"]
    step = {"test": "share", "percentage": 100, "threshold": 100_000, "salt": "s", "bucketBy": "company"}
    assert rule["steps"] == [{**step, "passed": False}]


def test_explain__rule_behind_the_one_that_decides__is_reported_as_shadowed() -> None:
    first, second, third = trace_of([{**ALL, "enabled": False}, ALL, ALL])["rules"]
    assert first["steps"] == [{"test": "enabled", "passed": False}]
    assert (second["matches"], second["isServed"]) == (True, True)
    assert (third["matches"], third["isServed"]) == (True, False)


def test_explain__schedule_and_ramp__tell_the_moment() -> None:
    ramp = [{"at": "2026-03-01", "percentage": 100}, {"at": "2026-04-01", "percentage": 0}]
    [rule] = trace_of([{"type": "percentage", "ramp": ramp, "startAt": "2026-03-01", "endAt": "2026-03-02"}])["rules"]
    assert rule["steps"][0] == {
        "test": "schedule",
        "startAt": "2026-03-01T00:00:00.000000Z",
        "endAt": "2026-03-02T00:00:00.000000Z",
        "now": "2026-03-15T12:00:00.000000Z",
        "passed": False,
    }
    assert (rule["steps"][1]["percentage"], rule["steps"][1]["passed"]) == (100, True)


def test_explain__users_and_segments__tell_who_is_listed() -> None:
    segment = {"key": "beta", "userIds": ["user-2"], "conditions": [PRO]}
    in_beta = {"operator": "inSegment", "value": "beta"}
    rules = [
        {"type": "users", "userIds": ["user-2", "user-3"]},
        {"type": "segment", "segment": "beta"},
        {"type": "attribute", "conditions": [in_beta]},
        {"type": "segment", "segment": "gone"},
    ]
    users, member, condition, gone = (
        rule["steps"][0] for rule in trace_of(rules, {"plan": "pro"}, segments=(segment,))["rules"]
    )
    beta = {
        "segment": "beta",
        "isMember": True,
        "isListed": False,
        "conditions": [{"test": "condition", **PRO, "actual": "pro", "passed": True}],
    }
    assert users == {"test": "users", "actual": "user-1", "userCount": 2, "passed": False}
    assert member == {"test": "segment", **beta, "passed": True}
    again = {name: beta[name] for name in beta if name != "conditions"}
    assert condition == {"test": "condition", **in_beta, "segment": again, "passed": True}
    assert gone == {"test": "segment", "segment": "gone", "isMember": False, "exists": False, "passed": False}


def test_explain__prerequisites__tell_what_the_other_flag_is() -> None:
    parent = {"key": "parent", "rules": [{"type": "users", "userIds": ["user-2"]}]}
    trace = trace_of([ALL], others=(parent,), prerequisites=[{"flag": "parent"}, {"flag": "gone", "variants": ["on"]}])
    assert trace["reason"] == "prerequisite_failed"
    assert trace["prerequisites"] == [
        {"flag": "parent", "enabled": False, "reason": "no_rule_match", "isMet": False},
        {"flag": "gone", "variants": ["on"], "isMet": False},
    ]
    # The rules are explained although they were not reached.
    assert [(rule["matches"], rule["isServed"]) for rule in trace["rules"]] == [(True, False)]


def test_explain__split__has_the_bucket() -> None:
    variants = [{"key": "red", "value": 1}, {"key": "blue", "value": 2}]
    split = [{"variant": "red", "weight": 1}, {"variant": "blue", "weight": 1}]
    trace = trace_of([{**ALL, "split": split}], type="number", variants=variants)
    at = reference_bucket("asked:variant", "user-1")
    assert trace["rules"][0]["serves"] == {
        "enabled": True,
        "variant": trace["variant"],
        "value": trace["value"],
        "split": split,
        "salt": "asked:variant",
        "bucket": at,
    }
    assert trace["variant"] == ("red" if at < 50_000 else "blue")


def test_explain__segments_that_ask_for_each_other__are_reported_once() -> None:
    """If conditions were repeated wherever they are named, each level would have 100 times as many."""
    segments = [{"key": "s0", "conditions": [PRO]}]
    for level in range(1, 10):
        asks = {"operator": "inSegment", "value": f"s{level - 1}"}
        segments.append({"key": f"s{level}", "conditions": [asks] * 100})
    trace = trace_of([{"type": "segment", "segment": "s9"}], {"plan": "pro"}, segments=tuple(segments))
    assert trace["enabled"]
    assert json.dumps(trace).count('"conditions"') == 10


def test_explain__long_values__are_reported_by_their_beginning() -> None:
    long = {"attribute": "bio", "operator": "exists"}
    for value in ("x" * 5_000, ["x"] * 500, {"a": "x" * 500}):
        [rule] = trace_of([{"type": "attribute", "conditions": [long]}], {"bio": value})["rules"]
        assert rule["steps"][0]["actual"] == json.dumps(value)[:300] + "…"
    [rule] = trace_of([{"type": "attribute", "conditions": [long]}], {"bio": "x" * 250})["rules"]
    assert rule["steps"][0]["actual"] == "x" * 250
