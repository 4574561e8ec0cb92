"""Requests and answers of the operations that evaluate."""

from __future__ import annotations

from typing import Annotated

import msgspec
from rest_framework.exceptions import ErrorDetail, ValidationError

from config.api.bodies import UserRequest
from config.api.serializers import ArrayField, ObjectField, StrictSerializer, TextField, TimestampField
from config.api.structs import Answer, Count, Key, Moment, described, one_of
from config.errors import DetailCode, ErrorCode
from config.slugs import KEY_LENGTH, NAME_LENGTH
from flags.explanations.answers import Trace

MAX_FLAGS = 1000

_FlagKey = Annotated[str, msgspec.Meta(min_length=1, max_length=KEY_LENGTH)]
_FlagKeys = Annotated[list[_FlagKey], msgspec.Meta(min_length=1, max_length=MAX_FLAGS)]


class EvaluationsRequest(UserRequest, forbid_unknown_fields=True):
    flags: _FlagKeys | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        if self.flags and len(set(self.flags)) < len(self.flags):
            raise ValueError("a flag is named twice")

    def count_names(self) -> int:
        return UserRequest.count_names(self) + (self.flags is not msgspec.UNSET)


class EvaluationRequestSerializer(StrictSerializer):
    """The user to evaluate a flag for."""

    userId = TextField(min_length=1, max_length=NAME_LENGTH)
    attributes = ObjectField(required=False, help_text="The attributes of the user, which conditions read.")


class EvaluationsRequestSerializer(EvaluationRequestSerializer):
    """The user to evaluate flags for, and the flags."""

    flags = ArrayField(
        child=TextField(min_length=1, max_length=KEY_LENGTH),
        min_length=1,
        max_length=MAX_FLAGS,
        required=False,
        help_text="Distinct keys of flags. Without it, all flags that are not archived are evaluated.",
    )

    def validate_flags(self, flags: list[str]) -> list[str]:
        seen: set[str] = set()
        for index, key in enumerate(flags):
            if key in seen:
                error = ErrorDetail("Must appear only once.", DetailCode.DUPLICATE)
                # The answer to a failure flattens this to `flags[1]`.
                raise ValidationError({index: [error]})  # type: ignore[dict-item]
            seen.add(key)
        return flags


class ExplanationRequestSerializer(EvaluationRequestSerializer):
    """The user to explain a flag for, and the moment."""

    at = TimestampField(
        required=False,
        help_text="The time of the evaluation. For a past time, the flag as it was then is "
        "evaluated; for a future time, the flag as it is now. Default: now.",
    )


class UnknownFlagError(Answer):
    """Why there is no evaluation."""

    code: Annotated[str, one_of([ErrorCode.FLAG_NOT_FOUND]), described("Switch on this.")]
    message: Annotated[str, described("For people: what went wrong.")]


class UnknownFlag(Answer):
    """The entry of a key that no flag has."""

    error: Annotated[UnknownFlagError, described("The error, as that of a single evaluation.")]


class Explanation(Trace, kw_only=True):
    """The evaluation of a flag for a user, with everything that led to it."""

    environment: Annotated[Key, described("The key of the environment.")]
    at: Annotated[Moment, described("The moment of the evaluation.")]
    revision: Annotated[Count, described("The revision of the configuration that was evaluated.")]
