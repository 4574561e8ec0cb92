"""Find the variant of a user in an experiment that drives a flag.

Only users whom the flag serves by the experiment's rule take part, so that Get Variant and evaluations agree.
"""

from __future__ import annotations

from collections.abc import Mapping

from .assignment import Assigned, Exclusion
from .evaluation import resolve
from .experiment_rule import ExperimentRule
from .types import Context, Flag, Reason

_BY_REASON: Mapping[Reason, Exclusion] = {
    Reason.DISABLED: Exclusion.DISABLED,
    Reason.PREREQUISITE_FAILED: Exclusion.PREREQUISITE_FAILED,
}


def assign_by_flag(flag: Flag, experiment: str, context: Context) -> Assigned | None:
    """Return the variant of a user with an id, or None if the experiment does not drive the flag.

    Users who do not reach the experiment's rule see the control, even with a forced variant: if the flag is off, if a
    prerequisite is not met, or if an earlier rule matches.
    """
    rule = next((rule for rule in flag.rules if isinstance(rule, ExperimentRule) and rule.salt == experiment), None)
    return None if rule is None else assign_by_rule(flag, rule, context)


def assign_by_rule(flag: Flag, rule: ExperimentRule, context: Context) -> Assigned:
    """Return the variant of a user with an id in the experiment of this rule."""
    evaluation, decisive = resolve(flag, context)
    exclusion = _BY_REASON.get(evaluation.reason)
    if decisive is not None and decisive.index < rule.index:
        exclusion = Exclusion.SERVED_BY_RULE
    if exclusion is None:
        return rule.assign(context)
    return Assigned(rule.source["variants"][0]["key"], exclusion)
