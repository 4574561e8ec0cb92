"""Explain an evaluation: run the evaluator and record each of its steps.

Nothing is decided here. Each step runs the test that an evaluation runs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import singledispatch
from typing import Any

from msgspec import UNSET, UnsetType

from config.timestamps import format_timestamp
from flags.engine.bucketing import BUCKETS, bucket
from flags.engine.conditions import Condition, compile_reader
from flags.engine.evaluation import evaluate, evaluate_prerequisite, is_met, matches
from flags.engine.experiment_rule import ExperimentRule
from flags.engine.participation import assign_by_rule
from flags.engine.rules import Membership, Range, Schedule, Share, Switch, Users, unit_of
from flags.engine.types import Context, Flag, Prerequisite, Rule, is_member
from flags.explanations import answers
from flags.explanations.answers import Trace

_MAX_SHOWN_LENGTH = 300


def explain(flag: Flag, context: Context) -> Trace:
    """Return what `evaluate` returns, with every test of every rule.

    At most one rule has `is_served`. Other rules that match were not reached. A segment's conditions are explained
    where it first appears.
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
        rules=[_explain_rule(flag, rule, tracer, rule.index == served) for rule in flag.rules],
    )


def _explain_prerequisite(prerequisite: Prerequisite, context: Context) -> answers.ExplainedPrerequisite:
    evaluation = evaluate_prerequisite(prerequisite, context)
    answer: Mapping[str, Any] = evaluation.answer if evaluation else {}
    return answers.ExplainedPrerequisite(
        flag=prerequisite.flag,
        variants=list(prerequisite.variants) or UNSET,
        **answer,
        is_met=is_met(prerequisite, context),
    )


@dataclass(slots=True)
class _Tracer:
    """The user, and the segments that were explained already."""

    context: Context
    segments: set[str] = field(default_factory=set)


def _explain_rule(flag: Flag, rule: Rule, tracer: _Tracer, is_served: bool) -> answers.ExplainedRule:
    is_match, is_of_experiment = matches(rule, tracer.context), isinstance(rule, ExperimentRule)
    return answers.ExplainedRule(
        index=rule.index,
        type=rule.source["type"],
        name=rule.source.get("name", UNSET),
        matches=is_match,
        is_served=is_served,
        steps=[] if is_of_experiment else [_explain_step(step, tracer) for step in rule.steps],
        assignment=_explain_assignment(flag, rule, tracer) if isinstance(rule, ExperimentRule) else UNSET,
        serves=_explain_serving(rule, tracer.context) if is_match else UNSET,
    )


def _explain_assignment(flag: Flag, rule: ExperimentRule, tracer: _Tracer) -> answers.ExplainedAssignment:
    context, key = tracer.context, rule.source["experiment"]
    assigned = assign_by_rule(flag, rule, context)
    salt = f"{key}:variant"
    return answers.ExplainedAssignment(
        experiment=key,
        variant=assigned.variant,
        in_experiment=assigned.exclusion is None,
        reason=assigned.exclusion.value if assigned.exclusion else UNSET,
        stored=context.assigned.get(key, UNSET),
        split=[answers.SplitPart(variant=entry["key"], weight=entry["weight"]) for entry in rule.source["variants"]],
        salt=salt,
        bucket=bucket(salt, context.user_id),
        steps=[_explain_step(step, tracer) for step in rule.steps],
    )


def _explain_serving(rule: Rule, context: Context) -> answers.ExplainedServing:
    answer: dict[str, Any] = {name: value for name, value in rule.serve(context).answer.items() if name != "reason"}
    unit = unit_of(rule.source.get("bucketBy"))(context)
    hashed: dict[str, Any] = {}
    if "split" in rule.source and unit is not None:
        salt = f"{rule.salt}:variant"
        split = [answers.SplitPart(**part) for part in rule.source["split"]]
        hashed = {"split": split, "salt": salt, "bucket": bucket(salt, unit)}
    return answers.ExplainedServing(**answer, **hashed)


@singledispatch
def _explain_step(step: Any, tracer: _Tracer) -> answers.RuleStep:
    raise TypeError(f"Steps of type {type(step).__name__} cannot be explained.")


