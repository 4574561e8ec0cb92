"""The entries of the history: the differences of pairs of documents, mostly without a database."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from config.change_log import entries
from config.change_log.writing import writing
from config.models import Change
from tests.conftest import ACTOR, NOON

HALF = {"type": "percentage", "percentage": 50}
MANY = [f"user-{at}" for at in range(100_000)]


def test_difference__of_each_kind__is_reported_by_its_path() -> None:
    for before, after, expected in [
        ({"enabled": False}, {"enabled": False}, []),
        ({"enabled": False}, {"enabled": True}, [{"field": "enabled", "before": False, "after": True}]),
        ({"n": 1}, {"n": True}, [{"field": "n", "before": 1, "after": True}]),
        ({"n": 1}, {"n": 1.0}, [{"field": "n", "before": 1, "after": 1.0}]),
        ({}, {"owner": "ada"}, [{"field": "owner", "after": "ada"}]),
        ({"owner": "ada"}, {}, [{"field": "owner", "before": "ada"}]),
        (
            {"rules": [HALF]},
            {"rules": [{**HALF, "percentage": 60}]},
            [{"field": "rules[0].percentage", "before": 50, "after": 60}],
        ),
        ({"rules": []}, {"rules": [HALF]}, [{"field": "rules[0]", "after": HALF}]),
        ({"rules": [HALF, HALF]}, {"rules": [HALF]}, [{"field": "rules[1]", "before": HALF}]),
        ({}, {"rules": [HALF]}, [{"field": "rules", "after": [HALF]}]),
        (
            {"variants": [{"key": "a", "value": 1}, {"key": "b", "value": {"x": None}}]},
            {"variants": [{"key": "a", "value": 1}, {"key": "b", "value": {}}]},
            [{"field": "variants[1].value.x", "before": None}],
        ),
        ({"tags": ["a", "b"]}, {"tags": ["b", "c"]}, [{"field": "tags", "added": ["c"], "removed": ["a"]}]),
        ({"tags": ["a", "b"]}, {"tags": ["b", "a"]}, [{"field": "tags", "added": [], "removed": []}]),
        ({"value": [1, 1]}, {"value": [1, True]}, [{"field": "value", "added": [True], "removed": [1]}]),
        ({"value": "DE"}, {"value": ["DE"]}, [{"field": "value", "before": "DE", "after": ["DE"]}]),
    ]:
        assert list(entries.find_differences(before, after)) == expected


def test_list__of_100_000_users__is_reported_in_one_difference() -> None:
    for before, after, expected in [
        ({"userIds": []}, {"userIds": MANY}, {"added": MANY[:100], "removed": [], "moreAdded": 99_900}),
        ({}, {"userIds": MANY}, {"added": MANY[:100], "removed": [], "moreAdded": 99_900}),
        ({"userIds": MANY}, {}, {"added": [], "removed": MANY[:100], "moreRemoved": 99_900}),
        (
            {"userIds": MANY},
            {"userIds": [*MANY[:500], "new", *MANY[501:]]},
            {"added": ["new"], "removed": ["user-500"]},
        ),
    ]:
        assert list(entries.find_differences(before, after)) == [{"field": "userIds", **expected}]


def test_rule__that_came_with_a_long_list__is_reported_field_by_field() -> None:
    rule = {"type": "users", "userIds": MANY[:10_000]}
    assert list(entries.find_differences({"rules": []}, {"rules": [rule]})) == [
        {"field": "rules[0].type", "after": "users"},
        {"field": "rules[0].userIds", "added": MANY[:100], "removed": [], "moreAdded": 9_900},
    ]


# --- entries ---------------------------------------------------------------------------------------------------------


def change(before: Any, after: Any, *, environment: str = "", reason: str = "") -> Change:
    return Change(
        revision=7, at=NOON, actor="user ada", source="api", reason=reason, kind="flag", object_id="1", key="f",
        environment=environment, before=before, after=after,
    )  # fmt: skip


def flag(**states: Any) -> dict[str, Any]:
    return {"id": "1", "key": "f", "description": "d", "states": states}


ON, OFF = {"enabled": True, "rules": []}, {"enabled": False, "rules": []}


def test_entry__of_a_flag_s_state__tells_it_as_properties_of_the_flag() -> None:
    written = change(flag(production=OFF), flag(production=ON), environment="production", reason="Launch")
    assert entries.make_entry(written, "production") == {
        "revision": 7,
        "at": "2026-01-31T12:00:00.000000Z",
        "actor": "user ada",
        "source": "api",
        "reason": "Launch",
        "action": "changed",
        "object": {"kind": "flag", "id": "1", "key": "f"},
        "environment": "production",
        "changes": [{"field": "enabled", "before": False, "after": True}],
    }


def test_entry__of_creation_and_deletion__tells_what_this_environment_has() -> None:
    for before, after, action in [(None, flag(a=ON, b=OFF), "created"), (flag(a=ON, b=OFF), None, "deleted")]:
        side = "after" if before is None else "before"
        for environment, state in (("a", ON), ("b", OFF)):
            entry = entries.make_entry(change(before, after), environment)
            assert entry["action"] == action
            assert {difference["field"]: difference[side] for difference in entry["changes"]} == {
                "description": "d",
                **state,
            }
            assert entry.keys().isdisjoint({"reason", "environment"})


def test_entry__of_a_common_change__tells_nothing_of_other_environments() -> None:
    entry = entries.make_entry(change(flag(a=OFF, b=OFF), {**flag(a=OFF, b=ON), "owner": "ada"}), "a")
    assert entry["changes"] == [{"field": "owner", "after": "ada"}]


def test_entry__with_more_differences_than_are_reported__says_how_many() -> None:
    variants = [{"key": f"v{at}", "value": 0} for at in range(250)]
    entry = entries.make_entry(
        change({"variants": variants}, {"variants": [{**variant, "value": 1} for variant in variants]}), "a"
    )
    assert (len(entry["changes"]), entry["moreChanges"]) == (200, 50)
    assert entry["changes"][199] == {"field": "variants[199].value", "before": 0, "after": 1}


def test_entry__of_a_long_value__tells_the_beginning_of_its_json() -> None:
    for value, shown in [
        ("x" * 998, "x" * 998),
        ("x" * 999, f'"{"x" * 999}…'),
        ("ä" * 32_000, f'"{"ä" * 999}…'),
        ({"text": "x" * 1000, "n": 1}, f'{{"text":"{"x" * 991}…'),
    ]:
        variants = [{"key": "a", "value": value}]
        added = entries.make_entry(change({"value": 1}, {"value": value}), "a")["changes"]
        assert added == [{"field": "value", "before": 1, "after": shown}]
        [removed] = entries.make_entry(change({"variants": variants}, {"variants": [{"key": "a", "value": 0}]}), "a")[
            "changes"
        ]
        assert removed == {"field": "variants[0].value", "before": shown, "after": 0}


def test_entry__of_a_list_of_long_elements__tells_as_many_as_a_person_reads() -> None:
    long = [f"{at:02}{'x' * 5_000}" for at in range(30)]
    [difference] = entries.make_entry(change({"value": ["a"]}, {"value": ["a", *long]}), "a")["changes"]
    assert difference["added"] == [f'"{element[:999]}…' for element in long[: len(difference["added"])]]
    assert len(difference["added"]) + difference["moreAdded"] == 30
    assert difference["removed"] == []


_LONG = "x" * 30_000


def test_entry__whatever_the_values_are__is_small_and_counts_what_it_leaves_out() -> None:
    for value in [
        {"variants": [{"key": f"v{at}", "value": _LONG} for at in range(50)]},
        {"value": {f"n{at}": [f"{n}{_LONG}" for n in range(100)] for at in range(30)}},
        {"value": {_LONG: {_LONG: 1, "b": 2}}},
        {"value": {f"{at}{_LONG}": at for at in range(30)}},
    ]:
        other = json.loads(json.dumps(value).replace("x" * 100, "y" * 100).replace(": 1", ": 3"))
        for sides in ((value, other), (None, value), (value, None), ({"value": 1}, value)):
            entry = entries.make_entry(change(*sides), "a")
            assert len(json.dumps(entry)) < 60_000
            before, after = ({} if side is None else side for side in sides)
            assert len(entry["changes"]) + entry.get("moreChanges", 0) == len(
                list(entries.find_differences(before, after))
            )


@pytest.mark.parametrize("count", [1, 25])
def test_entries__any_number__take_one_query(db: None, django_assert_num_queries: Any, count: int) -> None:
    write(count, NOON)
    rows = list(Change.objects.filter(kind="thing").order_by("-revision").defer("before", "after"))
    with django_assert_num_queries(1):
        made = entries.make_entries(rows, "production")
    assert [entry["revision"] for entry in made] == [row.revision for row in rows]
    assert made[0]["changes"] == [{"field": "n", "after": count - 1}]


def test_entries__none__take_no_query(db: None, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        assert entries.make_entries([], "production") == []


def test_filter_visible__an_environment__leaves_out_the_others(db: None) -> None:
    for environment in ("", "production", "staging"):
        write(1, NOON, environment=environment)
    rows = entries.filter_visible(Change.objects.filter(kind="thing"), "staging")
    assert sorted(row.environment for row in rows) == ["", "staging"]


def write(count: int, at: datetime, *, environment: str = "") -> None:
    with writing(actor=ACTOR, now=at) as log:
        for n in range(count):
            log.append("thing", object_id=n, key=f"t{n}", environment=environment, before=None, after={"n": n})
