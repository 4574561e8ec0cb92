"""Restoring a flag to an earlier revision."""

from __future__ import annotations

import pytest

from config.access.environments import create_environment
from config.errors import DomainError, ValidationFailed
from config.models import Change, Environment
from flags.changes.flag_changes import (
    archive_flag,
    create_flag,
    delete_flag,
    get_flag,
    update_flag,
)
from flags.changes.reversion import revert_flag
from flags.changes.segment_changes import create_segment, delete_segment
from flags.models import Flag
from tests.flags.changes.writing import COLOURS, EVERYTHING, HALF, NOTHING, WRITE, properties, revision

pytestmark = pytest.mark.django_db


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


def test_revert__to_the_current_values__writes_nothing(flag: Flag, production: Environment) -> None:
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


def test_revert__reference_no_longer_exists__is_refused_with_what_is_missing(
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
