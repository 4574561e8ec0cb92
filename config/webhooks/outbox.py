"""Messages: they are made of the change log, claimed for an attempt to send, and repeated until they are delivered.

Several processes and hosts may do this at the same time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import Min, Q

from config.change_log.writing import Actor
from config.models import Change, Delivery, DeliveryState, Source, Webhook, kinds_of
from config.monitoring import metrics
from config.snapshot import signal_file
from config.timestamps import format_timestamp
from config.webhooks.messages import Message, render, render_test
from config.webhooks.sending import GONE, SECONDS, Outcome, sign
from config.webhooks.writes import pause_webhook

KEEP_TRYING = timedelta(days=3)
LEASE = timedelta(seconds=2 * SECONDS + 10)
"""How long an attempt may take. After that its process must have died, and another attempt is made."""
RETENTION = timedelta(days=30)
MAX_KEPT = 10_000
"""Deliveries that are kept of one webhook."""
_FIRST_DELAY, _MAX_DELAY = timedelta(seconds=5), timedelta(hours=6)
_MAX_WRITES_AT_ONCE = 100
_MAX_ATTEMPTS_KEPT = 30
_CHANGES_AT_ONCE = 10  # a document may hold megabytes
_DELETED_AT_ONCE = 1_000

_ACTOR = Actor("delivery of webhooks", Source.COMMAND)


# --- from the change log to messages ----------------------------------------------------------------------------------


def queue_changes(now: datetime) -> bool:
    """Make messages of new changes, and return whether there is more to do."""
    newest = Change.objects.latest_revision()
    behind = Webhook.objects.filter(paused_at=None, revision__lt=newest)
    return any(_queue(webhook, newest, now) for webhook in behind)


def _queue(webhook: Webhook, newest: int, now: datetime) -> bool:
    deliveries: list[Delivery] = []
    last = newest
    for revision, message in _writes(webhook, newest, now):
        if len(deliveries) == _MAX_WRITES_AT_ONCE:
            last = revision - 1
            break
        deliveries.append(_delivery(webhook, revision, message, now))
    with transaction.atomic():
        # Another process may have done the same meanwhile: only one of them moves the revision on.
        behind = Webhook.objects.filter(pk=webhook.pk, revision=webhook.revision)
        if behind.update(revision=last):
            Delivery.objects.bulk_create(deliveries)
    return last < newest


def _writes(webhook: Webhook, newest: int, now: datetime) -> Iterator[tuple[int, Message]]:
    """Yield the writes that a webhook gets, in order, each with its first revision."""
    changes = Change.objects.filter(revision__gt=webhook.revision, revision__lte=newest, at__gt=now - KEEP_TRYING)
    if webhook.kinds:
        changes = changes.filter(kind__in=[stored for kind in webhook.kinds for stored in kinds_of(kind)])
    if webhook.environments:
        changes = changes.filter(environment__in=["", *webhook.environments])
    wanted = (
        change
        for change in changes.order_by("revision").iterator(chunk_size=_CHANGES_AT_ONCE)
        if not webhook.tags or not _tags(change).isdisjoint(webhook.tags)
    )
    for revision, group in groupby(wanted, key=lambda change: change.write or change.revision):
        message = Message()
        for change in group:
            message.add(change)
        yield revision, message


def _tags(change: Change) -> set[str]:
    """Return the tags of an object before and after its change."""
    return {tag for side in (change.before, change.after) for tag in (side or {}).get("tags", ())}


def _delivery(webhook: Webhook, revision: int | None, message: Message, now: datetime) -> Delivery:
    return Delivery(
        webhook=webhook,
        revision=revision,
        summary=message.summary[:200],
        body=render(message, webhook.format),
        **_to_send(now),
    )


def _to_send(now: datetime) -> dict[str, datetime]:
    return {"created_at": now, "due_at": now, "give_up_at": now + KEEP_TRYING}


def queue_test(webhook: Webhook, now: datetime) -> Delivery:
    """Queue a test message."""
    body = render_test(webhook.format, webhook.name, now)
    delivery = Delivery.objects.create(webhook=webhook, summary="test", body=body, **_to_send(now))
    transaction.on_commit(signal_file.signal_change)
    return delivery


def send_again(delivery: Delivery, now: datetime) -> None:
    """Queue a message again, with the same id, so that receivers can recognise it."""
    again = {**_to_send(now), "tries": 0, "state": DeliveryState.WAITING}
    del again["created_at"]
    Delivery.objects.filter(pk=delivery.pk).update(**again)
    transaction.on_commit(signal_file.signal_change)


# --- attempts ---------------------------------------------------------------------------------------------------------


class Attempt(NamedTuple):
    """A message that only this process may send until `claimed_until`, which also identifies the claim later."""

    delivery: Delivery
    claimed_until: datetime
    url: str
    body: bytes
    headers: Mapping[str, str]


def claim(now: datetime, most: int, in_flight: Mapping[UUID, int], most_each: int) -> list[Attempt]:
    """Claim messages that are due: at most `most`, and at most `most_each` of a webhook.

    `in_flight` has the number of unfinished attempts of each webhook. A webhook that fails gets one at a time.
    """
    full = [webhook for webhook, number in in_flight.items() if number >= most_each]
    failing = [webhook for webhook in in_flight if webhook not in full]
    due = (
        Delivery.objects.filter(state=DeliveryState.WAITING, due_at__lte=now, webhook__paused_at=None)
        .exclude(webhook__in=full)
        .exclude(Q(webhook__in=failing) & Q(webhook__failing_since__isnull=False))
        .order_by("due_at", "id")
    )
    if most < 1 or not due.exists():  # on SQLite, the transaction below would wait for writers
        return []
    with transaction.atomic():
        rows = list(due.select_related("webhook").select_for_update(skip_locked=True, of=("self",))[:most])
        chosen = list(_fairly(rows, dict(in_flight), most_each))
        until = now + LEASE
        Delivery.objects.filter(pk__in=[delivery.pk for delivery in chosen]).update(due_at=until)
    return [_attempt(delivery, until, now) for delivery in chosen]


def _fairly(rows: Collection[Delivery], in_flight: dict[UUID, int], most_each: int) -> Iterator[Delivery]:
    for delivery in rows:
        webhook = delivery.webhook
        number = in_flight.get(webhook.pk, 0)
        if number < (1 if webhook.failing_since else most_each):
            in_flight[webhook.pk] = number + 1
            yield delivery


def _attempt(delivery: Delivery, until: datetime, now: datetime) -> Attempt:
    webhook, body = delivery.webhook, delivery.body.encode()
    keys = [webhook.secret]
    if webhook.previous_until and now < webhook.previous_until:
        keys.append(webhook.previous_secret)
    return Attempt(delivery, until, webhook.url, body, sign(message_id(delivery), now, body, keys))


def message_id(delivery: Delivery) -> str:
    return f"msg_{delivery.pk}"


def record(attempt: Attempt, outcome: Outcome, now: datetime) -> None:
    """Record the outcome of an attempt, unless its claim has expired and another process has claimed the message."""
    delivery = attempt.delivery
    tries = delivery.tries + 1
    values = _after(delivery, outcome, tries, now)
    made = {"at": format_timestamp(now), "status": outcome.status, "problem": outcome.problem}
    kept = [*delivery.attempts, {**made, "seconds": outcome.seconds}][-_MAX_ATTEMPTS_KEPT:]
    own = Delivery.objects.filter(pk=delivery.pk, due_at=attempt.claimed_until, state=DeliveryState.WAITING)
    webhooks = Webhook.objects.filter(pk=delivery.webhook_id)
    with transaction.atomic():
        # The webhook first: a transaction that deletes it locks both in this order, too.
        if outcome.is_success:
            webhooks.exclude(failing_since=None).update(failing_since=None)
        else:
            webhooks.filter(failing_since=None).update(failing_since=now)
        if not own.update(attempts=kept, tries=tries, **values):
            transaction.set_rollback(True)
            return
    metrics.webhook_deliveries.add(1, "retried" if "due_at" in values else str(values["state"]))
    if outcome.status == GONE:
        reason = "The receiver answered 410 Gone: it wants no more messages."
        pause_webhook(delivery.webhook, actor=_ACTOR, now=now, reason=reason)


def _after(delivery: Delivery, outcome: Outcome, tries: int, now: datetime) -> dict[str, object]:
    """Return the columns of a delivery after an attempt: its final state, or the time of the next attempt."""
    if outcome.is_success:
        return {"state": DeliveryState.DELIVERED}
    due_at = now + delay(tries, delivery.pk)
    if outcome.status == GONE or due_at > delivery.give_up_at:
        return {"state": DeliveryState.FAILED}
    return {"due_at": due_at}


def delay(tries: int, delivery_id: UUID) -> timedelta:
    """Return how long to wait after `tries` attempts: three times as long each time, up to six hours.

    The id adds up to a fifth, so that messages that failed together are not repeated together.
    """
    seconds = min(_FIRST_DELAY.total_seconds() * 3 ** min(tries - 1, 20), _MAX_DELAY.total_seconds())
    return timedelta(seconds=seconds * (1 + delivery_id.int % 1000 / 5000))


def next_due() -> datetime | None:
    waiting = Delivery.objects.filter(state=DeliveryState.WAITING, webhook__paused_at=None)
    due: datetime | None = waiting.aggregate(due=Min("due_at"))["due"]
    return due


def count_waiting() -> int:
    return Delivery.objects.filter(state=DeliveryState.WAITING).count()


# --- maintenance ------------------------------------------------------------------------------------------------------


def clean(now: datetime) -> str:
    """Give up old messages of paused webhooks, and delete old deliveries."""
    late = Delivery.objects.filter(state=DeliveryState.WAITING, give_up_at__lt=now, due_at__lt=now)
    given_up = late.filter(webhook__paused_at__isnull=False).update(state=DeliveryState.FAILED)
    over = Delivery.objects.exclude(state=DeliveryState.WAITING)
    deleted = _delete(over.filter(created_at__lt=now - RETENTION).values_list("pk", flat=True))
    for webhook in Webhook.objects.all():
        newest = over.filter(webhook=webhook).order_by("-id").values_list("pk", flat=True)
        if oldest_kept := newest[MAX_KEPT - 1 : MAX_KEPT].first():
            deleted += _delete(newest.filter(pk__lt=oldest_kept))
    return f"{deleted:,} old deliveries deleted, {given_up:,} given up"


def _delete(ids: Any) -> int:
    deleted = 0
    while some := list(ids[:_DELETED_AT_ONCE]):
        deleted += Delivery.objects.filter(pk__in=some).delete()[0]
    return deleted
