"""Writes of the properties that all environments share."""

from __future__ import annotations

from typing import Any

import pytest

from config.errors import DomainError, ValidationFailed
from config.models import Change, Environment
from flags.changes.flag_changes import (
    create_flag,
    flag_as_json,
    get_flag,
    update_flag,
)
from flags.models import Flag
from tests.flags.changes.writing import COLOURS, EVERYTHING, NOTHING, WRITE, properties, revision, share

pytestmark = pytest.mark.django_db


def test_create__every_property__is_kept_for_all_environments(rich: Flag, staging: Environment) -> None:
    assert properties(rich) == EVERYTHING
    assert properties(get_flag("rich", staging)) == EVERYTHING


def test_create__every_property__stands_in_the_change_under_its_name_in_json(rich: Flag) -> None:
    assert Change.objects.latest("revision").after == {
        "id": str(rich.pk),
        "key": "rich",
        "description": "",
        "type": "string",
        "variants": COLOURS,
        "offVariant": "red",
        "defaultVariant": "green",
        "schema": {"type": "string", "maxLength": 4},
        "prerequisites": [{"flag": "base"}],
        "tags": ["shop", "Ärger"],
        "owner": "team-checkout",
        "expiresAt": "2026-03-02T12:00:00.000000Z",
        "clientVisible": False,
        "states": {name: {"enabled": False, "rules": []} for name in ("production", "staging")},
    }


def test_create__served_variants_not_named__are_the_first_and_the_last(production: Environment) -> None:
    flag = create_flag(key="a", environment=production, type="string", variants=COLOURS, **WRITE)

    assert (flag.default_variant, flag.off_variant) == ("blue", "red")


def test_create__none_for_every_property__is_a_plain_flag(production: Environment) -> None:
    flag = create_flag(key="a", environment=production, **dict.fromkeys(EVERYTHING), **WRITE)

    assert properties(flag) == NOTHING


def test_write__unacceptable_property__names_it_and_changes_nothing(flag: Flag, production: Environment) -> None:
    for values, field, code in [
        ({"type": "text"}, "type", "invalid_value"),
        ({"type": "string"}, "variants", "required"),
        ({"variants": COLOURS}, "type", "required"),
        ({"variants": {}}, "variants", "invalid_type"),
        ({"type": "number", "variants": COLOURS[:1]}, "variants[0].value", "invalid_type"),
        ({"type": "string", "variants": COLOURS, "off_variant": "pink"}, "offVariant", "unknown_reference"),
        ({"off_variant": "blue"}, "offVariant", "invalid_value"),
        ({"type": "string", "variants": COLOURS, "schema": {"maxLength": 1}}, "variants[0].value", "invalid_value"),
        ({"rules": share("blue")}, "rules[0].variant", "unknown_reference"),
        ({"prerequisites": [{"flag": 1}]}, "prerequisites[0].flag", "invalid_type"),
        ({"prerequisites": {}}, "prerequisites", "invalid_type"),
        ({"tags": "shop"}, "tags", "invalid_type"),
        ({"tags": [""]}, "tags[0]", "invalid_value"),
        ({"tags": ["a", 1]}, "tags[1]", "invalid_type"),
        ({"tags": ["a", "b", "a"]}, "tags[2]", "duplicate"),
        ({"tags": ["t" * 51]}, "tags[0]", "too_long"),
        ({"tags": [str(at) for at in range(51)]}, "tags", "out_of_range"),
        ({"owner": "o" * 201}, "owner", "too_long"),
    ]:
        before = revision()
        with pytest.raises(ValidationFailed) as created:
            create_flag(key="b", environment=production, **values, **WRITE)
        with pytest.raises(ValidationFailed) as updated:
            update_flag(key="a", environment=production, changes=values, **WRITE)

        for refused in (created, updated):
            assert (refused.value.details[0].field, refused.value.details[0].code) == (field, code)
        assert revision() == before
        assert flag_as_json(get_flag("a", production)) == flag_as_json(flag)


