"""Evaluations in the words of OFREP. Pure; what fails as a whole is told by `failures`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from flags.engine.evaluation import TargetingKeyMissing, resolve
from flags.engine.types import Context, Evaluation, Flag, Reason, Rule

Facts = Mapping[str, str | int]


class ReasonCode(StrEnum):
    """`reason` of an answer, by which OpenFeature's clients know how a value came about."""

    STATIC = "STATIC"
    TARGETING_MATCH = "TARGETING_MATCH"
    SPLIT = "SPLIT"
    DISABLED = "DISABLED"
    UNKNOWN = "UNKNOWN"


class FailureCode(StrEnum):
    """`errorCode` of an answer."""

    PARSE_ERROR = "PARSE_ERROR"
    TARGETING_KEY_MISSING = "TARGETING_KEY_MISSING"
    INVALID_CONTEXT = "INVALID_CONTEXT"
    GENERAL = "GENERAL"
    FLAG_NOT_FOUND = "FLAG_NOT_FOUND"


# The list of the protocol has no word for "none of the rules".
_REASONS = {
    Reason.DISABLED: ReasonCode.DISABLED.value,
    Reason.DEFAULT: ReasonCode.STATIC.value,
    Reason.NO_RULE_MATCH: ReasonCode.UNKNOWN.value,
    Reason.PREREQUISITE_FAILED: ReasonCode.UNKNOWN.value,
}
_SPLIT, _TARGETING_MATCH = ReasonCode.SPLIT.value, ReasonCode.TARGETING_MATCH.value


def tell(flag: Flag, context: Context, facts: Facts, *, tells_rules: bool) -> dict[str, Any]:
    """Return what a flag is for the user, which the context then knows.

    `facts` become part of its metadata, with the rule if `tells_rules`.

    Raises TargetingKeyMissing where only the id of the user could tell.
    """
    evaluation, rule = resolve(flag, context)
    context.evaluations[flag.key] = evaluation
    served = evaluation.served
    if served is None:
        value: object = evaluation.enabled
        variant = "on" if value else "off"
    else:
        value, variant = served.value, served.key
        if flag.is_fractional and isinstance(value, int):
            value = float(value)  # to clients that tell 5 from 5.0, all values of a flag have one type
    return {
        "key": flag.key,
        "reason": _reason(evaluation, rule),
        "value": value,
        "variant": variant,
        "metadata": _metadata(facts, evaluation, rule if tells_rules else None),
    }


def tell_all(flags: Iterable[Flag], context: Context, facts: Facts, *, tells_rules: bool) -> list[dict[str, Any]]:
    """Return what each flag is for the user; one that needs a targeting key fails alone."""
    answers = []
    for flag in flags:
        try:
            answers.append(tell(flag, context, facts, tells_rules=tells_rules))
        except TargetingKeyMissing:
            answers.append(tell_missing_key(flag.key))
    return answers


def tell_missing_key(key: str) -> dict[str, Any]:
    """Return the failure of a flag for a user whom nobody knows by name."""
    why = "This flag is on for a share of the users; send a `targetingKey`, which tells who is in it."
    return tell_failure(key, FailureCode.TARGETING_KEY_MISSING, why)


def tell_failure(key: str, code: FailureCode, details: str) -> dict[str, Any]:
    """Return the failure of a flag. Its metadata is empty, but there: the client for Java reads it first."""
    return {"key": key, "errorCode": code.value, "errorDetails": details, "metadata": {}}


def _reason(evaluation: Evaluation, rule: Rule | None) -> str:
    if rule is None:
        return _REASONS[evaluation.reason]
    return _SPLIT if rule.is_split else _TARGETING_MATCH


def _metadata(facts: Facts, evaluation: Evaluation, rule: Rule | None) -> dict[str, Any]:
    """Flat, as the protocol wants it. `reason` is our own, which tells more than OpenFeature's."""
    metadata = {**facts, "reason": evaluation.answer["reason"]}
    if rule is not None:
        metadata["rule"] = rule.index
        if "name" in rule.source:
            metadata["ruleName"] = rule.source["name"]
    return metadata
