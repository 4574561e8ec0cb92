"""Writes of webhooks: what they check, and what the change log has of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from config.errors import DomainError, ErrorCode, ValidationFailed
from config.models import Change, Webhook
from config.webhooks import writes as changes
from config.webhooks.outbox import queue_test
from tests.conftest import ACTOR, NOON

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("log_of_the_past")]
URL = "https://hooks.example.com/services/very-secret"
WRITER: dict[str, Any] = {"actor": ACTOR, "now": NOON}


def make(**values: Any) -> Webhook:
    webhook, _ = changes.create_webhook(**{"name": "chat", "url": URL, **WRITER, **values})
    return webhook


def test_create__webhook__is_in_the_log_without_its_secrets() -> None:
    webhook, secret = changes.create_webhook(name="chat", url=URL, tags=["shop"], **WRITER)
    change = Change.objects.get(kind="webhook")
    assert (change.key, change.before) == ("chat", None)
    assert change.after is not None
    assert change.after["url"].startswith("https://hooks.example.com/… (")
    assert change.after["tags"] == ["shop"]
    assert "very-secret" not in str(change.after)
    assert secret not in str(change.after)
    assert webhook.revision == change.revision  # it gets no message about itself


def test_create_and_update__invalid_value__is_refused_at_its_field(subtests: pytest.Subtests) -> None:
    for values, field in [
        ({"name": " "}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"url": "https://10.0.0.1"}, "url"),
        ({"format": "fax"}, "format"),
        ({"environments": ["nowhere"]}, "environments"),
        ({"kinds": ["nothing"]}, "kinds"),
        ({"tags": ["x"] * 21}, "tags"),
        ({"tags": ["x" * 51]}, "tags"),
    ]:
        with subtests.test(values=values, field=field):
            with pytest.raises(ValidationFailed) as creation:
                make(**values)
            assert [detail.field for detail in creation.value.details] == [field]
            webhook = make()
            with pytest.raises(ValidationFailed) as update:
                changes.update_webhook(webhook, changes=values, **WRITER)
            assert [detail.field for detail in update.value.details] == [field]


def test_update__another_path__is_a_change_that_hides_the_path() -> None:
    webhook = changes.update_webhook(make(), changes={"url": f"{URL}-2"}, **WRITER)
    change = Change.objects.of("webhook", webhook.pk)[0]
    assert change.before is not None
    assert change.after is not None
    assert change.before["url"] != change.after["url"]
    assert "secret-2" not in str(change.after)


def test_update__equal_values__changes_nothing() -> None:
    webhook = make()
    again = changes.update_webhook(webhook, changes={"url": URL, "name": "chat"}, **WRITER)
    assert again.version == webhook.version
    assert Change.objects.of("webhook", webhook.pk).count() == 1


def test_update__of_an_old_version__is_refused() -> None:
    webhook = make()
    changes.update_webhook(webhook, changes={"name": "other"}, **WRITER)
    with pytest.raises(DomainError) as refusal:
        changes.update_webhook(webhook, changes={"name": "third"}, if_match=webhook.etag, **WRITER)
    assert refusal.value.code is ErrorCode.PRECONDITION_FAILED


def test_pause_and_resume__twice__are_one_change_each() -> None:
    webhook = make()
    for act in (changes.pause_webhook, changes.pause_webhook, changes.resume_webhook, changes.resume_webhook):
        webhook = act(webhook, **WRITER)
    assert webhook.paused_at is None
    assert Change.objects.of("webhook", webhook.pk).count() == 3


def test_rotate_secret__once__keeps_the_old_one_for_a_day() -> None:
    webhook = make()
    old = webhook.secret
    rotated, secret = changes.rotate_secret(webhook, **WRITER)
    assert secret != old
    assert (rotated.secret, rotated.previous_secret) == (secret, old)
    assert rotated.previous_until == NOON + timedelta(days=1)
    assert secret not in str(Change.objects.of("webhook", webhook.pk)[0].after)


def test_delete__webhook_with_deliveries__removes_both_and_keeps_the_log() -> None:
    webhook = make()
    queue_test(webhook, NOON)
    changes.delete_webhook(webhook, **WRITER)
    assert not Webhook.objects.exists()
    assert Change.objects.of("webhook", webhook.pk)[0].action == "deleted"