def test_write__name_that_a_flag_does_not_have__is_a_mistake_of_the_program(production: Environment) -> None:
    with pytest.raises(TypeError, match="colour"):
        create_flag(key="a", environment=production, colour="blue", **WRITE)


@pytest.mark.parametrize("nothing", [dict.fromkeys(EVERYTHING), NOTHING], ids=["none", "empty"])
def test_update__nothing_in_place_of_each_property__removes_them(
    rich: Flag, staging: Environment, nothing: dict[str, Any]
) -> None:
    updated = update_flag(key="rich", environment=staging, changes=nothing, **WRITE)

    assert properties(updated) == NOTHING
    change = Change.objects.latest("revision")
    assert change.environment == ""
    assert set(change.after) == {"id", "key", "description", "states"}


def test_update__property_as_it_is__writes_nothing(rich: Flag, production: Environment) -> None:
    for name in EVERYTHING:
        before = revision()
        update_flag(key="rich", environment=production, changes={name: EVERYTHING[name]}, **WRITE)

        assert revision() == before


def test_update__tags__are_replaced_and_make_older_versions_stale(rich: Flag, staging: Environment) -> None:
    there = get_flag("rich", staging)
    updated = update_flag(key="rich", environment=staging, changes={"tags": ["new", "shop"]}, **WRITE)

    assert updated.tags == ["new", "shop"]
    assert updated.etag != there.etag


def test_update__served_variant_goes__another_is_chosen_as_for_a_new_flag(rich: Flag, production: Environment) -> None:
    variants = [*COLOURS[:1], {"key": "pink", "value": "#fcc"}]
    updated = update_flag(key="rich", environment=production, changes={"variants": variants}, **WRITE)

    assert (updated.default_variant, updated.off_variant) == ("blue", "pink")


def test_update__served_variant_named_that_goes__is_refused(rich: Flag, production: Environment) -> None:
    with pytest.raises(ValidationFailed) as refused:
        update_flag(
            key="rich", environment=production, changes={"variants": COLOURS[:1], "off_variant": "red"}, **WRITE
        )

    assert refused.value.details[0].field == "offVariant"


def test_update__variant_of_this_environments_rules_goes__blames_the_rule(rich: Flag, production: Environment) -> None:
    update_flag(key="rich", environment=production, changes={"rules": share("green")}, **WRITE)
    with pytest.raises(ValidationFailed) as refused:
        update_flag(key="rich", environment=production, changes={"variants": COLOURS[::2]}, **WRITE)

    [detail] = refused.value.details
    assert (detail.field, detail.code) == ("rules[0].variant", "unknown_reference")


def test_update__variant_of_another_environments_rules_goes__is_in_use_there(
    rich: Flag, production: Environment, staging: Environment
) -> None:
    update_flag(key="rich", environment=staging, changes={"rules": share("green")}, **WRITE)
    before = revision()
    with pytest.raises(DomainError) as refused:
        update_flag(key="rich", environment=production, changes={"variants": COLOURS[::2]}, **WRITE)

    assert refused.value.code == "in_use"
    assert "rules[0].variant in staging" in refused.value.message
    assert revision() == before
    assert properties(get_flag("rich", production)) == EVERYTHING


def test_update__variant_that_a_dependent_flag_wants_goes__is_in_use_there(rich: Flag, production: Environment) -> None:
    wants = [{"flag": "rich", "variants": ["green", "blue"]}]
    create_flag(key="dependent", environment=production, prerequisites=wants, **WRITE)
    update_flag(key="rich", environment=production, changes={"variants": COLOURS[:2]}, **WRITE)
    with pytest.raises(DomainError) as refused:
        update_flag(key="rich", environment=production, changes={"variants": COLOURS[:1]}, **WRITE)

    assert refused.value.code == "in_use"
    assert "the prerequisites of dependent" in refused.value.message
