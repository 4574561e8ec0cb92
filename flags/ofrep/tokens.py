"""Tokens of event streams: what an address carries in place of a key, since browsers send no headers to a stream.

A token tells nobody anything but that its environment changed, and holds for half an hour to an hour. All that are
issued to one caller in one half hour are the same: clients that are answered another address open their stream anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.signing import BadSignature, Signer

PERIOD = timedelta(minutes=30)
LIFETIME = 2 * PERIOD
"""From the beginning of the period on in which it was issued."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SALT = "halyard.stream"


class InvalidToken(Exception):
    """The token is forged, expired, or of another environment. The message says which, and holds nothing of it."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """Who may hear of what: the environment, and the id of the API key ("" for callers without one).

    It was issued at `since` or later, to somebody who was answered at that time.
    """

    environment: str
    key_id: str
    since: datetime


def issue(*, environment: str, key_id: str, at: datetime) -> str:
    """Return a token that may stand in a URL as it is."""
    return _signer().sign_object([environment, key_id, period(at)])


def read(token: str, *, environment: str, at: datetime) -> Ticket:
    """Return what a token says, or raise InvalidToken."""
    try:
        content: list[Any] = _signer().unsign_object(token)
    except BadSignature:
        raise InvalidToken("This token was not issued here.") from None
    of, key_id, number = content
    ticket = Ticket(of, key_id, _EPOCH + number * PERIOD)
    if ticket.environment != environment:
        raise InvalidToken("This token is for another environment.")
    if at >= ticket.since + LIFETIME:
        raise InvalidToken("This token has expired.")
    return ticket


def period(at: datetime) -> int:
    """Return the number of the period that a moment lies in: a token of the same one is good for another at least."""
    return (at - _EPOCH) // PERIOD


def issuer() -> str:
    """Return what all tokens that are good here have in common: another SECRET_KEY makes another one."""
    return _signer().signature("")


def _signer() -> Signer:
    return Signer(salt=_SALT, sep=".")
