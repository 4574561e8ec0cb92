"""The one evaluator: what a flag is for a user, and why. It decides from compiled flags, the hash and the clock alone.

Not here: reading rules, storage, or the shape of an answer on the wire. `tracing` tells how it came to its decision.


What a flag is for a user, which rule decided it, and what it is for a user that nobody knows by name.

Not here: any decision that `evaluation` does not make.
"""

from __future__ import annotations

from collections.abc import Callable

from flags.engine.bucketing import BUCKETS
from flags.engine.conditions import USER_ID
from flags.engine.experiment_rule import ExperimentRule
from flags.engine.rules import Share
from flags.engine.types import Context, Evaluation, Flag, Prerequisite, Rule, Step


def matches(rule: Rule, context: Context) -> bool:
    """Return whether the user passes every test of the rule."""
    for test in rule.tests:  # noqa: SIM110 (all() with a generator takes twice as long)
        if not test(context):
            return False
    return True


def is_met(prerequisite: Prerequisite, context: Context) -> bool:
    """Return whether the other flag is on for the user and serves one of the variants asked for."""
    evaluation = evaluate_prerequisite(prerequisite, context)
    if evaluation is None or not evaluation.enabled:
        return False
    return not prerequisite.variants or evaluation.variant in prerequisite.variants


def evaluate_prerequisite(prerequisite: Prerequisite, context: Context) -> Evaluation | None:
    """Return what the other flag is for the same user, or None where no flag has that key."""
    known = context.evaluations.get(prerequisite.flag)
    if known is None and (flag := context.configuration.flags.get(prerequisite.flag)) is not None:
        known = context.evaluations[prerequisite.flag] = evaluate(flag, context)
    return known


def evaluate(
    flag: Flag,
    context: Context,
    matches: Callable[[Rule, Context], bool] = matches,
    is_met: Callable[[Prerequisite, Context], bool] = is_met,
) -> Evaluation:
    """Return one of the flag's answers. Rules are tried in order; the first that takes the user in decides.

    An attribute that is missing or of the wrong type matches nothing, and nothing is raised. Whoever wants to see how a
    decision comes about passes other functions for `matches` and `is_met`, which must answer the same.
    """
    if not flag.enabled:
        return flag.disabled
    for prerequisite in flag.prerequisites:
        if not is_met(prerequisite, context):
            return flag.prerequisite_failed
    for rule in flag.rules:
        if matches(rule, context):
            return rule.serve(context)
    return flag.otherwise


class TargetingKeyMissing(Exception):
    """Only the hash of a user id could say what this flag is, and there is none."""


def resolve(flag: Flag, context: Context) -> tuple[Evaluation, Rule | None]:
    """Return the answer of `evaluate`, and the rule that took the user in.

    Without a user id (`context.user_id` is empty) nobody is listed anywhere, a condition on `userId` does not match,
    and where a share or a split among users would have to decide, TargetingKeyMissing is raised.
    """
    decides = matches if context.user_id else _matches_anonymous
    rule: Rule | None = None

    def matches_and_notes(tried: Rule, context: Context) -> bool:
        nonlocal rule
        if decides(tried, context):
            rule = tried
            return True
        return False

    evaluation = evaluate(flag, context, matches_and_notes, is_met if context.user_id else _is_met_anonymous)
    if isinstance(rule, ExperimentRule) and not context.user_id:
        return _serve_anonymous(rule, context), rule
    return evaluation, rule


def _serve_anonymous(rule: ExperimentRule, context: Context) -> Evaluation:
    evaluation = rule.serve_anonymous(context)
    if evaluation is None:
        raise TargetingKeyMissing
    return evaluation


def _matches_anonymous(rule: Rule, context: Context) -> bool:
    if not all(_passes(step, context) for step in rule.steps):
        return False
    if "split" in rule.source and rule.source.get("bucketBy", USER_ID) == USER_ID:
        raise TargetingKeyMissing
    return True


def _passes(step: Step, context: Context) -> bool:
    if isinstance(step, Share) and step.is_of_users:
        reached = step.threshold_at(context.now)
        if 0 < reached < BUCKETS:
            raise TargetingKeyMissing
        return reached == BUCKETS
    return step.test(context)


def _is_met_anonymous(prerequisite: Prerequisite, context: Context) -> bool:
    flag = context.configuration.flags.get(prerequisite.flag)
    if flag is not None and prerequisite.flag not in context.evaluations:
        context.evaluations[prerequisite.flag] = resolve(flag, context)[0]
    return is_met(prerequisite, context)
