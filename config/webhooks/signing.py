"""Secrets and signatures, by the specification of Standard Webhooks (https://www.standardwebhooks.com)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable, Mapping
from datetime import datetime

_PREFIX = "whsec_"
_BYTES_OF_SECRET = 32


def new_secret() -> str:
    return _PREFIX + base64.b64encode(secrets.token_bytes(_BYTES_OF_SECRET)).decode()


def sign(message_id: str, at: datetime, body: bytes, keys: Iterable[str]) -> Mapping[str, str]:
    """Return the headers of a message that is sent now, with a signature by each of these secrets."""
    timestamp = str(int(at.timestamp()))
    signed = f"{message_id}.{timestamp}.".encode() + body
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(_signature(key, signed) for key in keys),
    }


def _signature(key: str, signed: bytes) -> str:
    secret = base64.b64decode(key.removeprefix(_PREFIX))
    return "v1," + base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()
