"""Explain an evaluation: run the evaluator and record each of its steps.

Nothing is decided here. Each step is found out by the same test that an evaluation runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import singledispatch
from typing import Any

from msgspec import UNSET, UnsetType

from config.timestamps import format_timestamp
from flags.engine import trace
from flags.engine.bucketing import BUCKETS, bucket, threshold
from flags.engine.conditions import Condition
from flags.engine.evaluation import evaluate, evaluate_prerequisite, is_met, matches
from flags.engine.experiment_rule import ExperimentRule
from flags.engine.rules import Membership, Schedule, Share, Switch, Users, unit_of
from flags.engine.trace import Trace
from flags.engine.types import Context, Flag, Prerequisite, Rule, is_member

_LONGEST_SHOWN = 300


def explain(flag: Flag, context: Context) -> Trace:
    """Return what `evaluate` answers, with every test of every rule that led to it.

    At most one rule has `is_served`. Another rule that `matches` was not reached. The conditions of
    a segment are explained only where the segment first appears.
    """
    tracer = _Tracer(context)
    reached: list[Rule] = []

    def match_and_remember(rule: Rule, context: Context) -> bool:
        reached.append(rule)
        return matches(rule, context)

    evaluation = evaluate(flag, context, matches=match_and_remember)
    served = len(reached) - 1 if evaluation.reason == "rule_match" else None
    answer: Mapping[str, Any] = evaluation.answer
    return Trace(
        flag=flag.key,
        **answer,
        is_enabled=flag.enabled,
        prerequisites=[_explain_prerequisite(prerequisite, context) for prerequisite in flag.prerequisites],
        rules=[_explain_rule(index, rule, tracer, index == served) for index, rule in enumerate(flag.rules)],
    )


def _explain_prerequisite(prerequisite: Prerequisite, context: Context) -> trace.ExplainedPrerequisite:
    evaluation = evaluate_prerequisite(prerequisite, context)
    answer: Mapping[str, Any] = evaluation.answer if evaluation else {}
    return trace.ExplainedPrerequisite(
        flag=prerequisite.flag,
        variants=list(prerequisite.variants) or UNSET,
        **answer,
        is_met=is_met(prerequisite, context),
    )


@dataclass(slots=True)
class _Tracer:
    """The user of the evaluation, and the segments whose conditions have been explained."""

    context: Context
    segments: set[str] = field(default_factory=set)


def _explain_rule(index: int, rule: Rule, tracer: _Tracer, is_served: bool) -> trace.ExplainedRule:
    steps = [_explain_step(step, tracer) for step in rule.steps]
    matches = all(step.passed for step in steps)
    return trace.ExplainedRule(
        index=index,
        type=rule.source["type"],
        name=rule.source.get("name", UNSET),
        matches=matches,
        is_served=is_served,
        steps=steps,
        assignment=_explain_assignment(rule, tracer) if isinstance(rule, ExperimentRule) else UNSET,
        serves=_explain_serving(rule, tracer.context) if matches else UNSET,
    )


def _explain_assignment(rule: ExperimentRule, tracer: _Tracer) -> trace.ExplainedAssignment:
    context, key = tracer.context, rule.source["experiment"]
    assigned = rule.assign(context)
    salt = f"{key}:variant"
    return trace.ExplainedAssignment(
        experiment=key,
        variant=assigned.variant,
        in_experiment=assigned.exclusion is None,
        reason=assigned.exclusion.value if assigned.exclusion else UNSET,
        stored=context.assigned.get(key, UNSET),
        split=[trace.SplitPart(variant=entry["key"], weight=entry["weight"]) for entry in rule.source["variants"]],
        salt=salt,
        bucket=bucket(salt, context.user_id),
        steps=[*_explain_audience(rule, tracer)],
    )


def _explain_audience(rule: ExperimentRule, tracer: _Tracer) -> Iterator[trace.AudienceStep]:
    user_id = tracer.context.user_id
    if group := rule.source.get("group"):
        number = bucket(group["key"], user_id)
        yield trace.GroupStep(
            group=group["key"],
            start=group["from"],
            end=group["to"],
            bucket=number,
            passed=threshold(group["from"]) <= number < threshold(group["to"]),
        )
    yield from (_explain_condition(condition, tracer) for condition in rule.conditions)
    if (percentage := rule.source.get("percentage", 100)) != 100:
        number, limit = bucket(rule.salt, user_id), threshold(percentage)
        yield trace.ShareStep(
            percentage=percentage,
            threshold=limit,
            salt=rule.salt,
            bucketed=user_id,
            bucket=number,
            passed=number < limit,
        )


def _explain_serving(rule: Rule, context: Context) -> trace.ExplainedServing:
    answer: dict[str, Any] = {name: value for name, value in rule.serve(context).answer.items() if name != "reason"}
    unit = unit_of(rule.source.get("bucketBy"))(context)
    hashed: dict[str, Any] = {}
    if "split" in rule.source and unit is not None:
        salt = f"{rule.salt}:variant"
        split = [trace.SplitPart(**part) for part in rule.source["split"]]
        hashed = {"split": split, "salt": salt, "bucket": bucket(salt, unit)}
    return trace.ExplainedServing(**answer, **hashed)


@singledispatch
def _explain_step(step: Any, tracer: _Tracer) -> trace.RuleStep:
    raise TypeError(f"Steps of type {type(step).__name__} cannot be explained.")


@_explain_step.register
def _(step: Switch, tracer: _Tracer) -> trace.EnabledStep:
    return trace.EnabledStep(passed=step.test(tracer.context))


@_explain_step.register
def _(step: Schedule, tracer: _Tracer) -> trace.ScheduleStep:
    return trace.ScheduleStep(
        start_at=_moment(step.start),
        end_at=_moment(step.end),
        now=format_timestamp(tracer.context.now),
        passed=step.test(tracer.context),
    )


@_explain_step.register
def _(step: Users, tracer: _Tracer) -> trace.UsersStep:
    context = tracer.context
    return trace.UsersStep(actual=context.user_id, user_count=len(step.user_ids), passed=step.test(context))


@_explain_step.register
def _(step: Membership, tracer: _Tracer) -> trace.SegmentStep:
    return trace.SegmentStep(**_explain_segment(step.segment, tracer), passed=step.test(tracer.context))


@_explain_step.register
def _explain_condition(step: Condition, tracer: _Tracer) -> trace.ConditionStep:
    source, context = step.source, tracer.context
    asks_for_segment = source["operator"] == "inSegment"
    actual = UNSET if asks_for_segment else step.read(context)
    # A missing attribute is left out, since null is a value that a caller may send.
    is_missing = actual is None and source["attribute"] not in context.attributes
    segment = trace.ExplainedSegment(**_explain_segment(source["value"], tracer)) if asks_for_segment else UNSET
    return trace.ConditionStep(
        attribute=source.get("attribute", UNSET),
        operator=source["operator"],
        value=source.get("value", UNSET),
        ignore_case=source.get("ignoreCase", UNSET),
        negate=source.get("negate", UNSET),
        actual=UNSET if is_missing or asks_for_segment else _shorten(actual),
        segment=segment,
        passed=step.test(context),
    )


@_explain_step.register
def _(step: Share, tracer: _Tracer) -> trace.ShareStep:
    limit = step.threshold_at(tracer.context.now)
    unit = step.unit(tracer.context)
    return trace.ShareStep(
        percentage=limit * 100 / BUCKETS,
        threshold=limit,
        salt=step.salt,
        bucket_by=UNSET if step.bucket_by is None else step.bucket_by,
        bucketed=UNSET if unit is None else str(_shorten(unit)),
        bucket=UNSET if unit is None else bucket(step.salt, unit),
        passed=step.test(tracer.context),
    )


def _explain_segment(key: str, tracer: _Tracer) -> dict[str, Any]:
    """Return the fields of a segment that a rule or a condition asks for."""
    context = tracer.context
    segment = context.configuration.segments.get(key)
    fields: dict[str, Any] = {"segment": key, "is_member": is_member(key, context)}
    if segment is None:
        return {**fields, "exists": False}
    fields["is_listed"] = context.user_id in segment.user_ids
    if key not in tracer.segments:  # or a segment that many ask for would be repeated, more at every level
        tracer.segments.add(key)
        fields["conditions"] = [_explain_step(step, tracer) for step in segment.steps]
    return fields


def _moment(moment: datetime | None) -> str | UnsetType:
    return UNSET if moment is None else format_timestamp(moment)


def _shorten(value: object) -> object:
    """Return a value or, if it is long, the beginning of its JSON: many conditions may ask for one attribute."""
    if isinstance(value, str) and len(value) < _LONGEST_SHOWN:
        return value
    text = json.dumps(value, ensure_ascii=False)
    return value if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
