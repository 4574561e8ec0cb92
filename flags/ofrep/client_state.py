"""What an OFREP client already has: the entity tag of its last answer, and its event stream."""

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
from flags.ofrep.answers import OfrepEventStream


def etag(secret: str, *parts: object) -> str:
    """Return a strong entity tag, in quotes, of everything that an answer depends on.

    With it, a request is answered 304 without an evaluation.
    """
    # The hash is keyed. Otherwise, the scheduled times in rules could be found by guessing.
    content = orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)
    return f'"{blake2b(content, digest_size=16, key=_key(secret)).hexdigest()}"'


@cache
def _key(secret: str) -> bytes:
    return blake2b(secret.encode(), person=b"halyard.etag").digest()


def matches(if_none_match: str | None, current: str) -> bool:
    """Return whether `If-None-Match` names the tag, weak or strong (RFC 9110, 13.1.2)."""
    if not if_none_match:
        return False
    tags = {tag.strip().removeprefix("W/").strip('"') for tag in if_none_match.split(",")}
    return "*" in tags or current.strip('"') in tags


INACTIVITY_DELAY_SECONDS = 120

_revision = re.compile(r'(?:W/)?"?(\d{1,18})(?:\.\d+)?"?', re.ASCII)


def origin(request: HttpRequest) -> str | None:
    """Return the address of the server of event streams, as the sender of a request can reach it, or None.

    It is the host of the request with another port. Behind a proxy that ends TLS, STREAM_URL must be set.
    """
    if settings.STREAM_URL:
        return str(settings.STREAM_URL).rstrip("/")
    if worker_process.stream_port is None or request.is_secure():
        return None
    host, _ = split_domain_port(request.get_host())
    return f"http://{host}:{worker_process.stream_port}"


@dataclass(frozen=True, slots=True)
class Offer:
    """The event stream that an answer offers to its caller.

    `revision` is that of the caller's first answer with this address. Without it, the stream could not tell whether a
    new page has missed a change. Later answers repeat it, because clients reconnect when the address changes.
    """

    origin: str
    environment: str
    key_id: str
    revision: int

    def streams(self, now: datetime) -> list[OfrepEventStream]:
        """Return the `eventStreams` of an answer."""
        token = tokens.issue(environment=self.environment, key_id=self.key_id, now=now)
        url = f"{self.origin}/ofrep/v1/streams/{self.environment}?token={token}&revision={self.revision}"
        return [OfrepEventStream(type="sse", url=url, inactivity_delay=INACTIVITY_DELAY_SECONDS)]

    def identity(self, now: datetime) -> list[Any]:
        """Return what must not change for a client to keep its last answer, whose token is then still valid."""
        return [self.origin, self.key_id, tokens.period(now), tokens.issuer(), self.revision]

    def add_revision(self, tag: str, now: datetime) -> str:
        """Return the entity tag with the revision, which `offered_revision` reads."""
        return f'{tag[:-1]}-{tokens.period(now)}-{self.revision}"'


_marked = re.compile(r'\s*(?:W/)?"[0-9a-f]+-(\d{1,10})-(\d{1,18})"\s*', re.ASCII)


def offered_revision(if_none_match: str | None, now: datetime) -> int | None:
    """Return the revision that the client's last answer offered, if its address is still offered."""
    found = _marked.fullmatch(if_none_match or "")
    return int(found[2]) if found and int(found[1]) == tokens.period(now) else None


def newest_revision(values: Iterable[str]) -> int:
    """Return the newest revision in tags that a client repeats from its event stream, or 0."""
    matches = (_revision.fullmatch(value.strip()) for value in values)
    return max((int(match[1]) for match in matches if match), default=0)
