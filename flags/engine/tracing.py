"""Why a user gets what they get: the evaluator with its every step written down, as JSON.

Not here: any decision. What a step finds is found by the test that evaluation runs.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from config.timestamps import format_timestamp
from flags.engine.bucketing import BUCKETS, bucket
from flags.engine.conditions import Condition
from flags.engine.evaluation import evaluate, evaluate_prerequisite, is_met, takes_in
from flags.engine.membership import is_member
from flags.engine.rules import Membership, Schedule, Share, Switch, Users, unit_of
from flags.engine.types import Context, Evaluation, Flag, Prerequisite, Rule

Trace = dict[str, Any]


def explain(flag: Flag, context: Context) -> Trace:
    """Return what `evaluate` answers and how it came to that.

    Besides the answer: `isEnabled`, whether the flag itself is on; `prerequisites`, each with what the other flag is
    for the user and whether that will do; and `rules`, all of them in order, each with every test and what it found.
    One rule at most `isServed`; another that `matches` was not reached.
    """
    reached: list[Rule] = []

    def takes_in_and_notes(rule: Rule, context: Context) -> bool:
        reached.append(rule)
        return takes_in(rule, context)

    evaluation = evaluate(flag, context, takes_in=takes_in_and_notes)
    served = len(reached) - 1 if evaluation.reason == "rule_match" else None
    return {
        "flag": flag.key,
        **evaluation.answer,
        "isEnabled": flag.enabled,
        "prerequisites": [_prerequisite(each, context) for each in flag.prerequisites],
        "rules": [_rule(at, rule, context, at == served) for at, rule in enumerate(flag.rules)],
    }


def _prerequisite(prerequisite: Prerequisite, context: Context) -> Trace:
    found: Evaluation | None = evaluate_prerequisite(prerequisite, context)
    told: Trace = {"flag": prerequisite.flag}
    if prerequisite.variants:
        told["variants"] = list(prerequisite.variants)
    return {**told, **(found.answer if found else {}), "isMet": is_met(prerequisite, context)}


def _rule(at: int, rule: Rule, context: Context, is_served: bool) -> Trace:
    steps = [_step(step, context) for step in rule.steps]
    matches = all(step["passed"] for step in steps)
    told: Trace = {"index": at, "type": rule.source["type"]}
    if "name" in rule.source:
        told["name"] = rule.source["name"]
    told |= {"matches": matches, "isServed": is_served, "steps": steps}
    return {**told, "serves": _serving(rule, context)} if matches else told


def _serving(rule: Rule, context: Context) -> Trace:
    answer = rule.serve(context).answer
    told: Trace = {name: answer[name] for name in ("enabled", "variant", "value") if name in answer}
    unit = unit_of(rule.source.get("bucketBy"))(context)
    if "split" in rule.source and unit is not None:
        salt = f"{rule.salt}:variant"
        told |= {"split": rule.source["split"], "salt": salt, "bucket": bucket(salt, unit)}
    return told


def _step(step: Any, context: Context) -> Trace:
    return {**_tell(step, context), "passed": step.test(context)}


@singledispatch
def _tell(step: Any, context: Context) -> Trace:
    raise NotImplementedError(type(step))


@_tell.register
def _(_step: Switch, _context: Context) -> Trace:
    return {"test": "enabled"}


@_tell.register
def _(step: Schedule, context: Context) -> Trace:
    bounds = {"startAt": step.start, "endAt": step.end, "now": context.now}
    return {"test": "schedule", **{name: format_timestamp(at) for name, at in bounds.items() if at is not None}}


@_tell.register
def _(step: Users, context: Context) -> Trace:
    return {"test": "users", "actual": context.user_id, "userCount": len(step.user_ids)}


@_tell.register
def _(step: Membership, context: Context) -> Trace:
    return {"test": "segment", **_segment(step.segment, context)}


@_tell.register
def _(step: Condition, context: Context) -> Trace:
    told: Trace = {"test": "condition", **step.source}
    if step.source["operator"] == "inSegment":
        return {**told, "segment": _segment(step.source["value"], context)}
    actual = step.read(context)
    # What is missing is left out; null would be what the caller sent.
    is_there = step.source["attribute"] in context.attributes or actual is not None
    return {**told, "actual": actual} if is_there else told


@_tell.register
def _(step: Share, context: Context) -> Trace:
    limit = step.threshold_at(context.now)
    told: Trace = {"test": "share", "percentage": limit * 100 / BUCKETS, "threshold": limit, "salt": step.salt}
    if step.bucket_by is not None:
        told["bucketBy"] = step.bucket_by
    unit = step.unit(context)
    return told if unit is None else {**told, "bucketed": unit, "bucket": bucket(step.salt, unit)}


def _segment(key: str, context: Context) -> Trace:
    segment = context.configuration.segments.get(key)
    told: Trace = {"segment": key, "isMember": is_member(key, context)}
    if segment is None:
        return {**told, "exists": False}
    return {
        **told,
        "isListed": context.user_id in segment.user_ids,
        "conditions": [_step(step, context) for step in segment.steps],
    }
