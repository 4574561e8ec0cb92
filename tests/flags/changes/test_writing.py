"""Writes of flags: changes, refusals, and entries of the change log."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from config.access.environments import create_environment
from config.errors import DomainError, ValidationFailed
from config.models import Change, Environment
from flags.changes.flag_changes import (
    create_flag,
    delete_flag,
    get_flag,
    update_flag,
)
from flags.models import Flag, FlagState
from tests.answers import data
from tests.conftest import ACTOR, NOON
from tests.flags.changes.writing import HALF, WRITE, revision
from tests.flags.ofrep import calls as ofrep

pytestmark = pytest.mark.django_db


def test_create__other_environments__are_off_with_the_same_rules(flag: Flag, staging: Environment) -> None:
    there = get_flag("a", staging)

    assert (flag.enabled, flag.rules) == (True, HALF)
    assert (there.enabled, there.rules) == (False, HALF)


def test_create__change__holds_the_whole_flag(flag: Flag) -> None:
    change = Change.objects.latest("revision")

    assert change.before is None
    assert change.after == {
        "id": str(flag.pk),
        "key": "a",
        "description": "A",
        "states": {
            "production": {"enabled": True, "rules": HALF},
            "staging": {"enabled": False, "rules": HALF},
        },
    }
    assert flag.version == change.revision


def test_create__unacceptable__names_every_field_and_writes_nothing(production: Environment) -> None:
    for values, fields in [
        ({"key": "not a key"}, ["key"]),
        ({"key": "b", "rules": [{"type": "percentage"}]}, ["rules[0].percentage"]),
        ({"key": "b", "rules": {}}, ["rules"]),
        ({"key": "b", "rules": None}, ["rules"]),
        ({"key": "", "description": "d" * 2001, "rules": 1}, ["key", "description", "rules"]),
    ]:
        before = revision()
        with pytest.raises(ValidationFailed) as refused:
            create_flag(**values, environment=production, **WRITE)

        assert [detail.field for detail in refused.value.details] == fields
        assert revision() == before
        assert not Flag.objects.exists()


def test_create__key_that_exists__is_refused(flag: Flag, staging: Environment) -> None:
    with pytest.raises(DomainError) as refused:
        create_flag(key="a", environment=staging, **WRITE)

    assert refused.value.code == "already_exists"


def test_update__state__changes_this_environment_alone(
    flag: Flag, production: Environment, staging: Environment
) -> None:
    later = NOON + timedelta(days=400)
    updated = update_flag(key="a", environment=staging, changes={"enabled": True}, actor=ACTOR, now=later)

    assert (updated.enabled, updated.rules, updated.updated_at) == (True, HALF, later)
    read = get_flag("a", production)
    assert (read.updated_at, read.version) == (flag.updated_at, flag.version)
    assert Change.objects.latest("revision").environment == "staging"


def test_update__description__is_common_to_all(flag: Flag, staging: Environment) -> None:
    update_flag(key="a", environment=staging, changes={"description": "B", "rules": []}, **WRITE)

    assert get_flag("a", staging).description == "B"
    change = Change.objects.latest("revision")
    assert (change.environment, change.after["states"]["staging"]["rules"]) == ("", [])


def test_update__nothing_new__writes_nothing(flag: Flag, production: Environment) -> None:
    for changes in [{}, {"enabled": True}, {"rules": HALF, "description": "A"}]:
        before = revision()
        updated = update_flag(key="a", environment=production, changes=changes, **WRITE)

        assert revision() == before
        assert updated.version == flag.version


def test_update__number_becomes_boolean__is_a_change(production: Environment) -> None:
    def rules(value: object) -> list[dict[str, Any]]:
        return [{"type": "attribute", "conditions": [{"attribute": "x", "operator": "equals", "value": value}]}]

    create_flag(key="b", environment=production, rules=rules(1), **WRITE)
    updated = update_flag(key="b", environment=production, changes={"rules": rules(True)}, **WRITE)

    assert updated.rules[0]["conditions"][0]["value"] is True


def test_update__fraction_becomes_whole_number__is_a_change_that_clients_see(api: Any, production: Environment) -> None:
    def values(*numbers: float) -> dict[str, Any]:
        return {"variants": [{"key": f"v{at}", "value": value} for at, value in enumerate(numbers)]}

    data(api.post("/v1/flags", {"key": "n", "enabled": True, "type": "number", **values(3.0, 5)}), 201)
    assert b'"value":3.0,' in ofrep.one(api, "n").content
    for _ in range(2):
        data(api.patch("/v1/flags/n", values(3, 5)))
        assert b'"value":3,' in ofrep.one(api, "n").content
    changed, created = data(api.get("/v1/flags/n/history"))
    assert [change["field"] for change in changed["changes"]] == ["variants[0].value"]
    assert created["action"] == "created"


def test_update__stale_version__is_refused_and_changes_nothing(flag: Flag, production: Environment) -> None:
    update_flag(key="a", environment=production, changes={"enabled": False}, if_match=flag.etag, **WRITE)
    with pytest.raises(DomainError) as refused:
        update_flag(key="a", environment=production, changes={"rules": []}, if_match=flag.etag, **WRITE)

    assert refused.value.code == "precondition_failed"
    assert get_flag("a", production).rules == HALF


def test_update__other_environment_changed__does_not_make_the_version_stale(
    flag: Flag, production: Environment, staging: Environment
) -> None:
    update_flag(key="a", environment=staging, changes={"enabled": True}, **WRITE)
    updated = update_flag(key="a", environment=production, changes={"enabled": False}, if_match=flag.etag, **WRITE)

    assert not updated.enabled


def test_update__environment_younger_than_the_flag__starts_off_without_rules(flag: Flag) -> None:
    young = create_environment(key="qa", name="QA", **WRITE)
    assert (get_flag("a", young).enabled, get_flag("a", young).rules) == (False, [])

    updated = update_flag(key="a", environment=young, changes={"enabled": True}, **WRITE)
    assert (updated.enabled, updated.rules) == (True, [])


def test_delete__on_in_another_environment__is_refused_by_its_name(flag: Flag, staging: Environment) -> None:
    with pytest.raises(DomainError) as refused:
        delete_flag(key="a", environment=staging, **WRITE)

    assert refused.value.code == "enabled_elsewhere"
    assert "production" in refused.value.message
    assert Flag.objects.exists()


def test_delete__flag__goes_whole_and_its_history_stays(flag: Flag, production: Environment) -> None:
    delete_flag(key="a", environment=production, **WRITE)

    assert not Flag.objects.exists()
    assert not FlagState.objects.exists()
    assert [change.action for change in Change.objects.of("flag", flag.pk)] == ["deleted", "created"]


def test_get__unknown_or_impossible_key__is_not_found(production: Environment) -> None:
    for key in ["nothing", "", "\0", "a/b", "a" * 300]:
        with pytest.raises(DomainError) as refused:
            get_flag(key, production)

        assert refused.value.code == "flag_not_found"
