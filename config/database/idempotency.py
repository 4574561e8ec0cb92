"""What was answered to requests that may come twice: kept for a day, by what tells one sender's keys from another's."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db import connection

from config.models import IdempotencyKey

KEPT = timedelta(hours=24)
"""For how long an answer is given again. A key that is older may be used anew."""

_ROWS_A_TRANSACTION = 1000

# The ORM cannot replace a row only if it is old.
_CLAIM = (
    "INSERT INTO config_idempotencykey (id, request, at) VALUES (%s, %s, %s) "
    "ON CONFLICT (id) DO UPDATE SET request = excluded.request, at = excluded.at "
    "WHERE config_idempotencykey.at <= %s"
)


def claim(which: str, *, request: str, at: datetime) -> IdempotencyKey | None:
    """Have a key for the transaction under way, which must `keep` an answer: None if it is had, else what was kept.

    Where another transaction has it, this waits for its end.
    """
    moments = map(connection.ops.adapt_datetimefield_value, (at, at - KEPT))
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, [which, request, *moments])
        is_ours = cursor.rowcount == 1
    return None if is_ours else IdempotencyKey.objects.get(pk=which)


def keep(which: str, *, status: int, headers: Mapping[str, str], body: bytes) -> None:
    IdempotencyKey.objects.filter(pk=which).update(status=status, headers=dict(headers), body=body)


def forget_expired(now: datetime) -> str:
    """Delete what is given again no more, in short transactions."""
    expired = IdempotencyKey.objects.last_used_until(now - KEPT)
    deleted = 0
    while some := list(expired.order_by("at").values_list("pk", flat=True)[:_ROWS_A_TRANSACTION]):
        deleted += expired.filter(pk__in=some).delete()[0]  # none that was used anew meanwhile
    return f"deleted {deleted:,} expired"
