"""Compile flags and segments whose JSON has passed the checks, as all stored ones have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .conditions import compile_condition
from .experiment_rule import ExperimentRule, compile_experiment_rule
from .rules import compile_rule
from .timetable import NEVER, combine
from .types import Evaluation, Flag, Prerequisite, Reason, RuleType, Segment, ValueType, Variant

_NONE: frozenset[str] = frozenset()


def compile_flag(source: Mapping[str, Any]) -> Flag:
    served = with_served_variants(source)
    variants = {entry["key"]: Variant(entry["key"], entry["value"]) for entry in served.get("variants", ())}
    default, off = (variants.get(served.get(name, "")) for name in ("defaultVariant", "offVariant"))
    default_key = default.key if default else None
    sources = served.get("rules", ())
    enabled = served["enabled"] and not served.get("archivedAt")
    rules = tuple(
        compile_experiment_rule(rule, index=index, variants=variants)
        if rule["type"] == RuleType.EXPERIMENT
        else compile_rule(rule, index=index, salt=served["key"], variants=variants, default=default_key)
        for index, rule in enumerate(sources)
    )
    # An experiment changes nothing for users outside its audience, so its rule does not count here.
    has_rules = any(rule["type"] != RuleType.EXPERIMENT for rule in sources)
    otherwise = (False, Reason.NO_RULE_MATCH, off) if has_rules else (True, Reason.DEFAULT, default)
    driver = next((rule.salt for rule in rules if isinstance(rule, ExperimentRule)), None)
    return Flag(
        key=served["key"],
        enabled=enabled,
        rules=rules,
        prerequisites=tuple(map(_compile_prerequisite, served.get("prerequisites", ()))),
        disabled=Evaluation.of(False, Reason.DISABLED, off),
        prerequisite_failed=Evaluation.of(False, Reason.PREREQUISITE_FAILED, off),
        otherwise=Evaluation.of(*otherwise),
        source=served,
        is_fractional=any(isinstance(variant.value, float) for variant in variants.values()),
        times=combine(rule.times for rule in rules) if enabled else NEVER,
        experiments=frozenset({driver}) if enabled and driver else _NONE,
        driver=driver,
        version=served.get("version", 0),
    )


def compile_segment(source: Mapping[str, Any]) -> Segment:
    steps = tuple(map(compile_condition, source.get("conditions", ())))
    return Segment(
        key=source["key"],
        source=source,
        user_ids=frozenset(source.get("userIds", ())),
        steps=steps,
        tests=tuple(step.test for step in steps),
        times=combine(step.times for step in steps),
    )


def with_served_variants(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flag with `defaultVariant` and `offVariant` filled in if it has variants.

    The defaults are the first and the last variant or, for type boolean, the first with true and the first with false.
    """
    variants = source.get("variants")
    if not variants:
        return dict(source)
    default, off = variants[0]["key"], variants[-1]["key"]
    if source["type"] == ValueType.BOOLEAN:
        default = next((variant["key"] for variant in variants if variant["value"] is True), default)
        off = next((variant["key"] for variant in variants if variant["value"] is False), off)
    return {"defaultVariant": default, "offVariant": off, **source}


def _compile_prerequisite(source: Mapping[str, Any]) -> Prerequisite:
    return Prerequisite(source["flag"], tuple(source.get("variants", ())))
