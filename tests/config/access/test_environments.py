"""Environments: creating and changing them."""

from __future__ import annotations

import pytest
from django.db import IntegrityError

from config.access.environments import create_environment, update_environment
from config.change_log.writing import Actor
from config.errors import DomainError, ValidationFailed
from config.models import Change, Environment, ReasonSetting
from tests.conftest import ACTOR, NOON

pytestmark = pytest.mark.django_db

WRITE = {"actor": ACTOR, "now": NOON}


def test_create__new_key__is_not_the_default_and_is_logged() -> None:
    environment = create_environment(key="qa", name="Quality", **WRITE)

    change = Change.objects.latest("revision")
    assert not environment.is_default
    assert (change.kind, change.key, change.action) == ("environment", "qa", "created")
    assert change.after == {
        "key": "qa",
        "name": "Quality",
        "isDefault": False,
        "protected": False,
        "changeReason": "optional",
    }


def test_create__unacceptable__names_the_field(subtests: pytest.Subtests) -> None:
    for values, field in [
        ({"key": "no spaces", "name": "x"}, "key"),
        ({"key": "", "name": "x"}, "key"),
        ({"key": "k" * 101, "name": "x"}, "key"),
        ({"key": "qa", "name": " "}, "name"),
        ({"key": "qa", "name": "n" * 201}, "name"),
    ]:
        with subtests.test(values=values, field=field):
            with pytest.raises(ValidationFailed) as refused:
                create_environment(**values, **WRITE)

            assert [detail.field for detail in refused.value.details] == [field]
            assert Environment.objects.count() == 2


def test_create__key_that_exists__is_refused() -> None:
    with pytest.raises(DomainError) as refused:
        create_environment(key="staging", name="Again", **WRITE)

    assert refused.value.code == "already_exists"


def test_update__new_default__takes_the_place_of_the_old_one(staging: Environment) -> None:
    before = Change.objects.latest_revision()
    update_environment(staging, name="Staging", is_default=True, **WRITE)

    assert Environment.objects.default() == staging
    changes = Change.objects.since(before)
    assert [(change.key, change.after["isDefault"]) for change in changes if change.after] == [
        ("production", False),
        ("staging", True),
    ]


def test_create__key_that_names_production__is_protected() -> None:
    for key, expected in [
        ("eu-prod", True),
        ("Production2", True),
        ("live", True),
        ("qa", False),
        ("products", False),
        ("olive", False),
    ]:
        assert create_environment(key=key, name="New", **WRITE).protected is expected, key
        assert (
            create_environment(key=f"{key}-2", name="New", protected=not expected, **WRITE).protected is not expected
        ), key


def test_first_environments__of_a_new_database__protect_production_alone(
    production: Environment, staging: Environment
) -> None:
    assert [(each.protected, each.change_reason) for each in (production, staging)] == [
        (True, "optional"),
        (False, "optional"),
    ]


def test_update__protection_and_reason__are_one_change(staging: Environment) -> None:
    before = Change.objects.latest_revision()
    changed = update_environment(staging, protected=True, change_reason=ReasonSetting.REQUIRED, **WRITE)
    change = Change.objects.since(before).get()
    assert change.after is not None
    assert (change.after["protected"], change.after["changeReason"]) == (True, "required")
    assert (changed.name, changed.is_default) == ("Staging", False)


def test_database__unknown_reason_setting__is_impossible(staging: Environment) -> None:
    staging.change_reason = "sometimes"
    with pytest.raises(IntegrityError):
        staging.save(update_fields=["change_reason"])


def test_update__default_without_a_successor__is_refused(production: Environment) -> None:
    with pytest.raises(ValidationFailed):
        update_environment(production, name="Production", is_default=False, **WRITE)

    assert Environment.objects.default() == production


def test_update__other_properties_changed_since_they_were_read__stay(staging: Environment) -> None:
    read_before = Environment.objects.get(pk=staging.pk)
    update_environment(staging, name="Stage", is_default=True, **WRITE)

    assert update_environment(read_before, name="Third", **WRITE).is_default
    assert update_environment(read_before, is_default=True, **WRITE).name == "Third"


def test_update__nothing_new__writes_nothing(production: Environment) -> None:
    before = Change.objects.latest_revision()
    update_environment(production, name="Production", is_default=True, actor=Actor("x", ACTOR.source), now=NOON)

    assert Change.objects.latest_revision() == before


def test_database__two_defaults__are_impossible(staging: Environment) -> None:
    staging.is_default = True
    with pytest.raises(IntegrityError):
        staging.save(update_fields=["is_default"])
