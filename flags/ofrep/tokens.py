"""Tokens in the addresses of event streams, which replace the API key: browsers cannot send headers to a stream.

A token only reveals that its environment changed, and is valid for 30 to 60 minutes. All tokens issued to one caller
within half an hour are the same, because a client that gets another address opens its stream again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.signing import BadSignature, Signer

PERIOD = timedelta(minutes=30)
LIFETIME = 2 * PERIOD
"""How long a token is valid, from the start of the period in which it was issued."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SALT = "halyard.stream"


class InvalidToken(Exception):
    """The token is forged, expired, or for another environment. The message says which, without any part of it."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """What a token permits: to listen to the changes of an environment.

    `key_id` is the id of the API key that it was issued for, or "" for callers without one. `since` is the start of
    the period in which it was issued.
    """

    environment: str
    key_id: str
    since: datetime


def issue(*, environment: str, key_id: str, now: datetime) -> str:
    """Return a token. Its characters need no escaping in a URL."""
    return _signer().sign_object([environment, key_id, period(now)])


def read(token: str, *, environment: str, now: datetime) -> Ticket:
    """Return what a token permits. Raises InvalidToken."""
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
    """Return the number of the period of a moment. A token of this period stays valid for the next one."""
    return (now - _EPOCH) // PERIOD


def issuer() -> str:
    """Return a value that changes with SECRET_KEY, as the signatures of all tokens do."""
    return _signer().signature("")


def _signer() -> Signer:
    return Signer(salt=_SALT, sep=".")
