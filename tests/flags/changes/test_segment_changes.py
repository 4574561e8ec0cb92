"""Writes of segments: changes, refusals, and entries of the change log."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from config.errors import DomainError, ValidationFailed
from config.models import Change
from flags.changes.reversion import revert_segment
from flags.changes.segment_changes import (
    change_members,
    create_segment,
    delete_segment,
    get_segment,
    segment_as_json,
    update_segment,
)
from flags.models import Segment
from tests.conftest import ACTOR, NOON

pytestmark = pytest.mark.django_db

WRITE = {"actor": ACTOR, "now": NOON}
PRO = [{"attribute": "plan", "operator": "equals", "value": "pro"}]


@pytest.fixture
def segment(db: None) -> Segment:
    return create_segment(key="beta", description="B", conditions=PRO, user_ids=["u1", "u2"], **WRITE)


def revision() -> int:
    return Change.objects.latest_revision()


def test_create__key_alone__is_an_empty_segment(db: None) -> None:
    segment = create_segment(key="nobody", **WRITE)

    assert (segment.description, segment.conditions, segment.user_ids) == ("", [], [])


def test_create__change__holds_the_whole_segment(segment: Segment) -> None:
    change = Change.objects.latest("revision")

    assert (change.kind, change.key, change.environment, change.before) == ("segment", "beta", "", None)
    assert change.after == {
        "id": str(segment.pk),
        "key": "beta",
        "description": "B",
        "conditions": PRO,
        "userIds": ["u1", "u2"],
    }
    assert segment.version == change.revision
    assert segment.created_at == segment.updated_at == change.at


def test_write__unacceptable__names_every_field_and_changes_nothing(segment: Segment) -> None:
    for values, fields in [
        ({"description": "d" * 2001}, ["description"]),
        ({"conditions": {}}, ["conditions"]),
        ({"conditions": [{"attribute": "plan", "operator": "equals"}]}, ["conditions[0].value"]),
        ({"conditions": PRO * 101}, ["conditions"]),
        ({"user_ids": None}, ["userIds"]),
        ({"user_ids": ["u1", ""]}, ["userIds[1]"]),
        ({"user_ids": ["u1", "u2", "u1"]}, ["userIds[2]"]),
        ({"user_ids": [str(at) for at in range(100_001)]}, ["userIds"]),
        ({"description": "d" * 2001, "conditions": 1, "user_ids": 1}, ["description", "conditions", "userIds"]),
    ]:
        before = revision()
        with pytest.raises(ValidationFailed) as created:
            create_segment(key="other", **values, **WRITE)
        with pytest.raises(ValidationFailed) as updated:
            update_segment(key="beta", changes=values, **WRITE)

        for refused in (created, updated):
            assert [detail.field for detail in refused.value.details] == fields
        assert revision() == before
        assert segment_as_json(get_segment("beta")) == segment_as_json(segment)


def test_create__not_a_key__is_refused(db: None) -> None:
    with pytest.raises(ValidationFailed) as refused:
        create_segment(key="not a key", user_ids=1, **WRITE)

    assert [detail.field for detail in refused.value.details] == ["key", "userIds"]


def test_create__key_that_exists__is_refused(segment: Segment) -> None:
    with pytest.raises(DomainError) as refused:
        create_segment(key="beta", **WRITE)

    assert refused.value.code == "already_exists"


def test_write__name_that_a_segment_does_not_have__is_a_mistake_of_the_program(segment: Segment) -> None:
    with pytest.raises(TypeError, match="key"):
        update_segment(key="beta", changes={"key": "b"}, **WRITE)


def test_create__a_hundred_thousand_users__are_kept_whole(db: None) -> None:
    users = [f"user-{at}" for at in range(100_000)]
    create_segment(key="many", user_ids=users, **WRITE)

    assert get_segment("many").user_ids == users
    assert Change.objects.latest("revision").after["userIds"] == users


def test_update__some_of_it__leaves_the_rest(segment: Segment) -> None:
    later = NOON + timedelta(days=400)
    updated = update_segment(key="beta", changes={"user_ids": ["u3"]}, actor=ACTOR, now=later, reason="Moved")

    change = Change.objects.latest("revision")
    assert (updated.description, updated.conditions, updated.user_ids) == ("B", PRO, ["u3"])
    assert (updated.updated_at, updated.version) == (later, change.revision)
    assert (change.before, change.after) == (segment_as_json(segment), {**segment_as_json(segment), "userIds": ["u3"]})
    assert change.reason == "Moved"


def test_update__nothing_new__writes_nothing(segment: Segment) -> None:
    for changes in [{}, {"conditions": PRO}, {"description": "B", "user_ids": ["u1", "u2"]}]:
        before = revision()
        updated = update_segment(key="beta", changes=changes, **WRITE)

        assert revision() == before
        assert updated.version == segment.version


def test_update_and_delete__stale_version__are_refused_and_change_nothing(segment: Segment) -> None:
    update_segment(key="beta", changes={"description": "C"}, if_match=segment.etag, **WRITE)
    before = revision()
    with pytest.raises(DomainError) as updated:
        update_segment(key="beta", changes={"description": "D"}, if_match=segment.etag, **WRITE)
    with pytest.raises(DomainError) as deleted:
        delete_segment(key="beta", if_match=segment.etag, **WRITE)

    assert updated.value.code == deleted.value.code == "precondition_failed"
    assert revision() == before


def test_revert__earlier_revision__brings_back_what_was_with_a_reason(segment: Segment) -> None:
    change_members(key="beta", add=["u3"], **WRITE)
    then, listed = revision(), segment_as_json(get_segment("beta"))
    change_members(key="beta", remove=["u1"], **WRITE)
    update_segment(key="beta", changes={"description": "C", "conditions": []}, **WRITE)
    reverted = revert_segment(key="beta", revision=then, reason="Too early", **WRITE)

    assert segment_as_json(reverted) == listed == segment_as_json(get_segment("beta"))
    assert Change.objects.latest("revision").reason == "Too early"


def test_revert__to_the_current_values__writes_nothing(segment: Segment) -> None:
    before = revision()
    revert_segment(key="beta", revision=before, **WRITE)

    assert revision() == before


def test_revert__revision_of_something_else_or_of_the_deletion__is_an_unknown_reference(segment: Segment) -> None:
    create_segment(key="other", **WRITE)
    of_another = revision()
    delete_segment(key="beta", **WRITE)
    of_deletion = revision()
    create_segment(key="beta", **WRITE)
    for wrong in (of_another, of_deletion, 0, revision() + 1, 10**30):
        with pytest.raises(ValidationFailed) as refused:
            revert_segment(key="beta", revision=wrong, **WRITE)
        [detail] = refused.value.details
        assert (detail.field, detail.code) == ("revision", "unknown_reference")


def test_revert__segment_that_it_needed_is_gone__is_refused_with_what_is_missing(segment: Segment) -> None:
    create_segment(key="wider", conditions=[{"operator": "inSegment", "value": "beta"}], **WRITE)
    then = revision()
    update_segment(key="wider", changes={"conditions": PRO}, **WRITE)
    delete_segment(key="beta", **WRITE)
    with pytest.raises(ValidationFailed) as refused:
        revert_segment(key="wider", revision=then, **WRITE)

    [detail] = refused.value.details
    assert (detail.field, detail.code) == ("revision", "unknown_reference")
    assert "conditions[0].value: No segment has the key beta" in detail.message


def test_revert__stale_version__is_refused(segment: Segment) -> None:
    with pytest.raises(DomainError) as refused:
        revert_segment(key="beta", revision=revision(), if_match='"0"', **WRITE)

    assert refused.value.code == "precondition_failed"


def test_delete__segment__goes_and_its_history_stays(segment: Segment) -> None:
    delete_segment(key="beta", if_match=segment.etag, **WRITE)

    assert not Segment.objects.exists()
    assert [change.action for change in Change.objects.of("segment", segment.pk)] == ["deleted", "created"]


def test_get__unknown_or_impossible_key__is_not_found(db: None) -> None:
    for key in ["nothing", "", "\0", "a/b", "a" * 300]:
        with pytest.raises(DomainError) as refused:
            get_segment(key)

        assert refused.value.code == "not_found"


def test_list__without_members__reads_neither_conditions_nor_users(
    segment: Segment, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(1) as queries:
        [segment] = Segment.objects.without_members()
        assert (segment.key, segment.description) == ("beta", "B")
    assert "user_ids" not in queries.captured_queries[0]["sql"]