@_explain_step.register
def _(step: Switch, tracer: _Tracer) -> answers.EnabledStep:
    return answers.EnabledStep(passed=step.test(tracer.context))


@_explain_step.register
def _(step: Schedule, tracer: _Tracer) -> answers.ScheduleStep:
    return answers.ScheduleStep(
        start_at=_timestamp(step.start),
        end_at=_timestamp(step.end),
        now=format_timestamp(tracer.context.now),
        passed=step.test(tracer.context),
    )


@_explain_step.register
def _(step: Users, tracer: _Tracer) -> answers.UsersStep:
    context = tracer.context
    return answers.UsersStep(actual=context.user_id, user_count=len(step.user_ids), passed=step.test(context))


@_explain_step.register
def _(step: Membership, tracer: _Tracer) -> answers.SegmentStep:
    return answers.SegmentStep(**_explain_segment(step.segment, tracer), passed=step.test(tracer.context))


@_explain_step.register
def _explain_condition(step: Condition, tracer: _Tracer) -> answers.ConditionStep:
    source, context = step.source, tracer.context
    asks_for_segment = source["operator"] == "inSegment"
    # A missing attribute is left out, because callers may send null as a value.
    actual = UNSET if asks_for_segment else compile_reader(source["attribute"], UNSET)(context)
    segment = answers.ExplainedSegment(**_explain_segment(source["value"], tracer)) if asks_for_segment else UNSET
    return answers.ConditionStep(
        attribute=source.get("attribute", UNSET),
        operator=source["operator"],
        value=source.get("value", UNSET),
        ignore_case=source.get("ignoreCase", UNSET),
        negate=source.get("negate", UNSET),
        actual=UNSET if actual is UNSET else _shorten(actual),
        segment=segment,
        passed=step.test(context),
    )


@_explain_step.register
def _(step: Share, tracer: _Tracer) -> answers.ShareStep:
    limit = step.threshold_at(tracer.context.now)
    unit = step.unit(tracer.context)
    return answers.ShareStep(
        percentage=_percent(limit),
        threshold=limit,
        salt=step.salt,
        bucket_by=UNSET if step.bucket_by is None else step.bucket_by,
        bucketed=UNSET if unit is None else str(_shorten(unit)),
        bucket=UNSET if unit is None else bucket(step.salt, unit),
        passed=step.test(tracer.context),
    )


@_explain_step.register
def _(step: Range, tracer: _Tracer) -> answers.RangeStep:
    unit = step.unit(tracer.context)
    return answers.RangeStep(
        start=_percent(step.start),
        end=_percent(step.end),
        salt=step.salt,
        bucket_by=UNSET if step.bucket_by is None else step.bucket_by,
        bucketed=UNSET if unit is None else str(_shorten(unit)),
        bucket=UNSET if unit is None else bucket(step.salt, unit),
        passed=step.test(tracer.context),
    )


def _explain_segment(key: str, tracer: _Tracer) -> dict[str, Any]:
    context = tracer.context
    segment = context.configuration.segments.get(key)
    fields: dict[str, Any] = {"segment": key, "is_member": is_member(key, context)}
    if segment is None:
        return {**fields, "exists": False}
    fields["is_listed"] = context.user_id in segment.user_ids
    if key not in tracer.segments:  # otherwise nested segments would be repeated at every level
        tracer.segments.add(key)
        fields["conditions"] = [_explain_step(step, tracer) for step in segment.steps]
    return fields


def _percent(buckets: int) -> float:
    return buckets * 100 / BUCKETS


def _timestamp(time: datetime | None) -> str | UnsetType:
    return UNSET if time is None else format_timestamp(time)


def _shorten(value: object) -> object:
    """Return a value, or the beginning of its JSON if it is long: many conditions may read one attribute."""
    if isinstance(value, str) and len(value) < _MAX_SHOWN_LENGTH:
        return value
    text = json.dumps(value, ensure_ascii=False)
    return value if len(text) <= _MAX_SHOWN_LENGTH else f"{text[:_MAX_SHOWN_LENGTH]}…"
