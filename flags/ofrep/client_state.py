"""Entity tags: whether what a client has is still what it would be answered, found out without evaluating a flag.

They are made with a key: a tag that anybody could make from guesses would tell which moments the rules name.


Where a client may hear of changes: the `eventStreams` of an answer, and what a client tells of what it heard."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from hashlib import blake2b
from typing import Any

import orjson
from django.conf import settings
from django.http import HttpRequest
from django.http.request import split_domain_port

from config.serving import worker_process
from flags.ofrep import tokens


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


INACTIVITY_DELAY_SECONDS = 120

_heard = re.compile(r'(?:W/)?"?(\d{1,18})(?:\.\d+)?"?', re.ASCII)


def origin(request: HttpRequest) -> str | None:
    """Return the address of the server of streams as the sender of a request may reach it, if at all.

    A port of its own is reached as this one is, unless a proxy that ends TLS stands before it: then STREAM_URL says
    where it passes streams on.
    """
    if settings.STREAM_URL:
        return str(settings.STREAM_URL).rstrip("/")
    if worker_process.stream_port is None or request.is_secure():
        return None
    host, _ = split_domain_port(request.get_host())
    return f"http://{host}:{worker_process.stream_port}"


@dataclass(frozen=True, slots=True)
class Offer:
    """The stream that a caller is offered: that of an environment, for the bearer of a key."""

    origin: str
    environment: str
    key_id: str

    def told(self, at: datetime) -> list[dict[str, Any]]:
        """Return the `eventStreams` of an answer."""
        token = tokens.issue(environment=self.environment, key_id=self.key_id, at=at)
        url = f"{self.origin}/ofrep/v1/streams/{self.environment}?token={token}"
        return [{"type": "sse", "url": url, "inactivityDelaySec": INACTIVITY_DELAY_SECONDS}]

    def identity(self, at: datetime) -> list[Any]:
        """Return what a client that goes on with its last answer has to agree with, so that its token is still good."""
        return [self.origin, self.key_id, tokens.period(at), tokens.issuer()]


def heard_revision(values: Iterable[str]) -> int:
    """Return the newest revision that a stream has told of, as clients repeat it; 0 where they repeat none."""
    found = (_heard.fullmatch(value.strip()) for value in values)
    return max((int(each[1]) for each in found if each), default=0)
