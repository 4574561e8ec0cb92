"""The querysets of the change log: by object, by key, and up to a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from config.change_log.writing import writing
from config.models import Change
from tests.conftest import ACTOR

pytestmark = pytest.mark.django_db

LATER = datetime(2100, 1, 1, tzinfo=UTC)
"""After the rows of the new database: no change is ever dated before an earlier one."""


def append(object_id: str, key: str, at: datetime = LATER, *, kind: str = "thing") -> int:
    with writing(actor=ACTOR, now=at) as log:
        log.append(kind, object_id=object_id, key=key, before=None, after={"key": key})
        return log.revision


def test_of_key__key_taken_again_after_a_delete__tells_of_both_objects_newest_first() -> None:
    first, second = append("1", "a"), append("2", "a")
    append("3", "b")
    append("1", "a", kind="another")

    assert [change.revision for change in Change.objects.of_key("thing", "a")] == [second, first]


def test_as_of__several_changes__are_those_up_to_the_moment_and_at_it() -> None:
    first, second = append("1", "a", LATER), append("1", "a", LATER + timedelta(microseconds=2))

    changes = Change.objects.of_key("thing", "a")
    assert not changes.as_of(LATER - timedelta(microseconds=1)).exists()
    assert [change.revision for change in changes.as_of(LATER)] == [first]
    assert [change.revision for change in changes.as_of(LATER + timedelta(microseconds=1))] == [first]
    assert [change.revision for change in changes.as_of(LATER + timedelta(microseconds=2))] == [second, first]
