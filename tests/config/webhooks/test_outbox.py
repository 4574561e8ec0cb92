"""From the change log to messages, and from attempt to attempt."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from config.models import Change, Delivery, Environment, Webhook
from config.webhooks import outbox
from config.webhooks import writes as changes
from config.webhooks.outbox import KEEP_TRYING, LEASE, Attempt, claim, clean, delay, queue_changes, record
from config.webhooks.sending import Outcome
from flags.changes.flag_changes import update_flag
from flags.changes.segment_changes import create_segment, update_segment
from tests.config.webhooks.test_writes import WRITER, make
from tests.conftest import ACTOR, NOON
from tests.factories import FlagFactory

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("log_of_the_past")]

GOOD = Outcome(204, "", 0.1)
BAD = Outcome(500, "the receiver did not accept the message", 0.1)
GONE = Outcome(410, "the receiver is gone", 0.1)


def queue(now: datetime = NOON) -> None:
    while queue_changes(now):
        pass


def claim_all(now: datetime, **in_flight: Any) -> list[Attempt]:
    return claim(now, 100, in_flight, 100)


def summaries() -> list[str]:
    return [delivery.summary for delivery in Delivery.objects.order_by("id")]


@pytest.fixture
def waiting() -> Delivery:
    """A message about a flag, which waits."""
    make()
    FlagFactory(key="shop")
    queue()
    return Delivery.objects.get()


# --- which changes ----------------------------------------------------------------------------------------------------


def test_queue__each_write__is_one_message_in_the_order_of_the_log() -> None:
    FlagFactory(key="before")
    make()
    FlagFactory(key="first")
    FlagFactory(key="second")
    queue()
    queue()
    assert summaries() == ["flag first created", "flag second created"]


def test_queue__write_of_several_changes__is_one_message(production: Environment) -> None:
    make()
    first = FlagFactory(key="first")
    FlagFactory(key="second")
    Change.objects.filter(object_id__gte=str(first.pk)).exclude(kind="webhook").update(
        write=Change.objects.of("flag", first.pk)[0].revision
    )
    queue()
    assert summaries() == ["flag first created and 1 more"]


def test_queue__environment__gets_its_own_and_what_all_share(production: Environment, staging: Environment) -> None:
    make(environments=["staging"])
    FlagFactory(key="shop")
    for environment in (production, staging):
        update_flag(key="shop", environment=environment, changes={"enabled": True}, **WRITER)
    queue()
    bodies = [json.loads(delivery.body)["data"]["changes"][0] for delivery in Delivery.objects.order_by("id")]
    assert [change["environment"] for change in bodies] == [None, "staging"]


def test_queue__kinds__include_changes_of_members() -> None:
    make(kinds=["segment"])
    FlagFactory(key="shop")
    create_segment(key="crowd", **WRITER)
    update_segment(key="crowd", changes={"user_ids": ["u"]}, **WRITER)
    queue()
    assert summaries() == ["segment crowd created", "segment crowd changed"]


def test_queue__tags__of_before_and_after_count(production: Environment) -> None:
    make(tags=["shop", "other"])
    FlagFactory(key="tagged", tags=["shop"])
    FlagFactory(key="untagged")
    create_segment(key="crowd", **WRITER)
    update_flag(key="tagged", environment=production, changes={"tags": []}, **WRITER)
    update_flag(key="tagged", environment=production, changes={"enabled": True}, **WRITER)
    queue()
    assert summaries() == ["flag tagged created", "flag tagged changed"]


def test_queue__very_many_writes__are_all_queued_in_several_steps() -> None:
    webhook = make()
    first = Change.objects.latest_revision() + 1
    Change.objects.bulk_create(
        Change(revision=first + at, at=NOON, actor="a", source="api", kind="flag", object_id=str(at), key=str(at),
               after={}, write=first + at)
        for at in range(250)
    )  # fmt: skip
    assert queue_changes(NOON)
    assert Delivery.objects.count() == 100
    queue()
    assert Delivery.objects.count() == 250
    assert Webhook.objects.get(pk=webhook.pk).revision == first + 249


def test_queue__two_processes_at_once__make_each_message_once(monkeypatch: pytest.MonkeyPatch) -> None:
    make()
    FlagFactory(key="shop")
    render = outbox.render

    def let_another_go_first(*arguments: Any) -> str:
        monkeypatch.setattr(outbox, "render", render)
        queue()
        return render(*arguments)

    monkeypatch.setattr(outbox, "render", let_another_go_first)
    queue()
    assert summaries() == ["flag shop created"]


def test_queue__while_paused__waits_until_it_resumes() -> None:
    webhook = make()
    changes.pause_webhook(webhook, **WRITER)
    FlagFactory(key="meanwhile")
    queue()
    assert summaries() == []
    changes.resume_webhook(webhook, **WRITER)
    queue()
    assert summaries() == ["webhook chat changed", "flag meanwhile created", "webhook chat changed"]


def test_queue__changes_that_are_too_old__have_no_message() -> None:
    make()
    FlagFactory(key="old")
    queue(NOON + KEEP_TRYING)
    assert summaries() == []


def test_write__without_and_with_webhooks__costs_the_same_queries(production: Environment) -> None:
    FlagFactory(key="shop")

    def count(enabled: bool) -> int:
        with CaptureQueriesContext(
            connection,
        ) as queries:
            update_flag(key="shop", environment=production, changes={"enabled": enabled}, **WRITER)
        return len(queries)

    without = count(True)
    make()
    assert count(False) == without


# --- attempts ---------------------------------------------------------------------------------------------------------


def test_claim__message__is_claimed_once_until_its_lease_ends(waiting: Delivery) -> None:
    [attempt] = claim_all(NOON)
    assert attempt.headers["webhook-id"] == f"msg_{waiting.pk}"
    assert attempt.body.decode() == waiting.body
    assert claim_all(NOON) == []
    assert claim_all(NOON + LEASE - timedelta(seconds=1)) == []
    [again] = claim_all(NOON + LEASE)
    assert again.headers["webhook-id"] == attempt.headers["webhook-id"]
    assert again.body == attempt.body


def test_record__late_outcome_of_a_lost_claim__changes_nothing(waiting: Delivery) -> None:
    [lost] = claim_all(NOON)
    [current] = claim_all(NOON + LEASE)
    record(lost, GOOD, NOON + LEASE)
    waiting.refresh_from_db()
    assert (waiting.state, waiting.attempts) == ("waiting", [])
    record(current, GOOD, NOON + LEASE)
    waiting.refresh_from_db()
    assert (waiting.state, len(waiting.attempts)) == ("delivered", 1)


def test_record__success__ends_the_failure_of_the_webhook(waiting: Delivery) -> None:
    [attempt] = claim_all(NOON)
    record(attempt, BAD, NOON)
    webhook = Webhook.objects.get()
    assert webhook.failing_since == NOON
    later = NOON + timedelta(minutes=1)
    [attempt] = claim_all(later)
    record(attempt, GOOD, later)
    webhook.refresh_from_db()
    waiting.refresh_from_db()
    assert webhook.failing_since is None
    assert waiting.state == "delivered"
    assert [made["status"] for made in waiting.attempts] == [500, 204]


def test_record__receiver_that_never_accepts__is_given_up_after_three_days(waiting: Delivery) -> None:
    moments = []
    while waiting.state == "waiting":
        [attempt] = claim_all(waiting.due_at)
        moments.append(waiting.due_at)
        record(attempt, BAD, waiting.due_at)
        waiting.refresh_from_db()
    assert waiting.state == "failed"
    pauses = [later - earlier for earlier, later in pairwise(moments)]
    assert pauses == sorted(pauses, key=lambda pause: round(pause.total_seconds()))
    assert timedelta(seconds=5) <= pauses[0] <= timedelta(seconds=6)
    assert timedelta(hours=6) <= pauses[-1] <= timedelta(hours=7.2)
    assert KEEP_TRYING - timedelta(hours=7.2) <= moments[-1] - NOON <= KEEP_TRYING
    assert len(moments) == waiting.tries == len(waiting.attempts)
    assert claim_all(NOON + 2 * KEEP_TRYING) == []


def test_record__gone__fails_at_once_and_pauses_the_webhook(waiting: Delivery) -> None:
    [attempt] = claim_all(NOON)
    record(attempt, GONE, NOON)
    waiting.refresh_from_db()
    assert waiting.state == "failed"
    assert Webhook.objects.get().paused_at is not None
    change = Change.objects.of("webhook", waiting.webhook_id)[0]
    assert (change.actor, "410 Gone" in change.reason) == ("delivery of webhooks", True)


def test_claim__paused_webhook__waits(waiting: Delivery) -> None:
    changes.pause_webhook(waiting.webhook, **WRITER)
    assert claim_all(NOON) == []


def test_claim__several_webhooks__each_get_their_share() -> None:
    slow, other = make(name="slow"), make(name="other", kinds=["flag"])
    for at in range(6):
        FlagFactory(key=f"flag-{at}")
    queue()
    claimed = claim(NOON, 100, {slow.pk: 2}, 4)
    number = {webhook.pk: sum(attempt.delivery.webhook_id == webhook.pk for attempt in claimed)
              for webhook in (slow, other)}  # fmt: skip
    assert number == {slow.pk: 2, other.pk: 4}
    assert claim(NOON, 100, {slow.pk: 4, other.pk: 4}, 4) == []
    assert claim(NOON, 0, {}, 4) == []


def test_claim__webhook_that_fails__gets_one_attempt_at_a_time() -> None:
    webhook = make()
    for at in range(3):
        FlagFactory(key=f"flag-{at}")
    queue()
    Webhook.objects.update(failing_since=NOON)
    assert len(claim(NOON, 100, {}, 4)) == 1
    assert claim(NOON, 100, {webhook.pk: 1}, 4) == []


def test_claim__after_a_rotation__signs_with_both_secrets_for_a_day(waiting: Delivery) -> None:
    changes.rotate_secret(waiting.webhook, **WRITER)
    [attempt] = claim_all(NOON)
    assert len(attempt.headers["webhook-signature"].split(" ")) == 2
    [attempt] = claim_all(NOON + timedelta(days=1))
    assert len(attempt.headers["webhook-signature"].split(" ")) == 1


def test_send_again__delivered_message__has_the_same_id_and_three_more_days(waiting: Delivery) -> None:
    [attempt] = claim_all(NOON)
    record(attempt, GOOD, NOON)
    later = NOON + timedelta(days=10)
    outbox.send_again(waiting, later)
    [again] = claim_all(later)
    assert again.headers["webhook-id"] == attempt.headers["webhook-id"]
    waiting.refresh_from_db()
    assert (waiting.tries, waiting.give_up_at) == (0, later + KEEP_TRYING)


def test_test__message__is_sent_beside_those_about_writes(waiting: Delivery) -> None:
    outbox.queue_test(waiting.webhook, NOON)
    outbox.queue_test(waiting.webhook, NOON)
    assert len(claim_all(NOON)) == 3


def test_delay__after_each_attempt__is_thrice_as_long_up_to_six_hours() -> None:
    for tries, least in [(1, 5), (2, 15), (3, 45), (8, 10_935), (9, 21_600), (1_000, 21_600)]:
        seconds = delay(tries, UUID(int=0)).total_seconds(), delay(tries, UUID(int=999)).total_seconds()
        assert seconds[0] == least, (tries, least)
        assert least * 1.1 < seconds[1] < least * 1.2, (tries, least)


# --- the log ----------------------------------------------------------------------------------------------------------


def test_clean__old_deliveries__go_and_those_that_wait_stay(waiting: Delivery) -> None:
    old = outbox.queue_test(waiting.webhook, NOON)
    Delivery.objects.filter(pk=old.pk).update(state="delivered")
    assert clean(NOON + timedelta(days=30)).startswith("0 old deliveries")
    assert clean(NOON + timedelta(days=31)).startswith("1 old deliveries")
    assert Delivery.objects.get() == waiting


def test_clean__more_than_are_kept_of_a_webhook__go_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "MAX_KEPT", 2)
    webhook = make()
    ids = [outbox.queue_test(webhook, NOON).pk for _ in range(5)]
    Delivery.objects.update(state="delivered")
    assert clean(NOON).startswith("3 old deliveries")
    assert {delivery.pk for delivery in Delivery.objects.all()} == set(ids[3:])


def test_clean__message_of_a_webhook_that_is_paused_for_long__is_given_up(waiting: Delivery) -> None:
    changes.pause_webhook(waiting.webhook, actor=ACTOR, now=NOON)
    assert clean(NOON + KEEP_TRYING).endswith("0 given up")
    assert clean(NOON + KEEP_TRYING + timedelta(seconds=1)).endswith("1 given up")
    waiting.refresh_from_db()
    assert waiting.state == "failed"
