"""Changes of the admin that have no undo: their message and their page say why, and what to do instead."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.urls import reverse

from config.models import Environment, Webhook
from config.webhooks.writes import create_webhook
from flags.changes.kill_switches import create_kill_switch
from flags.models import KillSwitch
from tests.admin import filled, messages_of, revision, sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.factories import FlagFactory


@pytest.fixture
def objects(production: Environment) -> dict[str, Webhook | KillSwitch | User | Group]:
    FlagFactory(key="f")
    webhook, _ = create_webhook(name="Chat", url="https://chat.example/hook", actor=ACTOR, now=NOON)
    switch, _ = create_kill_switch(name="Alert", environment=production, flags=["f"], actor=ACTOR, now=NOON)
    return {
        "config_webhook": webhook,
        "flags_killswitch": switch,
        "auth_user": User.objects.create_user("eve"),
        "auth_group": Group.objects.create(name="Readers"),
    }


@pytest.mark.parametrize(
    ("page", "edits", "why"),
    [
        ("config_webhook", {"name": "Talk"}, "A webhook has no undo, because messages may have left by now; set it"),
        ("flags_killswitch", {"name": "Alarm"}, "A kill switch has no undo, because an alert may use it; set it back"),
        ("auth_user", {"username": "ewa"}, "An account has no undo, because it says who may do what; set it"),
        ("auth_group", {"name": "Writers"}, "A group has no undo, because it says who may do what; set it back"),
    ],
)
def test_change__of_what_has_no_undo__says_why(
    objects: dict[str, Any], page: str, edits: dict[str, str], why: str
) -> None:
    client, where = sign_in(), reverse(f"admin:{page}_change", args=[objects[page].pk])
    done = client.post(where, filled(client, where, **edits))
    assert done.status_code == 302
    [message] = messages_of(done)
    assert f"was changed successfully. {why}" in message
    made = revision()
    shown = client.get(done.url).content.decode()
    assert f"/admin/config/change/{made}/change/" in shown
    assert "/undo/" not in shown
    assert why in text_of(client.get(reverse("admin:config_change_change", args=[made])))
    assert why in messages_of(client.post(reverse("admin:config_change_undo", args=[made])))[-1]
    assert revision() == made
