"""Where a client may hear of changes: the `eventStreams` of an answer, and what a client tells of what it heard."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.http.request import split_domain_port

from config import streams
from flags.ofrep import tokens

INACTIVITY_DELAY_SECONDS = 120

_heard = re.compile(r'(?:W/)?"?(\d{1,18})(?:\.\d+)?"?', re.ASCII)


def origin(request: HttpRequest) -> str | None:
    """Return the address of the server of streams as the sender of a request may reach it, if at all.

    A port of its own is reached as this one is, unless a proxy that ends TLS stands before it: then STREAM_URL says
    where it passes streams on.
    """
    if settings.STREAM_URL:
        return str(settings.STREAM_URL).rstrip("/")
    if streams.port is None or request.is_secure():
        return None
    host, _ = split_domain_port(request.get_host())
    return f"http://{host}:{streams.port}"


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
