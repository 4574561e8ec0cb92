"""The guide's page about webhooks: its code accepts what is sent, and its document is what is sent."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from config.change_log.writing import Actor
from config.models import Change, Source, WebhookFormat
from config.webhooks.messages import Message, render
from config.webhooks.sending import new_secret, sign
from flags.changes.flag_changes import update_flag
from tests.factories import FlagFactory
from tests.guide.markdown import read_page

SECRET = new_secret()
BODY = '{"type":"test","text":"ä"}'.encode()


@pytest.fixture(scope="module")
def verify() -> Callable[..., None]:
    [code] = re.findall(r"```python\n(.*?)```", read_page("webhooks.md"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    return names["verify"]  # type: ignore[no-any-return]


def test_example__message_as_it_is_sent__is_accepted(verify: Callable[..., None]) -> None:
    verify(SECRET, sign("msg_1", timezone.now(), BODY, [SECRET]), BODY)
    verify(SECRET, sign("msg_1", timezone.now(), BODY, [new_secret(), SECRET]), BODY)


@pytest.mark.parametrize(
    ("keys", "body", "age", "words"),
    [
        ([new_secret()], BODY, timedelta(), "signature"),
        ([SECRET], BODY + b" ", timedelta(), "signature"),
        ([SECRET], BODY, timedelta(minutes=6), "too old"),
    ],
)
def test_example__message_of_somebody_else__is_refused(
    verify: Callable[..., None], keys: list[str], body: bytes, age: timedelta, words: str
) -> None:
    headers = sign("msg_1", timezone.now() - age, BODY, keys)
    with pytest.raises(ValueError, match=words):
        verify(SECRET, headers, body)


@pytest.mark.django_db
def test_document__of_the_guide__has_the_properties_of_a_message(production: Any) -> None:
    [text] = re.findall(r"```json\n(.*?)```", read_page("webhooks.md"), re.DOTALL)
    shown = json.loads(text)
    FlagFactory(key="new-checkout")
    update_flag(
        key="new-checkout",
        environment=production,
        changes={"enabled": True},
        actor=Actor("user ada", Source.ADMIN),
        now=timezone.now(),
        reason=shown["data"]["reason"],
    )
    change = Change.objects.latest("revision")
    message = Message()
    message.add(change)
    sent = json.loads(render(message, WebhookFormat.PLAIN))
    sent["timestamp"] = shown["timestamp"]
    for part in (sent["data"], sent["data"]["changes"][0]):
        part["revision"] = 12
    sent["data"]["changes"][0]["object"]["id"] = shown["data"]["changes"][0]["object"]["id"]
    assert sent == shown
