"""What a flag is for a user, which rule decided it, and what it is for a user that nobody knows by name.

Not here: any decision that `evaluation` does not make.
"""

from __future__ import annotations

from flags.engine.bucketing import BUCKETS
from flags.engine.conditions import USER_ID
from flags.engine.evaluation import evaluate, is_met, takes_in
from flags.engine.experiment_rules import ExperimentRule
from flags.engine.rules import Share
from flags.engine.types import Context, Evaluation, Flag, Prerequisite, Rule, Step


class TargetingKeyMissing(Exception):
    """Only the hash of a user id could say what this flag is, and there is none."""


def resolve(flag: Flag, context: Context) -> tuple[Evaluation, Rule | None]:
    """Return the answer of `evaluate`, and the rule that took the user in.

    Without a user id (`context.user_id` is empty) nobody is listed anywhere, a condition on `userId` does not match,
    and where a share or a split among users would have to decide, TargetingKeyMissing is raised.
    """
    decides = takes_in if context.user_id else _takes_in_anybody
    rule: Rule | None = None

    def takes_in_and_notes(tried: Rule, context: Context) -> bool:
        nonlocal rule
        if decides(tried, context):
            rule = tried
            return True
        return False

    evaluation = evaluate(flag, context, takes_in_and_notes, is_met if context.user_id else _is_met_by_anybody)
    if isinstance(rule, ExperimentRule) and not context.user_id:
        return _serve_anybody(rule, context), rule
    return evaluation, rule


def _serve_anybody(rule: ExperimentRule, context: Context) -> Evaluation:
    evaluation = rule.serve_anybody(context)
    if evaluation is None:
        raise TargetingKeyMissing
    return evaluation


def _takes_in_anybody(rule: Rule, context: Context) -> bool:
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


def _is_met_by_anybody(prerequisite: Prerequisite, context: Context) -> bool:
    flag = context.configuration.flags.get(prerequisite.flag)
    if flag is not None and prerequisite.flag not in context.evaluations:
        context.evaluations[prerequisite.flag] = resolve(flag, context)[0]
    return is_met(prerequisite, context)
