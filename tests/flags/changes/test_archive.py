"""Archiving, restoring and deleting flags."""

from __future__ import annotations

import pytest

from config.errors import DomainError
from config.models import Change, Environment
from config.timestamps import format_timestamp
from flags.changes.flag_changes import (
    archive_flag,
    delete_flag,
    flag_as_json,
    get_flag,
    restore_flag,
    update_flag,
)
from flags.models import Flag
from tests.flags.changes.writing import HALF, WRITE, revision

pytestmark = pytest.mark.django_db


def test_archive__flag__is_archived_in_all_environments_with_its_states(
    flag: Flag, production: Environment, staging: Environment
) -> None:
    archived = archive_flag(key="a", environment=production, if_match=flag.etag, **WRITE)

    change = Change.objects.latest("revision")
    assert (archived.archived_at, archived.enabled, archived.rules) == (change.at, True, HALF)
    assert get_flag("a", staging).archived_at == change.at
    assert (change.environment, change.after) == ("", {**change.before, "archivedAt": format_timestamp(change.at)})
    assert archived.version == change.revision


def test_archive__then_restore__leaves_the_flag_as_it_was(flag: Flag, production: Environment) -> None:
    before = flag_as_json(flag)
    archive_flag(key="a", environment=production, **WRITE)
    restored = restore_flag(key="a", environment=production, **WRITE)

    assert restored.archived_at is None
    assert flag_as_json(restored) == before


def test_archive_and_restore__already_so__writes_nothing(flag: Flag, production: Environment) -> None:
    for write in [archive_flag, restore_flag]:
        write(key="a", environment=production, **WRITE)
        before = revision()
        write(key="a", environment=production, **WRITE)

        assert revision() == before


def test_archive_restore_and_delete__stale_version__is_refused(flag: Flag, production: Environment) -> None:
    for write in [archive_flag, restore_flag, delete_flag]:
        with pytest.raises(DomainError) as refused:
            write(key="a", environment=production, if_match='"0"', **WRITE)

        assert refused.value.code == "precondition_failed"


def test_archive_and_delete__on_in_another_environment__is_refused_by_its_name(
    flag: Flag, staging: Environment
) -> None:
    for write in [archive_flag, delete_flag]:
        with pytest.raises(DomainError) as refused:
            write(key="a", environment=staging, **WRITE)

        assert refused.value.code == "enabled_elsewhere"
        assert "production" in refused.value.message


def test_archive_and_delete__prerequisite_of_another_flag__is_in_use_there(rich: Flag, production: Environment) -> None:
    for write in [archive_flag, delete_flag]:
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
