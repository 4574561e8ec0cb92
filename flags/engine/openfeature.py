"""OpenFeature's names for the parts of an answer, shared by the service and its clients."""

from __future__ import annotations

from enum import StrEnum

from .experiment_rule import ExperimentRule
from .rules import Range, Share
from .types import Context, Evaluation, Flag, Reason, Rule


class ReasonCode(StrEnum):
    """`reason` of an answer in OpenFeature."""

    STATIC = "STATIC"
    TARGETING_MATCH = "TARGETING_MATCH"
    SPLIT = "SPLIT"
    DISABLED = "DISABLED"
    UNKNOWN = "UNKNOWN"


# OpenFeature has no reason for "no rule matches".
_REASONS = {
    Reason.DISABLED: ReasonCode.DISABLED.value,
    Reason.DEFAULT: ReasonCode.STATIC.value,
    Reason.NO_RULE_MATCH: ReasonCode.UNKNOWN.value,
    Reason.PREREQUISITE_FAILED: ReasonCode.UNKNOWN.value,
}
_SPLIT, _TARGETING_MATCH = ReasonCode.SPLIT.value, ReasonCode.TARGETING_MATCH.value


def reason_of(flag: Flag, evaluation: Evaluation, rule: Rule | None, context: Context) -> str:
    """Return the reason of an evaluation. `rule` is the rule that matched, if any.

    The reason is also SPLIT if a share alone kept the user out of an earlier rule.
    """
    if rule is not None and rule.is_split:
        return _SPLIT
    reason = evaluation.reason
    if reason is Reason.DISABLED or reason is Reason.PREREQUISITE_FAILED:
        return _REASONS[reason]
    for passed in flag.rules if rule is None else flag.rules[: rule.index]:
        if passed.is_split and _is_only_outside_share(passed, context):
            return _SPLIT
    return _REASONS[reason] if rule is None else _TARGETING_MATCH


def _is_only_outside_share(rule: Rule, context: Context) -> bool:
    """Return whether a share or a range is the only step of a rule that the user does not pass."""
    has_share = False
    for step in rule.steps:
        if not isinstance(step, (Share, Range)):
            if not step.test(context):
                return False
        elif step.unit(context) is not None:  # without the attribute, the user is outside for that reason
            has_share = True
    return has_share


def value_of(flag: Flag, evaluation: Evaluation) -> tuple[object, str]:
    """Return the value that the flag serves, and the variant: without variants, a boolean, and `on` or `off`."""
    served = evaluation.served
    if served is None:
        return evaluation.enabled, evaluation.outcome
    value = served.value
    if flag.is_fractional and isinstance(value, int):
        value = float(value)  # for clients in which 5 and 5.0 differ, all values of a flag have one type
    return value, served.key


def experiment_variant(evaluation: Evaluation, rule: Rule | None, user_id: str) -> str | None:
    """Return the user's variant of the experiment that drives the flag, if any, including a forced variant."""
    if evaluation.participation is not None:
        return evaluation.participation.variant
    forced = rule.source.get("forced", {}) if isinstance(rule, ExperimentRule) else {}
    variant: str | None = forced.get(user_id)
    return variant
