"""Tokens of event streams: what an address carries in place of a key, since browsers send no headers to a stream.

A token tells nobody anything but that its environment changed, and holds for an hour.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.signing import BadSignature, Signer

LIFETIME = timedelta(hours=1)
_HALF = LIFETIME / 2

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SALT = "halyard.stream"


class InvalidToken(Exception):
    """The token is forged, expired, or of another environment. The message says which, and holds nothing of it."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """Who may hear of what: the environment, the id of the API key ("" for callers without one), and since when.

    `revision` is that of the answer that the token came with.
    """

    environment: str
    key_id: str
    revision: int
    issued_at: datetime


def issue(*, environment: str, key_id: str, revision: int, at: datetime) -> str:
    """Return a token that may stand in a URL as it is."""
    return _signer().sign_object([environment, key_id, revision, (at - _EPOCH) // _MICROSECOND])


def read(token: str, *, environment: str, at: datetime) -> Ticket:
    """Return what a token says, or raise InvalidToken."""
    try:
        content: list[Any] = _signer().unsign_object(token)
    except BadSignature:
        raise InvalidToken("This token was not issued here.") from None
    of, key_id, revision, microseconds = content
    ticket = Ticket(of, key_id, revision, _EPOCH + microseconds * _MICROSECOND)
    if ticket.environment != environment:
        raise InvalidToken("This token is for another environment.")
    if at >= ticket.issued_at + LIFETIME:
        raise InvalidToken("This token has expired.")
    return ticket


def period(at: datetime) -> int:
    """Return the number of the half lifetime that a moment lies in.

    A token issued in the same one is good for another half lifetime at least.
    """
    return (at - _EPOCH) // _HALF


def issuer() -> str:
    """Return what all tokens that are good here have in common: another SECRET_KEY makes another one."""
    return _signer().signature("")


def _signer() -> Signer:
    return Signer(salt=_SALT, sep=".")
