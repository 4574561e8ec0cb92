"""What OpenFeature calls the parts of an answer. The service and its clients use the same functions."""

from __future__ import annotations

from enum import StrEnum

from .experiment_rule import ExperimentRule
from .rules import Range, Share
from .types import Context, Evaluation, Flag, Reason, Rule


class ReasonCode(StrEnum):
    """`reason` of an answer, one of OpenFeature's."""

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
    """Return the reason of an evaluation of a flag, given the rule that matched, if any.

    A share decides about the users inside and outside of it. So the reason is SPLIT, too, if only a
    share lets the user go on to a later rule, or leaves the user without any.
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
    """Return whether a share or a range is all that keeps the user out of a rule, which does not match."""
    has_share = False
    for step in rule.steps:
        if not isinstance(step, (Share, Range)):
            if not step.test(context):
                return False
        elif step.unit(context) is not None:  # a user without the attribute that is hashed is outside for that reason
            has_share = True
    return has_share


def value_of(flag: Flag, evaluation: Evaluation) -> tuple[object, str]:
    """Return the value that the flag serves, and its variant. Flags without variants are booleans, `on` or `off`."""
    served = evaluation.served
    if served is None:
        return evaluation.enabled, evaluation.outcome
    value = served.value
    if flag.is_fractional and isinstance(value, int):
        value = float(value)  # for clients in which 5 and 5.0 differ, all values of a flag have one type
    return value, served.key


def experiment_variant(evaluation: Evaluation, rule: Rule | None, user_id: str) -> str | None:
    """Return the variant of the experiment that drives the flag, as far as the user has one.

    Users with a forced variant have one, although they are not in the experiment.
    """
    if evaluation.participation is not None:
        return evaluation.participation.variant
    forced = rule.source.get("forced", {}) if isinstance(rule, ExperimentRule) else {}
    variant: str | None = forced.get(user_id)
    return variant
