"""What messages say, to programs and in chats."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from config.change_log.writing import Actor
from config.models import Change, Source, WebhookFormat
from config.webhooks.messages import MAX_CHANGES, Message, render, render_test
from flags.changes.flag_changes import update_flag
from tests.conftest import NOON
from tests.factories import FlagFactory

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("log_of_the_past")]


@pytest.fixture
def message(production: Any) -> Message:
    """Ada has switched a flag on."""
    FlagFactory(key="shop")
    ada = Actor("user ada", Source.ADMIN)
    update_flag(key="shop", environment=production, changes={"enabled": True}, actor=ada, now=NOON, reason="<b> & *go*")
    return message_of(Change.objects.first())


def message_of(*changes: Any) -> Message:
    message = Message()
    for change in changes:
        message.add(change)
    return message


def test_plain__change__has_the_difference_the_actor_and_the_reason(message: Message) -> None:
    body = json.loads(render(message, WebhookFormat.PLAIN))
    change = message.first
    assert body == {
        "type": "configuration.changed",
        "timestamp": "2026-01-31T12:00:00.000000Z",
        "data": {
            "revision": change.revision,
            "actor": "user ada",
            "source": "admin",
            "reason": "<b> & *go*",
            "changes": [
                {
                    "revision": change.revision,
                    "action": "changed",
                    "object": {"kind": "flag", "id": change.object_id, "key": "shop"},
                    "environment": "production",
                    "differences": ["Switched on in production"],
                }
            ],
            "moreChanges": 0,
        },
    }


def test_slack__change__is_text_whose_marks_are_escaped(message: Message) -> None:
    assert json.loads(render(message, WebhookFormat.SLACK)) == {
        "text": "user ada changed flag shop in production\n• Switched on in production\nReason: &lt;b&gt; &amp; *go*",
        "mrkdwn": False,
    }


def test_teams__change__is_a_card_with_a_run_of_text_for_each_line(message: Message) -> None:
    [attachment] = json.loads(render(message, WebhookFormat.TEAMS))["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    assert [block["inlines"][0]["text"] for block in attachment["content"]["body"]] == [
        "user ada changed flag shop in production",
        "• Switched on in production",
        "Reason: <b> & *go*",
    ]


@pytest.mark.parametrize("form", WebhookFormat)
def test_render__write_of_very_many_changes__is_short_and_says_how_many(message: Message, form: WebhookFormat) -> None:
    many = message_of(*[message.first] * (MAX_CHANGES + 1_000))
    body = render(many, form)
    assert len(body) < 25_000
    assert many.summary == "flag shop changed and 1,049 more"
    left_out = 1_000 if form is WebhookFormat.PLAIN else 1_040
    assert str(left_out) in body.replace(",", "")


def test_teams__long_differences__leave_a_card_that_teams_posts_with_its_reason(message: Message) -> None:
    described = replace(message.changes[0], lines=["é" * 300] * 9)
    body = render(Message([described] * 11), WebhookFormat.TEAMS)
    [attachment] = json.loads(body)["attachments"]
    lines = [block["inlines"][0]["text"] for block in attachment["content"]["body"]]
    assert 10_000 < len(body.encode()) < 13_000
    left_out = 10 * 10 - (len(lines) - 3)  # each change has a line, eight differences and how many more there are
    assert lines[-3:] == [f"and {left_out} more lines", "and 1 more changes", "Reason: <b> & *go*"]


@pytest.mark.parametrize("form", WebhookFormat)
def test_render__test__says_that_nothing_was_changed(form: WebhookFormat) -> None:
    body = render_test(form, "chat", NOON)
    assert "This is a test of the webhook chat. Nothing was changed." in body
    assert json.loads(body)
