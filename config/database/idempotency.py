"""The stored responses to requests with an idempotency key. They are kept for a day."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db import connection

from config.models import IdempotencyKey

RETENTION = timedelta(hours=24)
"""How long a response is repeated. After that, a key can be used for another request."""

_ROWS_A_TRANSACTION = 1000

# The ORM cannot replace a row on the condition that it is old.
_CLAIM = (
    "INSERT INTO config_idempotencykey (id, request, at) VALUES (%s, %s, %s) "
    "ON CONFLICT (id) DO UPDATE SET request = excluded.request, at = excluded.at "
    "WHERE config_idempotencykey.at <= %s"
)


def claim(key_id: str, *, request: str, now: datetime) -> IdempotencyKey | None:
    """Claim a key for the current transaction and return None, or return the row of a key that has a response already.

    `key_id` is a digest of the key and its sender, and `request` one of what was sent. After None, the transaction must
    call `store_response`. If another transaction has claimed the key, this waits until that one ends.
    """
    times = map(connection.ops.adapt_datetimefield_value, (now, now - RETENTION))
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, [key_id, request, *times])
        is_ours = cursor.rowcount == 1
    return None if is_ours else IdempotencyKey.objects.get(pk=key_id)


def store_response(key_id: str, *, status: int, headers: Mapping[str, str], body: bytes) -> None:
    IdempotencyKey.objects.filter(pk=key_id).update(status=status, headers=dict(headers), body=body)


def delete_expired(now: datetime) -> str:
    """Delete responses that are no longer repeated, in short transactions, and return a report."""
    expired = IdempotencyKey.objects.last_used_until(now - RETENTION)
    deleted = 0
    while keys := list(expired.order_by("at").values_list("pk", flat=True)[:_ROWS_A_TRANSACTION]):
        deleted += expired.filter(pk__in=keys).delete()[0]  # unless a key was used again meanwhile
    return f"deleted {deleted:,} expired"
