"""The answers that a flag's rules can give while it is on, whoever its users are. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from flags.engine.bucketing import BUCKETS
from flags.engine.conditions import Condition
from flags.engine.experiment_rule import ExperimentRule
from flags.engine.rules import Membership, Schedule, Share, Switch, Users, rule_match
from flags.engine.types import Configuration, Context, Evaluation, Flag, Rule, RuleType, Step, Variant

_NOBODY = "nobody"


def answers_while_on(key: str, configuration: Configuration, now: datetime) -> set[str]:
    """Return the keys of the variants that a flag may serve while it is on, or `on` without variants.

    Rules that nobody can match, or that an earlier rule always precedes, do not count. Any condition counts as met by
    somebody, except one on a segment without members.
    """
    return {_name(answer) for answer in _answers(key, configuration, now) if answer.enabled}


def _name(answer: Evaluation) -> str:
    return f"{answer.outcome}={answer.value!r}" if answer.served else answer.outcome


def _answers(key: str, configuration: Configuration, now: datetime) -> Iterator[Evaluation]:
    flag = configuration.flags.get(key)
    if flag is None or not flag.enabled:
        return
    for prerequisite in flag.prerequisites:
        outcomes = {answer.outcome for answer in _answers(prerequisite.flag, configuration, now) if answer.enabled}
        if not (outcomes & {*prerequisite.variants} if prerequisite.variants else outcomes):
            return
    for rule in flag.rules:
        if all(_may_pass(step, configuration, now) for step in rule.steps):
            yield from _served(flag, rule, configuration, now)
            if _matches_everyone(rule, now):
                return
    if flag.otherwise.enabled:
        yield flag.otherwise


def _served(flag: Flag, rule: Rule, configuration: Configuration, now: datetime) -> Iterator[Evaluation]:
    if isinstance(rule, ExperimentRule):
        yield from (rule.outside[variant["key"]] for variant in rule.source["variants"] if variant["weight"])
    elif "split" in rule.source:
        variants = {entry["key"]: Variant(entry["key"], entry["value"]) for entry in flag.source["variants"]}
        yield from (rule_match(variants[part["variant"]]) for part in rule.source["split"] if part["weight"])
    else:
        yield rule.serve(Context(_NOBODY, {}, configuration, now))  # the same for all users


def _may_pass(step: Step, configuration: Configuration, now: datetime) -> bool:
    match step:
        case Switch():
            return False
        case Schedule(start=start, end=end):
            return (start is None or start <= now) and (end is None or now < end)
        case Users(user_ids=user_ids):
            return bool(user_ids)
        case Membership(segment=segment):
            return _may_have_members(segment, configuration, now)
        case Share():
            return step.threshold_at(now) > 0
        case Condition(source=source) if source["operator"] == "inSegment" and not source.get("negate"):
            return _may_have_members(source["value"], configuration, now)
    return True


def _may_have_members(key: str, configuration: Configuration, now: datetime) -> bool:
    segment = configuration.segments.get(key)
    if segment is None:
        return False
    return bool(segment.user_ids) or (
        bool(segment.steps) and all(_may_pass(step, configuration, now) for step in segment.steps)
    )


def _matches_everyone(rule: Rule, now: datetime) -> bool:
    """Return whether a rule in force leaves no users for later rules."""
    if rule.source["type"] == RuleType.EXPERIMENT:
        return False
    return all(
        isinstance(step, Schedule)
        or (isinstance(step, Share) and step.hashes_user_id and step.threshold_at(now) >= BUCKETS)
        for step in rule.steps
    )
