"""Why a user gets what they get: the evaluator with its every step written down, as JSON.

Not here: any decision. What a step finds is found by the test that evaluation runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any

from config.timestamps import format_timestamp
from flags.engine.bucketing import BUCKETS, bucket, threshold
from flags.engine.conditions import Condition
from flags.engine.evaluation import evaluate, evaluate_prerequisite, is_met, takes_in
from flags.engine.experiment_rule import ExperimentRule
from flags.engine.rules import Membership, Schedule, Share, Switch, Users, unit_of
from flags.engine.types import Context, Evaluation, Flag, Prerequisite, Rule, is_member

Trace = dict[str, Any]

_LONGEST_TOLD = 300


def explain(flag: Flag, context: Context) -> Trace:
    """Return what `evaluate` answers and how it came to that.

    Besides the answer: `isEnabled`, whether the flag itself is on; `prerequisites`, each with what the other flag is
    for the user and whether that will do; and `rules`, all of them in order, each with every test and what it found.
    One rule at most `isServed`; another that `matches` was not reached. The conditions of a segment are told where it
    is first asked for.
    """
    teller = _Teller(context)
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
        "rules": [_rule(at, rule, teller, at == served) for at, rule in enumerate(flag.rules)],
    }


def _prerequisite(prerequisite: Prerequisite, context: Context) -> Trace:
    found: Evaluation | None = evaluate_prerequisite(prerequisite, context)
    told: Trace = {"flag": prerequisite.flag}
    if prerequisite.variants:
        told["variants"] = list(prerequisite.variants)
    return {**told, **(found.answer if found else {}), "isMet": is_met(prerequisite, context)}


@dataclass(slots=True)
class _Teller:
    """For whom it is told, and which segments have been told about."""

    context: Context
    segments: set[str] = field(default_factory=set)


def _rule(at: int, rule: Rule, teller: _Teller, is_served: bool) -> Trace:
    steps = [_step(step, teller) for step in rule.steps]
    matches = all(step["passed"] for step in steps)
    told: Trace = {"index": at, "type": rule.source["type"]}
    if "name" in rule.source:
        told["name"] = rule.source["name"]
    told |= {"matches": matches, "isServed": is_served, "steps": steps}
    if isinstance(rule, ExperimentRule):
        told["assignment"] = _assignment(rule, teller)
    return {**told, "serves": _serving(rule, teller.context)} if matches else told


def _assignment(rule: ExperimentRule, teller: _Teller) -> Trace:
    """Whether the user is in the experiment, with which variant, and all that has a say in it, in its order."""
    context, key = teller.context, rule.source["experiment"]
    assigned = rule.assign(context)
    told: Trace = {"experiment": key, "variant": assigned.variant, "inExperiment": assigned.exclusion is None}
    if assigned.exclusion:
        told["reason"] = assigned.exclusion.value
    if key in context.assigned:
        told["stored"] = context.assigned[key]
    salt = f"{key}:variant"
    split = [{"variant": each["key"], "weight": each["weight"]} for each in rule.source["variants"]]
    told |= {"split": split, "salt": salt, "bucket": bucket(salt, context.user_id)}
    return {**told, "steps": [*_audience(rule, teller)]}


def _audience(rule: ExperimentRule, teller: _Teller) -> Iterator[Trace]:
    if group := rule.source.get("group"):
        at = bucket(group["key"], teller.context.user_id)
        start, end = threshold(group["from"]), threshold(group["to"])
        told = {"group": group["key"], "from": group["from"], "to": group["to"], "bucket": at}
        yield {"test": "group", **told, "passed": start <= at < end}
    yield from (_step(condition, teller) for condition in rule.conditions)
    if (percentage := rule.source.get("percentage", 100)) != 100:
        at, reached = bucket(rule.salt, teller.context.user_id), threshold(percentage)
        told = {"percentage": percentage, "threshold": reached, "salt": rule.salt}
        yield {"test": "share", **told, "bucketed": teller.context.user_id, "bucket": at, "passed": at < reached}


def _serving(rule: Rule, context: Context) -> Trace:
    answer = rule.serve(context).answer
    told: Trace = {name: answer[name] for name in ("enabled", "variant", "value") if name in answer}
    unit = unit_of(rule.source.get("bucketBy"))(context)
    if "split" in rule.source and unit is not None:
        salt = f"{rule.salt}:variant"
        told |= {"split": rule.source["split"], "salt": salt, "bucket": bucket(salt, unit)}
    return told


def _step(step: Any, teller: _Teller) -> Trace:
    return {**_tell(step, teller), "passed": step.test(teller.context)}


@singledispatch
def _tell(step: Any, teller: _Teller) -> Trace:
    raise TypeError(f"A {type(step).__name__} is no step that can be told.")


@_tell.register
def _(_step: Switch, _teller: _Teller) -> Trace:
    return {"test": "enabled"}


@_tell.register
def _(step: Schedule, teller: _Teller) -> Trace:
    bounds = {"startAt": step.start, "endAt": step.end, "now": teller.context.now}
    return {"test": "schedule", **{name: format_timestamp(at) for name, at in bounds.items() if at is not None}}


@_tell.register
def _(step: Users, teller: _Teller) -> Trace:
    return {"test": "users", "actual": teller.context.user_id, "userCount": len(step.user_ids)}


@_tell.register
def _(step: Membership, teller: _Teller) -> Trace:
    return {"test": "segment", **_segment(step.segment, teller)}


@_tell.register
def _(step: Condition, teller: _Teller) -> Trace:
    told: Trace = {"test": "condition", **step.source}
    if step.source["operator"] == "inSegment":
        return {**told, "segment": _segment(step.source["value"], teller)}
    actual = step.read(teller.context)
    # What is missing is left out; null would be what the caller sent.
    is_there = step.source["attribute"] in teller.context.attributes or actual is not None
    return {**told, "actual": _shortened(actual)} if is_there else told


@_tell.register
def _(step: Share, teller: _Teller) -> Trace:
    limit = step.threshold_at(teller.context.now)
    told: Trace = {"test": "share", "percentage": limit * 100 / BUCKETS, "threshold": limit, "salt": step.salt}
    if step.bucket_by is not None:
        told["bucketBy"] = step.bucket_by
    unit = step.unit(teller.context)
    return told if unit is None else {**told, "bucketed": _shortened(unit), "bucket": bucket(step.salt, unit)}


def _segment(key: str, teller: _Teller) -> Trace:
    context = teller.context
    segment = context.configuration.segments.get(key)
    told: Trace = {"segment": key, "isMember": is_member(key, context)}
    if segment is None:
        return {**told, "exists": False}
    told["isListed"] = context.user_id in segment.user_ids
    if key not in teller.segments:  # what many ask for would be told over and over, more at every level
        teller.segments.add(key)
        told["conditions"] = [_step(step, teller) for step in segment.steps]
    return told


def _shortened(value: object) -> object:
    """A value or, of a long one, the beginning of its JSON: many conditions may ask for the same attribute."""
    if isinstance(value, str) and len(value) < _LONGEST_TOLD:
        return value
    text = json.dumps(value, ensure_ascii=False)
    return value if len(text) <= _LONGEST_TOLD else f"{text[:_LONGEST_TOLD]}…"
