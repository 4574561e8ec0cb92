"""Entity tags: whether what a client has is still what it would be answered, found out without evaluating a flag."""

from __future__ import annotations

from hashlib import blake2b

import orjson


def etag(*parts: object) -> str:
    """Return a strong tag, in its quotes, of all that an answer depends on: JSON, or moments."""
    content = orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)
    return f'"{blake2b(content, digest_size=16).hexdigest()}"'


def matches(if_none_match: str | None, current: str) -> bool:
    """Return whether `If-None-Match` names the tag. Weak or strong makes no difference here (RFC 9110, 13.1.2)."""
    if not if_none_match:
        return False
    named = {each.strip().removeprefix("W/").strip('"') for each in if_none_match.split(",")}
    return "*" in named or current.strip('"') in named
