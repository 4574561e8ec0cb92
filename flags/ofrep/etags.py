"""Entity tags: whether what a client has is still what it would be answered, found out without evaluating a flag.

They are made with a key: a tag that anybody could make from guesses would tell which moments the rules name.
"""

from __future__ import annotations

from functools import cache
from hashlib import blake2b

import orjson


def etag(secret: str, *parts: object) -> str:
    """Return a strong tag, in its quotes, of all that an answer depends on: JSON, or moments."""
    content = orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)
    return f'"{blake2b(content, digest_size=16, key=_key(secret)).hexdigest()}"'


@cache
def _key(secret: str) -> bytes:
    return blake2b(secret.encode(), person=b"halyard.etag").digest()


def matches(if_none_match: str | None, current: str) -> bool:
    """Return whether `If-None-Match` names the tag. Weak or strong makes no difference here (RFC 9110, 13.1.2)."""
    if not if_none_match:
        return False
    named = {each.strip().removeprefix("W/").strip('"') for each in if_none_match.split(",")}
    return "*" in named or current.strip('"') in named
