"""Writes of flags: what they change, what they refuse, and what the change log keeps of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from config.environments import create_environment
from config.errors import DomainError, ValidationFailed
from config.models import Change, Environment
from config.timestamps import format_timestamp
from flags.changes import (
    archive_flag,
    create_flag,
    delete_flag,
    document,
    get_flag,
    restore_flag,
    revert_flag,
    update_flag,
)
from flags.models import Flag, FlagState
from flags.segments import create_segment, delete_segment
from tests.conftest import ACTOR, NOON

pytestmark = pytest.mark.django_db

HALF = [{"type": "percentage", "percentage": 50}]
WRITE = {"actor": ACTOR, "at": NOON}
COLOURS = [{"key": "blue", "value": "#00f"}, {"key": "green", "value": "#0f0"}, {"key": "red", "value": "#f00"}]
EVERYTHING = {
    "type": "string",
    "variants": COLOURS,
    "off_variant": "red",
    "default_variant": "green",
    "schema": {"type": "string", "maxLength": 4},
    "prerequisites": [{"flag": "base"}],
    "tags": ["shop", "Ärger"],
    "owner": "team-checkout",
    "expires_at": NOON + timedelta(days=30),
}
NOTHING = {
    "type": "",
    "variants": [],
    "off_variant": "",
    "default_variant": "",
    "schema": None,
    "prerequisites": [],
    "tags": [],
    "owner": "",
    "expires_at": None,
}


@pytest.fixture
def flag(production: Environment) -> Flag:
    return create_flag(key="a", environment=production, description="A", enabled=True, rules=HALF, **WRITE)


def revision() -> int:
    return Change.objects.latest_revision()


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


@pytest.mark.parametrize(
    ("values", "fields"),
    [
        ({"key": "not a key"}, ["key"]),
        ({"key": "b", "rules": [{"type": "percentage"}]}, ["rules[0].percentage"]),
        ({"key": "b", "rules": {}}, ["rules"]),
        ({"key": "b", "rules": None}, ["rules"]),
        ({"key": "", "description": "d" * 2001, "rules": 1}, ["key", "description", "rules"]),
    ],
)
def test_create__unacceptable__names_every_field_and_writes_nothing(
    production: Environment, values: dict[str, Any], fields: list[str]
) -> None:
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
    updated = update_flag(key="a", environment=staging, changes={"enabled": True}, actor=ACTOR, at=later)

    assert (updated.enabled, updated.rules, updated.updated_at) == (True, HALF, later)
    here = get_flag("a", production)
    assert (here.updated_at, here.version) == (flag.updated_at, flag.version)
    assert Change.objects.latest("revision").environment == "staging"


def test_update__description__is_common_to_all(flag: Flag, staging: Environment) -> None:
    update_flag(key="a", environment=staging, changes={"description": "B", "rules": []}, **WRITE)

    assert get_flag("a", staging).description == "B"
    change = Change.objects.latest("revision")
    assert (change.environment, change.after["states"]["staging"]["rules"]) == ("", [])


@pytest.mark.parametrize("changes", [{}, {"enabled": True}, {"rules": HALF, "description": "A"}])
def test_update__nothing_new__writes_nothing(flag: Flag, production: Environment, changes: dict[str, Any]) -> None:
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


@pytest.mark.parametrize("key", ["nothing", "", "\0", "a/b", "a" * 300])
def test_get__unknown_or_impossible_key__is_not_found(production: Environment, key: str) -> None:
    with pytest.raises(DomainError) as refused:
        get_flag(key, production)

    assert refused.value.code == "flag_not_found"


# what all environments share


@pytest.fixture
def rich(production: Environment) -> Flag:
    """A flag that has every property there is."""
    create_flag(key="base", environment=production, enabled=True, **WRITE)
    return create_flag(key="rich", environment=production, **EVERYTHING, **WRITE)


def properties(flag: Flag) -> dict[str, Any]:
    return {name: getattr(flag, name) for name in EVERYTHING}


def share(variant: str) -> list[dict[str, Any]]:
    return [{"type": "percentage", "percentage": 50, "variant": variant}]


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
        "states": {name: {"enabled": False, "rules": []} for name in ("production", "staging")},
    }


def test_create__served_variants_not_named__are_the_first_and_the_last(production: Environment) -> None:
    flag = create_flag(key="a", environment=production, type="string", variants=COLOURS, **WRITE)

    assert (flag.default_variant, flag.off_variant) == ("blue", "red")


def test_create__none_for_every_property__is_a_plain_flag(production: Environment) -> None:
    flag = create_flag(key="a", environment=production, **dict.fromkeys(EVERYTHING), **WRITE)

    assert properties(flag) == NOTHING


@pytest.mark.parametrize(
    ("values", "field", "code"),
    [
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
    ],
)
def test_write__unacceptable_property__names_it_and_changes_nothing(
    flag: Flag, production: Environment, values: dict[str, Any], field: str, code: str
) -> None:
    before = revision()
    with pytest.raises(ValidationFailed) as created:
        create_flag(key="b", environment=production, **values, **WRITE)
    with pytest.raises(ValidationFailed) as updated:
        update_flag(key="a", environment=production, changes=values, **WRITE)

    for refused in (created, updated):
        assert (refused.value.details[0].field, refused.value.details[0].code) == (field, code)
    assert revision() == before
    assert document(get_flag("a", production)) == document(flag)


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


@pytest.mark.parametrize("name", EVERYTHING)
def test_update__property_as_it_is__writes_nothing(rich: Flag, production: Environment, name: str) -> None:
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


# the archive


def test_archive__flag__is_put_aside_for_all_environments_with_its_states(
    flag: Flag, production: Environment, staging: Environment
) -> None:
    archived = archive_flag(key="a", environment=production, if_match=flag.etag, **WRITE)

    change = Change.objects.latest("revision")
    assert (archived.archived_at, archived.enabled, archived.rules) == (change.at, True, HALF)
    assert get_flag("a", staging).archived_at == change.at
    assert (change.environment, change.after) == ("", {**change.before, "archivedAt": format_timestamp(change.at)})
    assert archived.version == change.revision


def test_archive__then_restore__leaves_the_flag_as_it_was(flag: Flag, production: Environment) -> None:
    before = document(flag)
    archive_flag(key="a", environment=production, **WRITE)
    restored = restore_flag(key="a", environment=production, **WRITE)

    assert restored.archived_at is None
    assert document(restored) == before


@pytest.mark.parametrize("write", [archive_flag, restore_flag])
def test_archive_and_restore__already_so__writes_nothing(flag: Flag, production: Environment, write: Any) -> None:
    write(key="a", environment=production, **WRITE)
    before = revision()
    write(key="a", environment=production, **WRITE)

    assert revision() == before


@pytest.mark.parametrize("write", [archive_flag, restore_flag, delete_flag])
def test_archive_restore_and_delete__stale_version__is_refused(flag: Flag, production: Environment, write: Any) -> None:
    with pytest.raises(DomainError) as refused:
        write(key="a", environment=production, if_match='"0"', **WRITE)

    assert refused.value.code == "precondition_failed"


@pytest.mark.parametrize("write", [archive_flag, delete_flag])
def test_archive_and_delete__on_in_another_environment__is_refused_by_its_name(
    flag: Flag, staging: Environment, write: Any
) -> None:
    with pytest.raises(DomainError) as refused:
        write(key="a", environment=staging, **WRITE)

    assert refused.value.code == "enabled_elsewhere"
    assert "production" in refused.value.message


@pytest.mark.parametrize("write", [archive_flag, delete_flag])
def test_archive_and_delete__prerequisite_of_another_flag__is_in_use_there(
    rich: Flag, production: Environment, write: Any
) -> None:
    before = revision()
    with pytest.raises(DomainError) as refused:
        write(key="base", environment=production, **WRITE)

    assert refused.value.code == "in_use"
    assert "prerequisite of rich" in refused.value.message
    assert revision() == before


def test_archive__prerequisite_of_archived_flags_alone__can_be_archived_but_not_deleted(
    rich: Flag, production: Environment
) -> None:
    archive_flag(key="rich", environment=production, **WRITE)
    assert archive_flag(key="base", environment=production, **WRITE).archived_at is not None

    with pytest.raises(DomainError) as refused:
        delete_flag(key="base", environment=production, **WRITE)
    assert refused.value.code == "in_use"


def test_update__archived_flag__can_be_edited_and_stays_archived(flag: Flag, production: Environment) -> None:
    archive_flag(key="a", environment=production, **WRITE)
    updated = update_flag(key="a", environment=production, changes={"rules": [], "owner": "me"}, **WRITE)

    assert (updated.rules, updated.owner) == ([], "me")
    assert updated.archived_at is not None


# going back


def test_revert__earlier_revision__brings_back_what_is_common_and_this_environment_alone(
    rich: Flag, production: Environment, staging: Environment
) -> None:
    then = revision()
    new = {**NOTHING, "description": "B", "enabled": True, "rules": HALF}
    update_flag(key="rich", environment=production, changes=new, **WRITE)
    update_flag(key="rich", environment=staging, changes={"enabled": True}, **WRITE)
    reverted = revert_flag(key="rich", revision=then, environment=production, reason="It broke", **WRITE)

    assert properties(reverted) == EVERYTHING
    assert (reverted.description, reverted.enabled, reverted.rules) == ("", False, [])
    assert get_flag("rich", staging).enabled
    assert Change.objects.latest("revision").reason == "It broke"


def test_revert__to_what_stands_there__writes_nothing(flag: Flag, production: Environment) -> None:
    before = revision()
    revert_flag(key="a", revision=before, environment=production, **WRITE)

    assert revision() == before


def test_revert__archived_since__stays_archived(flag: Flag, production: Environment) -> None:
    then = revision()
    update_flag(key="a", environment=production, changes={"enabled": False}, **WRITE)
    archive_flag(key="a", environment=production, **WRITE)
    reverted = revert_flag(key="a", revision=then, environment=production, **WRITE)

    assert reverted.enabled
    assert reverted.archived_at is not None


def test_revert__environment_younger_than_the_revision__is_off_there(flag: Flag) -> None:
    then = revision()
    young = create_environment(key="qa", name="QA", **WRITE)
    update_flag(key="a", environment=young, changes={"enabled": True, "rules": HALF}, **WRITE)
    reverted = revert_flag(key="a", revision=then, environment=young, **WRITE)

    assert (reverted.enabled, reverted.rules) == (False, [])


def test_revert__revision_of_something_else_or_of_the_deletion__is_an_unknown_reference(
    flag: Flag, production: Environment
) -> None:
    create_flag(key="b", environment=production, **WRITE)
    of_another = revision()
    delete_flag(key="a", environment=production, **WRITE)
    of_deletion = revision()
    create_flag(key="a", environment=production, **WRITE)
    for wrong in (of_another, of_deletion, 0, revision() + 1):
        with pytest.raises(ValidationFailed) as refused:
            revert_flag(key="a", revision=wrong, environment=production, **WRITE)
        [detail] = refused.value.details
        assert (detail.field, detail.code) == ("revision", "unknown_reference")


def test_revert__stale_version__is_refused(flag: Flag, production: Environment) -> None:
    with pytest.raises(DomainError) as refused:
        revert_flag(key="a", revision=revision(), environment=production, if_match='"0"', **WRITE)

    assert refused.value.code == "precondition_failed"


def test_revert__revision_of_another_environment_alone__is_an_unknown_reference(
    flag: Flag, production: Environment, staging: Environment
) -> None:
    update_flag(key="a", environment=staging, changes={"enabled": True}, **WRITE)
    elsewhere = revision()
    with pytest.raises(ValidationFailed) as refused:
        revert_flag(key="a", revision=elsewhere, environment=production, **WRITE)

    [detail] = refused.value.details
    assert (detail.field, detail.code) == ("revision", "unknown_reference")
    revert_flag(key="a", revision=elsewhere, environment=staging, **WRITE)


def test_revert__what_it_needed_is_gone__is_refused_by_the_revision_and_says_what_is_missing(
    flag: Flag, production: Environment
) -> None:
    create_segment(key="beta", user_ids=["u"], **WRITE)
    asks = [{"type": "segment", "segment": "beta"}]
    update_flag(key="a", environment=production, changes={"rules": asks}, **WRITE)
    then = revision()
    update_flag(key="a", environment=production, changes={"rules": []}, **WRITE)
    delete_segment(key="beta", **WRITE)
    with pytest.raises(ValidationFailed) as refused:
        revert_flag(key="a", revision=then, environment=production, **WRITE)

    [detail] = refused.value.details
    assert (detail.field, detail.code) == ("revision", "unknown_reference")
    assert detail.message == "rules[0].segment: No segment has the key beta; create it first."


def test_revert__variant_that_others_need_by_now_goes__is_in_use(rich: Flag, production: Environment) -> None:
    then = revision()
    variants = [*COLOURS, {"key": "pink", "value": "#fcc"}]
    update_flag(key="rich", environment=production, changes={"variants": variants, "schema": None}, **WRITE)
    wants = [{"flag": "rich", "variants": ["pink"]}]
    create_flag(key="dependent", environment=production, prerequisites=wants, **WRITE)
    with pytest.raises(DomainError) as refused:
        revert_flag(key="rich", revision=then, environment=production, **WRITE)

    assert refused.value.code == "in_use"


# finding flags


def test_queryset__words_for_flags__find_them(production: Environment) -> None:
    create_flag(key="plain", environment=production, **WRITE)
    create_flag(key="old", environment=production, expires_at=NOON, tags=["shop"], **WRITE)
    create_flag(key="young", environment=production, expires_at=NOON + timedelta(days=1), tags=["Shop"], **WRITE)
    archive_flag(key="young", environment=production, **WRITE)
    flags = Flag.objects.in_environment(production)

    assert [flag.key for flag in flags.current()] == ["old", "plain"]
    assert [flag.key for flag in flags.archived()] == ["young"]
    assert [flag.key for flag in flags.expired(NOON)] == ["old"]
    assert [flag.key for flag in flags.unexpired(NOON)] == ["plain", "young"]
    assert [flag.key for flag in flags.tagged("shop")] == ["old"]
    assert [flag.key for flag in flags.tagged("Shop").archived()] == ["young"]
