"""Writes of kill switches."""

from __future__ import annotations

from typing import Any

import pytest

from config.access.api_keys import digest
from config.errors import DomainError, ErrorCode, ValidationFailed
from config.models import Change, Environment
from flags.changes import kill_switches
from flags.changes.flag_changes import delete_flag
from flags.models import KillSwitch
from tests.conftest import ACTOR, NOON
from tests.factories import FlagFactory

pytestmark = pytest.mark.django_db
WRITER: dict[str, Any] = {"actor": ACTOR, "now": NOON}


@pytest.fixture
def switch(production: Environment) -> KillSwitch:
    FlagFactory(key="shop")
    FlagFactory(key="search")
    return kill_switches.create_kill_switch(name="errors", environment=production, flags=["shop", "search"], **WRITER)[
        0
    ]


def test_create__kill_switch__stores_only_the_hash_of_its_token(production: Environment) -> None:
    FlagFactory(key="shop")
    switch, token = kill_switches.create_kill_switch(name="errors", environment=production, flags=["shop"], **WRITER)
    assert switch.digest == digest(token)
    [change] = Change.objects.of("kill_switch", switch.pk)
    assert (change.key, change.environment) == ("errors", "production")
    assert token not in str(change.after)
    assert switch.digest not in str(change.after)
    assert kill_switches.find_live(str(switch.pk), token) == switch
    assert kill_switches.find_live(str(switch.pk), token + "x") is None
    assert kill_switches.find_live("no id", token) is None


def test_create_and_update__invalid_value__is_refused_at_its_field(
    subtests: pytest.Subtests, switch: KillSwitch
) -> None:
    for values, field in [
        ({"name": ""}, "name"), ({"name": "x" * 201}, "name"), ({"flags": []}, "flags"),
        ({"flags": ["shop", "shop"]}, "flags"), ({"flags": ["unknown"]}, "flags"),
        ({"flags": ["shop"] * 101}, "flags"),
    ]:  # fmt: skip
        with subtests.test(values=values, field=field):
            new = {"name": "new", "environment": switch.environment, "flags": ["shop"], **WRITER, **values}
            with pytest.raises(ValidationFailed) as creation:
                kill_switches.create_kill_switch(**new)
            with pytest.raises(ValidationFailed) as update:
                kill_switches.update_kill_switch(switch, changes=values, **WRITER)
            assert {detail.field for refusal in (creation, update) for detail in refusal.value.details} == {field}


def test_update__of_a_flag_that_is_deleted_by_now__is_accepted(switch: KillSwitch, production: Environment) -> None:
    delete_flag(key="search", environment=production, **WRITER)
    updated = kill_switches.update_kill_switch(switch, changes={"name": "new"}, **WRITER)
    assert (updated.name, updated.flags) == ("new", ["shop", "search"])


def test_update__of_an_old_version__is_refused(switch: KillSwitch) -> None:
    kill_switches.update_kill_switch(switch, changes={"name": "new"}, **WRITER)
    with pytest.raises(DomainError) as refusal:
        kill_switches.update_kill_switch(switch, changes={"name": "newer"}, if_match=switch.etag, **WRITER)
    assert refusal.value.code is ErrorCode.PRECONDITION_FAILED


def test_revoke__twice__is_one_change(switch: KillSwitch) -> None:
    revoked = kill_switches.revoke_kill_switch(switch, **WRITER)
    assert kill_switches.revoke_kill_switch(switch, **WRITER).revoked_at == revoked.revoked_at is not None
    assert Change.objects.of("kill_switch", switch.pk).count() == 2
