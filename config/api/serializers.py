"""Strict serializers: they refuse numbers in quotes, 1 for true, and unknown fields."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any, ClassVar

from django.utils.functional import cached_property
from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail

from config.api.failures import MAX_DETAILS
from config.documents import is_same
from config.errors import DetailCode
from config.timestamps import format_timestamp, parse_timestamp

_WRONG_TYPE = DetailCode.INVALID_TYPE.value


class StrictSerializer(serializers.Serializer[Any]):
    """An object with these fields and no others."""

    default_error_messages = {"invalid": "Must be a JSON object."}
    computed: ClassVar[frozenset[str]] = frozenset()
    """Read-only fields that change by themselves. A request may contain an older value of them."""
    is_optional: ClassVar[bool] = False
    """Whether the body may be missing, empty or `{}`, which all mean the same."""

    def run_validation(self, data: Any = serializers.empty) -> Any:
        if data is not serializers.empty and not isinstance(data, Mapping):  # null, too
            raise serializers.ValidationError(
                {"non_field_errors": [ErrorDetail("Must be a JSON object.", _WRONG_TYPE)]}
            )
        return super().run_validation(data)

    def to_internal_value(self, data: Any) -> Any:
        objections = ((str(name), self._objection(str(name), data[name])) for name in data)
        unknown = dict(islice(((name, [error]) for name, error in objections if error), MAX_DETAILS))
        try:
            values = super().to_internal_value(data)
        except serializers.ValidationError as error:
            raise serializers.ValidationError({**error.detail, **unknown}) from error  # type: ignore[dict-item]
        if unknown:
            raise serializers.ValidationError(unknown)
        return values

    @cached_property
    def _shown(self) -> dict[str, Any]:
        """Return the values that the caller read. (`data` is only available after validation.)"""
        shown: dict[str, Any] = self.to_representation(self.instance)
        return shown

    def _objection(self, name: str, value: Any) -> ErrorDetail | None:
        field = self.fields.get(name)
        if field is None:
            writable = ", ".join(name for name, field in self.fields.items() if not field.read_only)
            advice = f"use {writable}" if writable else "send no fields here"
            return ErrorDetail(f"Unknown field; {advice}.", DetailCode.UNKNOWN_FIELD)
        if not field.read_only:
            return None
        if self.instance is not None and name in self.computed:
            return None
        if self.instance is None:
            return ErrorDetail("Is set by the service; leave it out.", DetailCode.UNKNOWN_FIELD)
        shown = self._shown.get(name)
        if is_same(value, shown) or (isinstance(field, TimestampField) and field.is_same_moment(value, shown)):
            return None  # callers may edit what they read and send it back
        return ErrorDetail("Cannot be changed; leave it out or send it as it was read.", DetailCode.INVALID_VALUE)


class TextField(serializers.CharField):
    """A JSON string, kept as it was sent."""

    default_error_messages = {
        _WRONG_TYPE: "Must be a string.",
        "null": "Must be a string.",
        "blank": "Must not be empty.",
        "max_length": "Must be at most {max_length} characters.",
    }

    def __init__(self, **options: Any) -> None:
        super().__init__(trim_whitespace=False, **options)

    def run_validation(self, data: Any = serializers.empty) -> Any:
        if data is not serializers.empty and data is not None and not isinstance(data, str):
            self.fail(_WRONG_TYPE)
        return super().run_validation(data)


class KeyField(TextField):
    """A key that the caller chooses. The domain checks its form, and the schema describes it."""


class ChoiceField(serializers.ChoiceField):
    """A JSON string with one of several values."""

    default_error_messages = {_WRONG_TYPE: "Must be a string.", "null": "Must be a string."}

    def run_validation(self, data: Any = serializers.empty) -> Any:
        if data is not serializers.empty and data is not None and not isinstance(data, str):
            self.fail(_WRONG_TYPE)
        return super().run_validation(data)

    def to_internal_value(self, data: Any) -> Any:
        if data not in self.choices:
            message = f"Must be one of: {', '.join(map(str, self.choices))}."
            raise serializers.ValidationError(message, code=DetailCode.INVALID_VALUE)
        return data


class RawField(serializers.JSONField):
    """JSON as it was sent. The domain checks it, and the schema describes it."""

    default_error_messages = {"null": "Must not be null."}

    def __init__(self, schema: dict[str, Any], **options: Any) -> None:
        super().__init__(**options)
        self.schema = schema


class SwitchField(serializers.BooleanField):
    """A JSON boolean."""

    default_error_messages = {_WRONG_TYPE: "Must be true or false.", "null": "Must be true or false."}

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail(_WRONG_TYPE)
        return data


class NumberField(serializers.FloatField):
    """A JSON number, kept as the int or float it was sent as."""

    default_error_messages = {
        _WRONG_TYPE: "Must be a number.",
        "null": "Must be a number.",
        "min_value": "Must be at least {min_value}.",
        "max_value": "Must be at most {max_value}.",
    }

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, bool) or not isinstance(data, (int, float)):
            self.fail(_WRONG_TYPE)
        return data

    def to_representation(self, value: Any) -> Any:
        return value


class WholeNumberField(serializers.IntegerField):
    """A JSON number without a fraction, small enough for a column."""

    default_error_messages = {
        _WRONG_TYPE: "Must be a whole number.",
        "null": "Must be a whole number.",
        "min_value": "Must be at least {min_value}.",
        "max_value": "Must be at most {max_value}.",
    }

    def __init__(self, *, min_value: int, max_value: int = 2**63 - 1, **options: Any) -> None:
        super().__init__(min_value=min_value, max_value=max_value, **options)

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, (int, float)) or data != int(data):
            self.fail(_WRONG_TYPE)
        return int(data)


class ObjectField(serializers.DictField):
    """A JSON object of any content."""

    default_error_messages = {"not_a_dict": "Must be a JSON object.", "null": "Must be a JSON object."}


class ArrayField(serializers.ListField):
    """A JSON array."""

    default_error_messages = {
        "not_a_list": "Must be an array.",
        "null": "Must be an array.",
        "empty": "Must not be empty.",
        "max_length": "Must have at most {max_length} elements.",
        "min_length": "Must have at least {min_length} elements.",
    }

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, list):
            self.fail("not_a_list", input_type=type(data).__name__)
        return super().to_internal_value(data)


class TimestampField(serializers.DateTimeField):
    """A timestamp: ISO 8601 with any offset in requests; in UTC, with microseconds and `Z`, in
    answers.
    """

    default_error_messages = {
        _WRONG_TYPE: "Must be a string.",
        "null": "Must be a string.",
        "invalid_value": "Must be a date and time such as 2026-01-31T12:00:00Z.",
    }

    def to_internal_value(self, value: Any) -> Any:
        if not isinstance(value, str):
            self.fail(_WRONG_TYPE)
        try:
            return parse_timestamp(value)
        except ValueError:
            self.fail("invalid_value")

    def to_representation(self, value: Any) -> Any:
        return None if value is None else format_timestamp(value)

    def is_same_moment(self, sent: Any, shown: str | None) -> bool:
        """Return whether two timestamps are the same, even if the client wrote its own differently."""
        try:
            return isinstance(sent, str) and shown is not None and parse_timestamp(sent) == parse_timestamp(shown)
        except ValueError:
            return False


class NoBodySerializer(StrictSerializer):
    """For operations without a payload: no body, an empty one and `{}` are the same."""

    is_optional = True
