"""Tokens in the addresses of event streams, which replace API keys, because browsers send no headers to a stream.

A token reveals only that an environment changed, and is valid for 30 to 60 minutes. All tokens of a caller within a
period are the same, because clients reconnect when the address changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.signing import BadSignature, Signer

PERIOD = timedelta(minutes=30)
LIFETIME = 2 * PERIOD
"""From the start of the period in which the token was issued."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SALT = "halyard.stream"


class InvalidToken(Exception):
    """The token is forged, expired, or for another environment. The message does not repeat it."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """The permission in a token: to listen to an environment.

    `key_id`: the id of the API key, or "" for callers without one.
    `since`: the start of the period in which the token was issued.
    """

    environment: str
    key_id: str
    since: datetime


def issue(*, environment: str, key_id: str, now: datetime) -> str:
    """Return a token that needs no escaping in a URL."""
    return _signer().sign_object([environment, key_id, period(now)])


def read(token: str, *, environment: str, now: datetime) -> Ticket:
    """Return the permission in a token. Raises InvalidToken."""
    try:
        content: list[Any] = _signer().unsign_object(token)
    except BadSignature:
        raise InvalidToken("This token was not issued here.") from None
    of, key_id, number = content
    ticket = Ticket(of, key_id, _EPOCH + number * PERIOD)
    if ticket.environment != environment:
        raise InvalidToken("This token is for another environment.")
    if now >= ticket.since + LIFETIME:
        raise InvalidToken("This token has expired.")
    return ticket


def period(now: datetime) -> int:
    """Return the number of the period. Tokens of a period stay valid in the next one."""
    return (now - _EPOCH) // PERIOD


def issuer() -> str:
    """Return a value that changes with SECRET_KEY."""
    return _signer().signature("")


def _signer() -> Signer:
    return Signer(salt=_SALT, sep=".")
