"""The formats and maximum lengths of keys, names, descriptions and reasons that clients choose."""

from __future__ import annotations

import re

from config.errors import Detail, DetailCode

KEY_LENGTH = 100
KEY_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z"
KEY_RULE = "1 to 100 letters, digits, dots, underscores and hyphens, the first a letter or a digit"
NAME_LENGTH = 200
DESCRIPTION_LENGTH = 2000
REASON_LENGTH = 1000

_key = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)


def is_key(key: str) -> bool:
    return _key.fullmatch(key) is not None


def check_key(key: str, field: str = "key") -> list[Detail]:
    """Return what is wrong with a key that a client chose: one detail, or none."""
    if is_key(key):
        return []
    if len(key) > KEY_LENGTH:
        return [Detail(field, DetailCode.TOO_LONG, f"Must be at most {KEY_LENGTH} characters.")]
    return [Detail(field, DetailCode.INVALID_VALUE, f"Must be {KEY_RULE}.")]


def check_name(name: str, advice: str) -> list[Detail]:
    """Return what is wrong with a name for people: one detail, or none. `advice` says what to write."""
    if not name.strip():
        return [Detail("name", DetailCode.REQUIRED, f"Must not be empty; {advice}.")]
    if len(name) > NAME_LENGTH:
        return [Detail("name", DetailCode.TOO_LONG, f"Must be at most {NAME_LENGTH} characters.")]
    return []


def check_description(description: str) -> list[Detail]:
    """Return what is wrong with a description: one detail, or none."""
    if len(description) <= DESCRIPTION_LENGTH:
        return []
    return [Detail("description", DetailCode.TOO_LONG, f"Must be at most {DESCRIPTION_LENGTH} characters.")]
