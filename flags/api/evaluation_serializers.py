"""Whom flags are evaluated for, as JSON. The answers are made by the engine, and described by `evaluation_openapi`."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from rest_framework.exceptions import ErrorDetail, ValidationError

from config.api.bodies import Name
from config.api.serializers import ArrayField, ObjectField, StrictSerializer, TextField, TimestampField
from config.errors import DetailCode
from config.slugs import KEY_LENGTH, NAME_LENGTH

MOST_FLAGS = 1000

_Key = Annotated[str, msgspec.Meta(min_length=1, max_length=KEY_LENGTH)]
_Keys = Annotated[list[_Key], msgspec.Meta(min_length=1, max_length=MOST_FLAGS)]


class EvaluationRequest(msgspec.Struct, forbid_unknown_fields=True):
    userId: Name
    attributes: dict[str, Any] = {}


class EvaluationsRequest(EvaluationRequest, forbid_unknown_fields=True):
    flags: _Keys | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        if self.flags and len(set(self.flags)) < len(self.flags):
            raise ValueError("a flag is named twice")


class EvaluationRequestSerializer(StrictSerializer):
    """The user to evaluate a flag for."""

    userId = TextField(min_length=1, max_length=NAME_LENGTH)
    attributes = ObjectField(required=False, help_text="What rules may ask about the user.")


class EvaluationsRequestSerializer(EvaluationRequestSerializer):
    """The user to evaluate flags for, and which."""

    flags = ArrayField(
        child=TextField(min_length=1, max_length=KEY_LENGTH),
        min_length=1,
        max_length=MOST_FLAGS,
        required=False,
        help_text="Keys of flags, each once; without them, all flags that are not archived are evaluated.",
    )

    def validate_flags(self, flags: list[str]) -> list[str]:
        seen: set[str] = set()
        for at, key in enumerate(flags):
            if key in seen:
                error = ErrorDetail("Must stand there once.", DetailCode.DUPLICATE)
                raise ValidationError({at: [error]})  # type: ignore[dict-item]  # the failures flatten it to flags[1]
            seen.add(key)
        return flags


class ExplanationRequestSerializer(EvaluationRequestSerializer):
    """The user to explain a flag for, and when."""

    at = TimestampField(
        required=False,
        help_text="In the past, the flag is taken as it was then; in the future, as it is now, by the clock of then.",
    )
