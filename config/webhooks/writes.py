"""All writes of webhooks by people, each with its entry in the change log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from config.change_log.writing import Actor, Writing, changing, writing
from config.documents import Document
from config.errors import Detail, DetailCode, ValidationFailed
from config.models import KINDS, Environment, Webhook, WebhookFormat
from config.slugs import check_name
from config.timestamps import format_timestamp
from config.webhooks.addresses import check_url
from config.webhooks.sending import new_secret

KIND = "webhook"
VALUES = ("name", "url", "format", "environments", "kinds", "tags")
"""What people choose: the arguments of `create_webhook`, and the `changes` of `update_webhook`."""
OVERLAP = timedelta(hours=24)
"""How long messages are also signed with the previous secret."""
_MAX_TAGS, _TAG_LENGTH = 20, 50


def create_webhook(
    *,
    name: str,
    url: str,
    format: str = WebhookFormat.PLAIN,
    environments: Sequence[str] = (),
    kinds: Sequence[str] = (),
    tags: Sequence[str] = (),
    actor: Actor,
    now: datetime,
    reason: str = "",
) -> tuple[Webhook, str]:
    """Create a webhook for changes from now on, and return it with its secret. Raises ValidationFailed."""
    filters = {"environments": [*environments], "kinds": [*kinds], "tags": [*tags]}
    values = {"name": name, "url": url, "format": format, **filters}
    _check(values)
    with writing(actor=actor, now=now, reason=reason) as log:
        revision = log.next_revision()
        webhook = Webhook(**values, secret=new_secret(), revision=revision, version=revision, created_at=log.at)
        webhook.save(force_insert=True)
        log.append(KIND, object_id=webhook.pk, key=name, before=None, after=webhook_as_json(webhook))
    return webhook, webhook.secret


def update_webhook(
    webhook: Webhook,
    *,
    changes: Mapping[str, Any],
    actor: Actor,
    now: datetime,
    if_match: str | None = None,
    reason: str = "",
) -> Webhook:
    """Change values of a webhook. Waiting messages keep their text, and go to the new URL.

    Raises ValidationFailed, or DomainError `precondition_failed`.
    """
    with changing(partial(_current, webhook), if_match, actor=actor, now=now, reason=reason) as (log, webhook):
        _check({name: changes.get(name, getattr(webhook, name)) for name in VALUES})
        return _save(log, webhook, {name: changes[name] for name in VALUES if name in changes})


def pause_webhook(webhook: Webhook, *, actor: Actor, now: datetime, reason: str = "") -> Webhook:
    """Send nothing until `resume_webhook`. A webhook that is paused already does not change."""
    with writing(actor=actor, now=now, reason=reason) as log:
        webhook = _current(webhook)
        return webhook if webhook.paused_at else _save(log, webhook, {"paused_at": log.at})


def resume_webhook(webhook: Webhook, *, actor: Actor, now: datetime, reason: str = "") -> Webhook:
    """Send messages again, also about changes that were made meanwhile, unless they are too old."""
    with writing(actor=actor, now=now, reason=reason) as log:
        webhook = _current(webhook)
        return _save(log, webhook, {"paused_at": None, "failing_since": None}) if webhook.paused_at else webhook


def rotate_secret(webhook: Webhook, *, actor: Actor, now: datetime, reason: str = "") -> tuple[Webhook, str]:
    """Replace the secret, and return the webhook with it. The old one also signs for a day, so receivers can switch."""
    with writing(actor=actor, now=now, reason=reason) as log:
        webhook = _current(webhook)
        values = {"previous_secret": webhook.secret, "previous_until": log.at + OVERLAP, "secret": new_secret()}
        webhook = _save(log, webhook, values)
    return webhook, webhook.secret


def delete_webhook(webhook: Webhook, *, actor: Actor, now: datetime, reason: str = "") -> None:
    """Delete a webhook with all of its deliveries."""
    with writing(actor=actor, now=now, reason=reason) as log:
        webhook = _current(webhook)
        before, webhook_id = webhook_as_json(webhook), webhook.pk
        # This locks the row before its deliveries are read, so that none is added meanwhile.
        Webhook.objects.filter(pk=webhook.pk).update(paused_at=log.at)
        webhook.delete()
        log.append(KIND, object_id=webhook_id, key=webhook.name, before=before, after=None)


def webhook_as_json(webhook: Webhook) -> Document:
    """Return the webhook as the change log has it: without secrets. The URL of a chat is a secret, too."""
    return {
        "id": str(webhook.pk),
        "name": webhook.name,
        "url": describe_url(webhook.url),
        "format": str(webhook.format),
        "environments": webhook.environments,
        "kinds": webhook.kinds,
        "tags": webhook.tags,
        "secret": fingerprint(webhook.secret),
        "pausedAt": format_timestamp(webhook.paused_at) if webhook.paused_at else None,
    }


def describe_url(url: str) -> str:
    """Return a URL without its path, with a fingerprint that differs between URLs."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/… ({fingerprint(url)})"


def fingerprint(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:8]


def _current(webhook: Webhook) -> Webhook:
    return Webhook.objects.get(pk=webhook.pk)


def _save(log: Writing, webhook: Webhook, values: Mapping[str, Any]) -> Webhook:
    before = webhook_as_json(webhook)
    for name, value in values.items():
        setattr(webhook, name, value)
    after = webhook_as_json(webhook)
    if after != before:
        webhook.version = log.next_revision()
        webhook.save(update_fields=[*values, "version"])
        log.append(KIND, object_id=webhook.pk, key=webhook.name, before=before, after=after)
    return webhook


def _check(values: Mapping[str, Any]) -> None:
    details = [*check_name(values["name"], "say what the webhook is for"), *check_url(values["url"])]
    known = {
        "format": ([values["format"]], WebhookFormat.values),
        "environments": (values["environments"], list(Environment.objects.values_list("key", flat=True))),
        "kinds": (values["kinds"], KINDS),
    }
    for field, (sent, choices) in known.items():
        if unknown := [value for value in sent if value not in choices]:
            message = f"{unknown[0]!r} is unknown; use {', '.join(choices)}."
            details.append(Detail(field, DetailCode.UNKNOWN_REFERENCE, message))
    if len(values["tags"]) > _MAX_TAGS or any(len(tag) > _TAG_LENGTH for tag in values["tags"]):
        message = f"Must be at most {_MAX_TAGS} tags of at most {_TAG_LENGTH} characters."
        details.append(Detail("tags", DetailCode.TOO_LONG, message))
    if details:
        raise ValidationFailed(details)
