"""The evaluation context of OpenFeature, read as a user id and attributes in JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import InvalidContextError

MAX_LEVELS = 8
MAX_KEY_LENGTH = 200
_NEED_NO_COPY = frozenset({str, int, bool, type(None)})


def read_context(context: EvaluationContext | None) -> tuple[str, Mapping[str, Any]]:
    """Return the user id, empty for an anonymous user, and the attributes.

    Raises InvalidContextError if the context cannot be sent, for example because it contains itself.
    """
    if context is None:
        return "", {}
    attributes = context.attributes
    for name, value in attributes.items():
        if type(value) not in _NEED_NO_COPY or type(name) is not str:
            return _read_key(context.targeting_key), _plain(attributes)
    return _read_key(context.targeting_key), attributes


def plain_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes as JSON. Raises InvalidContextError."""
    plain: dict[str, Any] = _plain(attributes)
    return plain


def _read_key(key: object) -> str:
    if key is None:
        return ""
    if not isinstance(key, str):
        raise InvalidContextError("The targeting key must be a string.")
    if len(key) > MAX_KEY_LENGTH:
        raise InvalidContextError(f"The targeting key must have at most {MAX_KEY_LENGTH} characters.")
    if not key.isascii() or "\0" in key:
        _require_text(key)
    return key


def _require_text(key: str) -> None:
    try:
        key.encode()
    except UnicodeEncodeError:
        raise InvalidContextError("The targeting key has half of a surrogate pair.") from None
    if "\0" in key:
        raise InvalidContextError("The targeting key must not contain U+0000.")


def _plain(value: Any, level: int = 1) -> Any:
    """Return a value as JSON. A value that contains itself has too many levels."""
    if type(value) in _NEED_NO_COPY:
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidContextError("The evaluation context has a number that is not finite.")
        return value
    if isinstance(value, str | int):  # members of enumerations
        return str(value) if isinstance(value, str) else int(value)
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return aware.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    if level > MAX_LEVELS:
        raise InvalidContextError(f"The evaluation context has more than {MAX_LEVELS} levels, or contains itself.")
    if isinstance(value, Mapping):
        return {_name(name): _plain(entry, level + 1) for name, entry in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [_plain(entry, level + 1) for entry in value]
    raise InvalidContextError(f"The evaluation context has a value of type {type(value).__name__}; JSON has none such.")


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise InvalidContextError("The names in the evaluation context must be strings.")
    return name
