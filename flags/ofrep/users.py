"""The user of an OFREP request, as the `context` of its body describes them. Pure."""

from __future__ import annotations

from typing import Any

from config.errors import Detail, DetailCode, DomainError, ErrorCode, ValidationFailed
from config.slugs import NAME_LENGTH
from flags.engine.types import Attributes

TARGETING_KEY = "targetingKey"
CONTEXT = "context"
FILTER = "flags"


def read_user(body: object) -> tuple[str, dict[str, Any]]:
    """Return the user id and the attributes. The id of a user without a targeting key is empty.

    Other properties of the body are ignored, since later versions of the protocol may add some.

    Raises DomainError if the body is not an object, and ValidationFailed if the context is not acceptable.
    """
    if not isinstance(body, dict):
        raise DomainError(ErrorCode.MALFORMED_JSON, 'Send an object such as {"context": {"targetingKey": "user-17"}}.')
    context = body.get(CONTEXT, {})
    if not isinstance(context, dict):
        raise ValidationFailed([Detail(CONTEXT, DetailCode.INVALID_TYPE, "Must be an object.")])
    user_id = context.get(TARGETING_KEY)
    if user_id is None:
        user_id = ""
    elif not isinstance(user_id, str):
        raise _invalid(DetailCode.INVALID_TYPE, "Must be a string.")
    elif len(user_id) > NAME_LENGTH:
        raise _invalid(DetailCode.TOO_LONG, f"Must be at most {NAME_LENGTH} characters.")
    return user_id, {name: value for name, value in context.items() if name != TARGETING_KEY}


def read_filter(attributes: Attributes) -> list[str] | None:
    """Return the keys of the flags to evaluate, or None for all flags.

    The protocol has no place for a filter but the context, where `flags` may also be an attribute of the application.
    So a value that is not a list of keys is not a filter.
    """
    keys = attributes.get(FILTER)
    if isinstance(keys, list) and keys and all(isinstance(key, str) for key in keys):
        return list(dict.fromkeys(keys))
    return None


def _invalid(code: DetailCode, message: str) -> ValidationFailed:
    return ValidationFailed([Detail(f"{CONTEXT}.{TARGETING_KEY}", code, message)])
