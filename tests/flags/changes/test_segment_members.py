"""Adding and removing users of a segment: the log stores only these users, and still knows every past list."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest

from config import snapshot
from config.change_log.entries import make_entries
from config.errors import DomainError
from config.models import Change, Environment
from flags.changes.segment_changes import (
    KIND,
    MEMBERS_KIND,
    change_members,
    create_segment,
    delete_segment,
    get_segment,
    segment_as_json,
    segments_in_log,
    update_segment,
)
from flags.models import Segment
from flags.snapshot import compiled, configuration
from tests.answers import data, error
from tests.conftest import ACTOR, NOON
from tests.factories import FlagFactory

pytestmark = pytest.mark.django_db

WRITE: dict[str, Any] = {"actor": ACTOR, "now": NOON}
START = NOON + timedelta(days=1000)
USERS = [f"u{number}" for number in range(12)]


def test_members__random_edits__history_past_and_snapshots_agree_with_the_whole(db: None) -> None:
    chance, seen = Random(7), []
    compiled.load()
    for minute in range(300):
        at = START + timedelta(minutes=minute)
        with_key = {"key": chance.choice(["a", "b", "c"]), "actor": ACTOR, "now": at}
        before = Change.objects.latest_revision()
        try:
            _edit(chance, with_key)
        except DomainError:
            continue
        rows = Segment.objects.order_by("key")
        compiled.apply(list(Change.objects.since(before)))
        seen.append((at, {row.key: segment_as_json(row) for row in rows}))
        stored = {row.key: _shown(segment_as_json(row)) for row in rows}
        assert {key: _shown(found) for key, found in _segments().items()} == stored
    assert {row.kind for row in Change.objects.filter(at__gte=START)} == {KIND, MEMBERS_KIND}
    for at, documents in seen:
        assert segments_in_log(Change.objects.as_of(at), ["a", "b", "c"]) == documents


def _edit(chance: Random, with_key: dict[str, Any]) -> None:
    users = chance.sample(USERS, k=chance.randrange(7))
    match chance.randrange(12):
        case 0 | 1 | 2:
            create_segment(**with_key, user_ids=users)
        case 3:
            delete_segment(**with_key)
        case 4 | 5:
            update_segment(**with_key, changes={"user_ids": users, "description": chance.choice("xy")})
        case _:
            cut = chance.randrange(len(users) + 1)
            change_members(**with_key, add=users[:cut], remove=users[cut:])


def _segments() -> dict[str, Any]:
    return {key: segment.source for key, segment in configuration("production").segments.items()}


def _shown(found: dict[str, Any]) -> Any:
    return found["conditions"], found["userIds"]


def test_snapshot__that_has_loaded_later_changes__comes_to_the_same_by_applying_all(db: None) -> None:
    create_segment(key="a", user_ids=["u1", "u2"], **WRITE)
    revision = Change.objects.latest_revision()
    change_members(key="a", add=["u3"], remove=["u1"], **WRITE)
    change_members(key="a", add=["u1", "u4"], remove=["u3"], **WRITE)
    change_members(key="a", add=["u3"], **WRITE)
    compiled.load()
    compiled.apply(list(Change.objects.since(revision)))
    segment = configuration("production").segments["a"]
    assert segment.source["userIds"] == get_segment("a").user_ids == ["u2", "u1", "u4", "u3"]
    assert segment.user_ids == {"u1", "u2", "u3", "u4"}


def test_members__of_a_large_segment__leave_an_entry_of_their_own_size(production: Environment) -> None:
    create_segment(key="a", user_ids=[f"user-{number}" for number in range(99_000)], **WRITE)
    change_members(key="a", add=["ada"], remove=["user-7"], **WRITE)
    change = Change.objects.latest("revision")
    assert len(json.dumps([change.before, change.after])) < 100
    [entry] = make_entries([change], "production")
    assert entry["object"]["kind"] == "segment"
    assert entry["changes"] == [{"field": "userIds", "added": ["ada"], "removed": ["user-7"]}]
    [found] = segments_in_log(Change.objects.all(), ["a"]).values()
    assert found == segment_as_json(get_segment("a"))


def test_members__added_to_a_segment_of_a_flag__are_served_at_once_and_as_of_then(api: Any) -> None:
    create_segment(key="beta", **WRITE)
    FlagFactory(key="f", on=True, rules=[{"type": "segment", "segment": "beta"}])
    snapshot.refresh()
    before = datetime.fromisoformat(data(api.get("/v1/segments/beta"))["updatedAt"])
    answer = data(api.post("/v1/segments/beta/users", {"add": ["ada", "bob"], "remove": ["eve"]}))
    assert answer == {"added": 2, "removed": 0, "total": 2}
    assert data(api.post("/v1/flags/f/evaluate", {"userId": "ada"}))["enabled"] is True
    explained = data(api.post("/v1/flags/f/explain", {"userId": "ada", "at": before.isoformat()}))
    assert explained["enabled"] is False
    [newest, *_] = data(api.get("/v1/audit?object=segment/beta"))
    assert newest["changes"] == [{"field": "userIds", "added": ["ada", "bob"], "removed": []}]


def test_members__that_cannot_be__are_refused_by_name(api: Any) -> None:
    create_segment(key="beta", user_ids=["eve"], **WRITE)
    for sent, field in [
        ({"add": ["u", "u"]}, "add[1]"),
        ({"add": [""]}, "add[0]"),
        ({"add": "u"}, "add"),
        ({"remove": [7]}, "remove[0]"),
        ({"add": ["v", "u"], "remove": ["w", "u"]}, "remove[1]"),
        ({"userIds": ["u"]}, "userIds"),
        ({"add": [f"user-{number}" for number in range(100_000)]}, "add"),
    ]:
        revision = Change.objects.latest_revision()
        details = error(api.post("/v1/segments/beta/users", sent), 400, "validation_failed")["details"]
        assert [detail["field"] for detail in details] == [field]
        assert Change.objects.latest_revision() == revision


def test_members__nothing_new__writes_nothing(api: Any) -> None:
    create_segment(key="beta", user_ids=["eve"], **WRITE)
    revision = Change.objects.latest_revision()
    for sent in ({}, {"add": ["eve"]}, {"remove": ["ada"]}):
        assert data(api.post("/v1/segments/beta/users", sent)) == {"added": 0, "removed": 0, "total": 1}
    assert Change.objects.latest_revision() == revision
