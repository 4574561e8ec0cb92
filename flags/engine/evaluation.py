"""The one evaluator: what a flag is for a user, and why. It decides from compiled flags, the hash and the clock alone.

Not here: reading rules, storage, or the shape of an answer on the wire. `tracing` tells how it came to its decision.
"""

from __future__ import annotations

from collections.abc import Callable

from flags.engine.types import Context, Evaluation, Flag, Prerequisite, Rule


def takes_in(rule: Rule, context: Context) -> bool:
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
    takes_in: Callable[[Rule, Context], bool] = takes_in,
    is_met: Callable[[Prerequisite, Context], bool] = is_met,
) -> Evaluation:
    """Return one of the flag's answers. Rules are tried in order; the first that takes the user in decides.

    An attribute that is missing or of the wrong type matches nothing, and nothing is raised. Whoever wants to see how a
    decision comes about passes other functions for `takes_in` and `is_met`, which must answer the same.
    """
    if not flag.enabled:
        return flag.disabled
    for prerequisite in flag.prerequisites:
        if not is_met(prerequisite, context):
            return flag.prerequisite_failed
    for rule in flag.rules:
        if takes_in(rule, context):
            return rule.serve(context)
    return flag.otherwise
