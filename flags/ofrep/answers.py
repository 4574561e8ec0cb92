"""The answers of OFREP: evaluations and failures in the protocol's form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

from msgspec import UNSET, Meta, UnsetType, field

from config.answers import Answer, Count, Key, described, one_of, reference, shaped
from flags.engine.evaluation import TargetingKeyMissing, resolve
from flags.engine.openfeature import ReasonCode, experiment_variant, reason_of, value_of
from flags.engine.types import Context, Evaluation, Flag, Reason, Rule


class FailureCode(StrEnum):
    """`errorCode` of an answer."""

    PARSE_ERROR = "PARSE_ERROR"
    TARGETING_KEY_MISSING = "TARGETING_KEY_MISSING"
    INVALID_CONTEXT = "INVALID_CONTEXT"
    GENERAL = "GENERAL"
    FLAG_NOT_FOUND = "FLAG_NOT_FOUND"


_FlagKey = Annotated[str, Meta(min_length=1), described("The key of the flag.")]
_Environment = Annotated[Key, described("The key of the environment.")]
_REVISION = described("The revision of the newest change to what was evaluated.")
_DETAILS = described("For people: what went wrong and what to do.")


class OfrepEvaluationMetadata(Answer, kw_only=True):
    """About the evaluation. It is flat, as the protocol requires."""

    flag_set_id: _Environment
    revision: Annotated[Count | UnsetType, _REVISION] = UNSET
    version: Annotated[
        str,
        described("The revision of the newest change of this flag, as a text: `feature_flag.version` of telemetry."),
    ]
    reason: Annotated[str, one_of(Reason), described("Halyard's own reason, which is more exact.")]
    rule: Annotated[
        Count | UnsetType, described("The index of the rule that matched. Keys of scope `client` do not get it.")
    ] = UNSET
    rule_name: Annotated[
        str | UnsetType, described("The name of that rule, if it has one. Keys of scope `client` do not get it.")
    ] = UNSET
    experiment: Annotated[
        Key | UnsetType, described("The key of the running experiment that drives the flag, if one does.")
    ] = UNSET
    experiment_variant: Annotated[
        Key | UnsetType,
        described("The variant of that experiment that the user has. It is left out if the user has none."),
    ] = UNSET
    in_experiment: Annotated[
        bool | UnsetType,
        described(
            "Whether that experiment decided this answer and counts the user. It is left out if no experiment drives "
            "the flag."
        ),
    ] = UNSET


class OfrepEvaluation(Answer):
    """The evaluation of a flag for the user, with its reason."""

    key: _FlagKey
    reason: Annotated[str, one_of(ReasonCode), described("The reason, as OpenFeature names it.")]
    value: Annotated[Any, described("The value. For a flag without variants: whether it is on.")]
    variant: Annotated[Key, described("The variant. For a flag without variants: `on` or `off`.")]
    metadata: Annotated[OfrepEvaluationMetadata, described("About the evaluation.")]


class OfrepNoMetadata(Answer):
    """The metadata of a failure, which is always empty."""


_NO_METADATA = OfrepNoMetadata()


class OfrepFlagFailure(Answer):
    """The flag cannot be evaluated without a targeting key."""

    key: _FlagKey
    error_code: Annotated[str, one_of([FailureCode.TARGETING_KEY_MISSING]), described("The code of the failure.")]
    error_details: Annotated[str, _DETAILS]
    metadata: Annotated[OfrepNoMetadata, described("Always empty.")]


class OfrepRefusal(Answer):
    """A failure without a code of the protocol. The status says which one it is."""

    error_details: Annotated[str, _DETAILS]


class OfrepEventStream(Answer):
    """An address that announces changes as they are made (Server-Sent Events)."""

    type: Annotated[str, one_of(["sse"]), described("The kind of stream.")]
    url: Annotated[
        str,
        shaped({"format": "uri"}),
        described("The address, valid for 30 to 60 minutes. It has a token in it: do not log it."),
    ]
    inactivity_delay: Annotated[Count, described("How long a hidden page stays connected, in seconds.")] = field(
        name="inactivityDelaySec"
    )


class OfrepEvaluationsMetadata(Answer):
    """About all of the evaluations."""

    flag_set_id: _Environment
    revision: Annotated[Count, _REVISION]


class OfrepEvaluations(Answer):
    """The evaluation of each flag for the user."""

    flags: Annotated[
        Sequence[Any],
        shaped({"items": {"anyOf": [reference("OfrepEvaluation"), reference("OfrepFlagFailure")]}}),
        described("An entry for each flag."),
    ]
    metadata: Annotated[OfrepEvaluationsMetadata, described("About all of the evaluations.")]
    event_streams: Annotated[
        list[OfrepEventStream] | UnsetType, described("Left out if the client can reach no stream.")
    ] = UNSET


class CommonMetadata(NamedTuple):
    """What the metadata of all evaluations of a request share."""

    environment: str
    revision: int | UnsetType = UNSET


def answer_flag(flag: Flag, context: Context, facts: CommonMetadata, *, shows_rules: bool) -> OfrepEvaluation:
    """Return what a flag is for the user, and store it in the context.

    With `shows_rules`, metadata name the rule that matched. Raises TargetingKeyMissing if the answer depends on the
    hash of a user id, and there is no user id.
    """
    evaluation, rule = resolve(flag, context)
    context.evaluations[flag.key] = evaluation
    value, variant = value_of(flag, evaluation)
    more: dict[str, Any] = {}
    if shows_rules and rule is not None:
        more = {"rule": rule.index, "rule_name": rule.source.get("name", UNSET)}
    if flag.driver is not None:
        more |= _of_experiment(flag.driver, evaluation, rule, context)
    metadata = OfrepEvaluationMetadata(
        flag_set_id=facts.environment,
        revision=facts.revision,
        version=str(flag.version),
        reason=evaluation.reason,
        **more,
    )
    reason = reason_of(flag, evaluation, rule, context)
    return OfrepEvaluation(flag.key, reason, value, variant, metadata)


def answer_flags(
    flags: Iterable[Flag], context: Context, facts: CommonMetadata, *, shows_rules: bool
) -> list[OfrepEvaluation | OfrepFlagFailure]:
    """Return what each flag is for the user. A flag that needs a targeting key fails alone."""
    answers: list[OfrepEvaluation | OfrepFlagFailure] = []
    for flag in flags:
        try:
            answers.append(answer_flag(flag, context, facts, shows_rules=shows_rules))
        except TargetingKeyMissing:
            answers.append(answer_missing_key(flag.key))
    return answers


def answer_missing_key(key: str) -> OfrepFlagFailure:
    details = (
        "This flag is on for a share of the users; send a `targetingKey`, which decides whether the user is in it."
    )
    return answer_failure(key, FailureCode.TARGETING_KEY_MISSING, details)


def answer_failure(key: str, code: FailureCode, details: str) -> OfrepFlagFailure:
    # The Java client reads the metadata first, so it must not be missing.
    return OfrepFlagFailure(key=key, error_code=code.value, error_details=details, metadata=_NO_METADATA)


def _of_experiment(key: str, evaluation: Evaluation, rule: Rule | None, context: Context) -> dict[str, Any]:
    variant = experiment_variant(evaluation, rule, context.user_id)
    return {
        "experiment": key,
        "experiment_variant": UNSET if variant is None else variant,
        "in_experiment": evaluation.participation is not None,
    }
