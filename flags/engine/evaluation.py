"""Evaluate flags for users, including users without an id, and find the rule that decides.

The result depends only on compiled flags, hashes and the time. `flags.explanations.tracing` explains it.
"""

from __future__ import annotations

from collections.abc import Callable

from .bucketing import BUCKETS
from .conditions import USER_ID
from .experiment_rule import ExperimentRule
from .rules import Range, Share
from .types import Context, Evaluation, Flag, Prerequisite, Rule, Step


def matches(rule: Rule, context: Context) -> bool:
    """Return whether the user passes every test of the rule."""
    for test in rule.tests:  # noqa: SIM110 (all() with a generator takes twice as long)
        if not test(context):
            return False
    return True


def is_met(prerequisite: Prerequisite, context: Context) -> bool:
    """Return whether the other flag is on for the user and serves one of the required variants."""
    evaluation = evaluate_prerequisite(prerequisite, context)
    if evaluation is None or not evaluation.enabled:
        return False
    return not prerequisite.variants or evaluation.variant in prerequisite.variants


def evaluate_prerequisite(prerequisite: Prerequisite, context: Context) -> Evaluation | None:
    """Return the evaluation of the other flag for the same user, or None if that flag does not exist."""
    cached = context.evaluations.get(prerequisite.flag)
    if cached is None and (flag := context.configuration.flags.get(prerequisite.flag)) is not None:
        cached = context.evaluations[prerequisite.flag] = evaluate(flag, context)
    return cached


def evaluate(
    flag: Flag,
    context: Context,
    matches: Callable[[Rule, Context], bool] = matches,
    is_met: Callable[[Prerequisite, Context], bool] = is_met,
) -> Evaluation:
    """Return the answer of the first rule that matches, or the flag's default. It never raises.

    An attribute that is missing or of the wrong type matches nothing. Callers may pass their own `matches` and `is_met`
    to observe the decision. These must return the same results.
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
    """The answer depends on the hash of a user id, and the caller sent no user id."""


def resolve(flag: Flag, context: Context) -> tuple[Evaluation, Rule | None]:
    """Return the answer of `evaluate`, and the rule that matched, if any.

    Anonymous users (empty `context.user_id`) are in no list of users and meet no condition on `userId`. Raises
    TargetingKeyMissing if their answer depends on the hash of a user id.
    """
    match = matches if context.user_id else _matches_anonymous
    rule: Rule | None = None

    def match_and_remember(candidate: Rule, context: Context) -> bool:
        nonlocal rule
        if match(candidate, context):
            rule = candidate
            return True
        return False

    evaluation = evaluate(flag, context, match_and_remember, is_met if context.user_id else _is_met_anonymous)
    if isinstance(rule, ExperimentRule) and not context.user_id:
        return _serve_anonymous(rule), rule
    return evaluation, rule


def _serve_anonymous(rule: ExperimentRule) -> Evaluation:
    evaluation = rule.serve_anonymous()
    if evaluation is None:
        raise TargetingKeyMissing
    return evaluation


def _matches_anonymous(rule: Rule, context: Context) -> bool:
    outcomes = [_outcome_for_anonymous(step, context) for step in rule.steps]
    if False in outcomes:
        return False
    if None in outcomes or ("split" in rule.source and rule.source.get("bucketBy", USER_ID) == USER_ID):
        raise TargetingKeyMissing
    return True


def _outcome_for_anonymous(step: Step, context: Context) -> bool | None:
    """Return whether an anonymous user passes the step, or None if that depends on the hash of a user id."""
    if not isinstance(step, (Share, Range)) or not step.hashes_user_id:
        return step.test(context)
    start, end = (step.start, step.end) if isinstance(step, Range) else (0, step.threshold_at(context.now))
    if (start, end) == (0, BUCKETS):
        return True
    return None if start < end else False


def _is_met_anonymous(prerequisite: Prerequisite, context: Context) -> bool:
    flag = context.configuration.flags.get(prerequisite.flag)
    if flag is not None and prerequisite.flag not in context.evaluations:
        context.evaluations[prerequisite.flag] = resolve(flag, context)[0]
    return is_met(prerequisite, context)
