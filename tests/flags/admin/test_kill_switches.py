"""The admin pages of kill switches."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from config.models import Environment
from flags.changes.kill_switches import create_kill_switch, find_live, update_kill_switch
from flags.models import KillSwitch
from tests.admin import AdminClient, errors_of, filled, sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.factories import FlagFactory

pytestmark = pytest.mark.django_db
ADD, LIST = reverse("admin:flags_killswitch_add"), reverse("admin:flags_killswitch_changelist")
VIEW, CHANGE = "flags.view_killswitch", "flags.change_killswitch"


@pytest.fixture
def switch(staging: Environment) -> KillSwitch:
    FlagFactory(key="shop")
    FlagFactory(key="search")
    return create_kill_switch(name="errors", environment=staging, flags=["shop"], actor=ACTOR, now=NOON)[0]


@pytest.fixture
def ada() -> AdminClient:
    return sign_in()


def page_of(switch: KillSwitch, name: str = "change") -> str:
    return reverse(f"admin:flags_killswitch_{name}", args=[switch.pk])


def test_add__kill_switch__shows_its_token_and_address_this_once(ada: AdminClient, production: Environment) -> None:
    FlagFactory(key="shop")
    page = ada.post(ADD, filled(ada, ADD, name="errors", flags="shop\n"))
    switch = KillSwitch.objects.get()
    token = re.search(r'<code id="secret">(.*?)</code>', page.content.decode())[1]
    assert find_live(str(switch.pk), token) == switch
    assert f"http://testserver/v1/hooks/{switch.pk}" in page.content.decode()
    assert switch.environment == production
    for address in (LIST, page_of(switch), page_of(switch, "history")):
        assert token not in ada.get(address).content.decode()


def test_add__unknown_flag__is_refused_at_its_field(ada: AdminClient) -> None:
    page = ada.post(ADD, filled(ada, ADD, name="errors", flags="nowhere"))
    assert errors_of(page)["flags"] == ["There is no flag nowhere."]


def test_change__flags__keep_the_token(ada: AdminClient, switch: KillSwitch) -> None:
    page = page_of(switch)
    assert ada.post(page, filled(ada, page, flags="shop\nsearch")).status_code == 302
    changed = KillSwitch.objects.get()
    assert (changed.flags, changed.digest, changed.environment) == (
        ["shop", "search"],
        switch.digest,
        switch.environment,
    )


def test_change__by_two_people__shows_both_versions(ada: AdminClient, switch: KillSwitch) -> None:
    sent = filled(ada, page_of(switch), name="mine")
    update_kill_switch(switch, changes={"name": "theirs"}, actor=ACTOR, now=NOON)
    assert "theirs" in text_of(ada.post(page_of(switch), sent))
    assert KillSwitch.objects.get().name == "theirs"


def test_revoke__kill_switch__cannot_be_changed_any_more(ada: AdminClient, switch: KillSwitch) -> None:
    assert "Revoke errors?" in text_of(ada.get(page_of(switch, "revoke")))
    ada.post(page_of(switch, "revoke"), {"reason": "leaked"})
    assert KillSwitch.objects.get().revoked_at is not None
    page = ada.get(page_of(switch))
    assert page_of(switch, "revoke") not in page.content.decode()
    assert "revoked" in text_of(page)
    assert ada.post(page_of(switch), {"name": "x"}).status_code == 403


def test_rights__of_people_who_may_not_change_flags__do_not_suffice(switch: KillSwitch) -> None:
    client = sign_in(VIEW, "flags.add_killswitch", CHANGE)
    assert client.get(ADD).status_code == 403
    assert client.post(page_of(switch), {"name": "x"}).status_code == 403
    assert "errors" in text_of(client.get(LIST))
    assert sign_in(VIEW, username="eve").post(page_of(switch, "revoke")).status_code == 403
