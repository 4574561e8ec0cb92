"""The optional properties of a flag, its filters, and the archive, as a client sees them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine

from config.models import Change
from config.timestamps import format_timestamp
from tests.answers import data, error
from tests.cases import undone
from tests.conftest import NOON
from tests.factories import FlagFactory

PLAIN = ["id", "key", "description", "enabled", "rules", "createdAt", "updatedAt"]
ENTRY = ["id", "key", "description", "enabled", "createdAt"]
COLOURS = [{"key": "blue", "value": "#00f"}, {"key": "green", "value": "#0f0"}]
WHOLE = {
    "type": "string",
    "variants": COLOURS,
    "defaultVariant": "green",
    "offVariant": "blue",
    "schema": {"type": "string", "pattern": "^#"},
    "prerequisites": [{"flag": "base"}],
    "tags": ["shop", "Ünï"],
    "owner": "ada",
    "expiresAt": "2027-01-31T12:00:00.000000Z",
    "clientVisible": False,
}


def create(api: Any, key: str = "f", **values: Any) -> Any:
    return data(api.post("/v1/flags", {"key": key, **values}), 201)


# --- create, get, update ---------------------------------------------------------------------------------------------


def test_create__every_property__is_answered_as_sent_and_read_back(api):
    create(api, "base")
    created = create(api, **WHOLE)
    assert list(created) == [*PLAIN[:5], *WHOLE, *PLAIN[5:]]
    assert {name: created[name] for name in WHOLE} == WHOLE
    assert data(api.get("/v1/flags/f")) == created


def test_create__variants_alone__answer_the_ones_served(api):
    created = create(api, type="string", variants=COLOURS)
    assert (created["defaultVariant"], created["offVariant"]) == ("blue", "green")


@pytest.mark.parametrize("nothing", [None, []])
def test_create__properties_without_a_value__are_left_out(api, nothing):
    lists = {"variants": nothing, "prerequisites": nothing, "tags": nothing}
    others = {name: None for name in WHOLE if name not in lists}
    assert list(create(api, **lists, **others)) == PLAIN


def test_list__flags_with_properties__carry_exactly_what_is_documented(api):
    create(api, "base")
    create(api, **WHOLE)
    assert [list(entry) for entry in data(api.get("/v1/flags"))] == [ENTRY, ENTRY]


def test_properties__of_a_flag__are_common_to_all_environments(api, staging_api):
    create(api, "base")
    create(api, **WHOLE)
    data(staging_api.patch("/v1/flags/f", {"owner": "bob"}))
    flag = data(api.get("/v1/flags/f"))
    assert {name: flag[name] for name in WHOLE} == {**WHOLE, "owner": "bob"}


def test_update__what_was_read__can_be_sent_back_and_changes_nothing(api):
    create(api, "base")
    create(api, **WHOLE)
    data(api.post("/v1/flags/f/archive"))
    read, revision = api.get("/v1/flags/f"), Change.objects.latest_revision()
    assert data(api.patch("/v1/flags/f", data(read), HTTP_IF_MATCH=read["ETag"])) == data(read)
    assert Change.objects.latest_revision() == revision


def test_update__null_or_nothing__removes_a_property(subtests, api):
    create(api, "base")
    before = create(api, **WHOLE)
    for name, nothing in [
        ("prerequisites", None), ("prerequisites", []), ("tags", None), ("tags", []), ("owner", None), ("owner", ""),
        ("expiresAt", None), ("schema", None),
    ]:  # fmt: skip
        with undone(subtests, name=name, nothing=nothing):
            after = data(api.patch("/v1/flags/f", {name: nothing}))
            assert after == {
                **{other: value for other, value in before.items() if other != name},
                "updatedAt": after["updatedAt"],
            }


@pytest.mark.parametrize("nothing", [None, []])
def test_update__variants_away_with_all_that_needs_them__leaves_a_plain_flag(api, nothing):
    create(api, type="string", variants=COLOURS, schema={"type": "string"})
    assert list(data(api.patch("/v1/flags/f", {"type": None, "variants": nothing, "schema": None}))) == PLAIN


def test_update__expiry__is_understood_at_any_offset_and_as_a_date(api):
    create(api)
    flag = data(api.patch("/v1/flags/f", {"expiresAt": "2027-01-31T12:00:00+02:00"}))
    assert flag["expiresAt"] == "2027-01-31T10:00:00.000000Z"
    assert data(api.patch("/v1/flags/f", {"expiresAt": "2027-01-31"}))["expiresAt"] == "2027-01-31T00:00:00.000000Z"


def test_update__what_a_property_cannot_be__is_refused_with_its_name(subtests, api):
    before = create(api)
    for body, field, code in [
        ({"type": "text"}, "type", "invalid_value"),
        ({"type": ""}, "type", "invalid_value"),
        ({"type": 1}, "type", "invalid_type"),
        ({"defaultVariant": ""}, "defaultVariant", "out_of_range"),
        ({"tags": ["a", "a"]}, "tags[1]", "duplicate"),
        ({"tags": [1]}, "tags[0]", "invalid_type"),
        ({"owner": "x" * 201}, "owner", "too_long"),
        ({"expiresAt": "soon"}, "expiresAt", "invalid_value"),
        ({"archivedAt": "2026-01-31T12:00:00Z"}, "archivedAt", "invalid_value"),
        ({"prerequisites": [{"flag": "nope"}]}, "prerequisites[0].flag", "unknown_reference"),
        ({"prerequisites": [{"flag": "f"}]}, "prerequisites[0].flag", "invalid_value"),
        ({"rules": [{"type": "segment", "segment": "nope"}]}, "rules[0].segment", "unknown_reference"),
    ]:
        with subtests.test(body=body, field=field):
            [detail] = error(api.patch("/v1/flags/f", body), 400, "validation_failed")["details"]
            assert (detail["field"], detail["code"]) == (field, code)
            assert data(api.get("/v1/flags/f")) == before


def test_update__variant_that_another_environment_serves__is_in_use(api, staging_api):
    create(api, type="string", variants=COLOURS)
    data(staging_api.patch("/v1/flags/f", {"rules": [{"type": "percentage", "percentage": 5, "variant": "green"}]}))
    failure = error(api.patch("/v1/flags/f", {"variants": COLOURS[:1]}), 409, "in_use")
    assert "staging" in failure["message"]


def test_update__variants_where_another_environment_serves_off__is_in_use(api, staging_api):
    create(api)
    off = {"type": "percentage", "percentage": 50, "serves": False}
    data(staging_api.patch("/v1/flags/f", {"rules": [off]}))
    failure = error(api.patch("/v1/flags/f", {"type": "string", "variants": COLOURS}), 409, "in_use")
    assert failure["message"] == "The new variants do not fit rules[0].serves in staging; change that first."


# --- filters ---------------------------------------------------------------------------------------------------------


def keys(response: Any) -> list[str]:
    return [flag["key"] for flag in data(response)]


def test_list__tag_and_owner__are_exact(api):
    create(api, "a", tags=["shop", "web"], owner="ada")
    create(api, "b", tags=["shop"], owner="bob")
    create(api, "c")
    assert keys(api.get("/v1/flags?tag=shop")) == ["a", "b"]
    assert keys(api.get("/v1/flags?tag=sho")) == []
    assert keys(api.get("/v1/flags?tag=SHOP")) == []
    assert keys(api.get("/v1/flags?owner=ada")) == ["a"]
    assert keys(api.get("/v1/flags?tag=web&owner=bob")) == []


def test_list__expired__goes_by_the_clock_of_the_request(api):
    create(api, "soon", expiresAt=format_timestamp(NOON + timedelta(hours=1)))
    create(api, "never")
    for hours, expired in ((0, []), (1, ["soon"]), (2, ["soon"])):
        with time_machine.travel(NOON + timedelta(hours=hours), tick=False):
            assert keys(api.get("/v1/flags?expired=true")) == expired
            others = keys(api.get("/v1/flags?expired=false"))
        assert sorted(expired + others) == ["never", "soon"]


def test_list__archived__are_shown_where_they_are_asked_for(api):
    create(api, "old")
    create(api, "new")
    data(api.post("/v1/flags/old/archive"))
    assert keys(api.get("/v1/flags")) == ["new"]
    assert keys(api.get("/v1/flags?archived=false")) == ["new"]
    assert keys(api.get("/v1/flags?archived=true")) == ["old"]
    assert keys(api.get("/v1/flags?search=old")) == []


def test_list__by_every_filter__takes_one_query(api, django_assert_max_num_queries):
    for at in range(12):
        create(api, f"f{at}", tags=["shop", "web"], owner="ada", expiresAt="2027-01-31")
    api.get("/v1/flags")
    with django_assert_max_num_queries(1):
        response = api.get("/v1/flags?tag=shop&owner=ada&archived=false&expired=true&enabled=false&search=f&limit=100")
        assert len(data(response)) in (0, 12)


# --- archive and restore ---------------------------------------------------------------------------------------------


def test_archive__flag__is_off_for_everyone_and_restored_as_it_was(api):
    FlagFactory(key="f", on=True)
    archived = api.post("/v1/flags/f/archive", HTTP_X_CHANGE_REASON="Not needed")
    assert data(archived)["enabled"] is True
    assert data(archived)["archivedAt"]
    assert archived["ETag"] == api.get("/v1/flags/f")["ETag"]
    assert data(api.post("/v1/flags/f/evaluate", {"userId": "u"})) == {"enabled": False, "reason": "disabled"}
    assert data(api.post("/v1/evaluate", {"userId": "u"})) == {}
    assert "archivedAt" not in data(api.post("/v1/flags/f/restore", {}))
    assert data(api.post("/v1/flags/f/evaluate", {"userId": "u"})) == {"enabled": True, "reason": "default"}
    assert [change.reason for change in Change.objects.of_key("flag", "f")] == ["", "Not needed", ""]


@pytest.mark.parametrize("what", ["archive", "restore"])
def test_archive_and_restore__what_is_so_already__is_answered_and_not_logged(api, what):
    FlagFactory(key="f")
    if what == "archive":
        data(api.post("/v1/flags/f/archive"))
    before, revision = api.get("/v1/flags/f"), Change.objects.latest_revision()
    after = api.post(f"/v1/flags/f/{what}")
    assert (data(after), after["ETag"]) == (data(before), before["ETag"])
    assert Change.objects.latest_revision() == revision


def test_archive__on_in_another_environment__is_refused(api, staging_api):
    FlagFactory(key="f", on=True)
    assert "production" in error(staging_api.post("/v1/flags/f/archive"), 409, "enabled_elsewhere")["message"]


def test_archive_and_delete__prerequisite_of_another__are_refused_with_its_name(api):
    create(api, "base")
    create(api, "child", prerequisites=[{"flag": "base"}])
    assert "child" in error(api.post("/v1/flags/base/archive"), 409, "in_use")["message"]
    assert "child" in error(api.delete("/v1/flags/base"), 409, "in_use")["message"]
    data(api.post("/v1/flags/child/archive"))
    data(api.post("/v1/flags/base/archive"))
    assert "child" in error(api.delete("/v1/flags/base"), 409, "in_use")["message"]


def test_archive_restore_and_revert__stale_version__is_refused(subtests, api):
    create(api)
    stale = api.get("/v1/flags/f")["ETag"]
    current = api.patch("/v1/flags/f", {"enabled": True})["ETag"]
    for what in ["archive", "restore", "revert"]:
        with undone(subtests, what=what):
            body = {"revision": int(stale.strip('"'))} if what == "revert" else None
            error(api.post(f"/v1/flags/f/{what}", body, HTTP_IF_MATCH=stale), 412, "precondition_failed")
            data(api.post(f"/v1/flags/f/{what}", body, HTTP_IF_MATCH=current))


def test_archive_restore_and_revert__unknown_flag__is_not_found(subtests, api):
    for what in ["archive", "restore", "revert"]:
        with subtests.test(what=what):
            error(
                api.post(f"/v1/flags/nope/{what}", {"revision": 1} if what == "revert" else None), 404, "flag_not_found"
            )
