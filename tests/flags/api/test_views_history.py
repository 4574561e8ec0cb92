"""The history of a flag, and reverts, as a client sees them."""

from __future__ import annotations

from typing import Any

from config.models import Change
from tests.answers import data, error, next_page
from tests.factories import FlagFactory

HALF = {"type": "percentage", "percentage": 50}


def history(client: Any, key: str = "f", query: str = "") -> list[Any]:
    entries: list[Any] = data(client.get(f"/v1/flags/{key}/history{query}"))
    return entries


# --- history ---------------------------------------------------------------------------------------------------------


def test_history__of_a_flag__says_who_when_why_and_what(api):
    created = data(api.post("/v1/flags", {"key": "f", "rules": [HALF]}), 201)
    data(api.patch("/v1/flags/f", {"rules": [{**HALF, "percentage": 60}]}, HTTP_X_CHANGE_REASON="Going%20well"))
    newest, oldest = history(api)
    assert newest == {
        "revision": Change.objects.latest_revision(),
        "at": data(api.get("/v1/flags/f"))["updatedAt"],
        "actor": "key manage of production",
        "source": "api",
        "reason": "Going well",
        "action": "changed",
        "object": {"kind": "flag", "id": created["id"], "key": "f"},
        "environment": "production",
        "changes": [{"field": "rules[0].percentage", "before": 50, "after": 60}],
    }
    assert (oldest["action"], oldest["at"]) == ("created", created["createdAt"])
    assert {change["field"]: change["after"] for change in oldest["changes"]} == {
        "description": "",
        "enabled": False,
        "rules": [HALF],
    }


def test_history__in_each_environment__tells_its_own_states_alone(api, staging_api):
    FlagFactory(key="f")
    data(staging_api.patch("/v1/flags/f", {"enabled": True}))
    data(staging_api.patch("/v1/flags/f", {"description": "common", "rules": [HALF]}))
    assert [entry["changes"] for entry in history(api)[:-1]] == [
        [{"field": "description", "before": "", "after": "common"}]
    ]
    assert [entry["changes"] for entry in history(staging_api)[:-1]] == [
        [
            {"field": "description", "before": "", "after": "common"},
            {"field": "rules[0]", "after": HALF},
        ],
        [{"field": "enabled", "before": False, "after": True}],
    ]
    assert {entry.get("environment") for entry in history(api)} == {None}


def test_history__of_a_deleted_flag__stays_and_goes_on_with_the_next_of_its_key(api):
    FlagFactory(key="f")
    assert api.delete("/v1/flags/f").status_code == 204
    FlagFactory(key="f")
    assert [entry["action"] for entry in history(api)] == ["created", "deleted", "created"]
    first, second = history(api)[2]["object"]["id"], history(api)[0]["object"]["id"]
    assert first != second


def test_history__of_a_flag_that_never_was__is_not_found(subtests, api):
    FlagFactory(key="f")
    for key in ["nope", "F", "a%00b"]:
        with subtests.test(key=key):
            error(api.get(f"/v1/flags/{key}/history"), 404, "flag_not_found")


def test_history__by_pages__gives_every_change_once(api):
    FlagFactory(key="f")
    for at in range(6):
        data(api.patch("/v1/flags/f", {"description": str(at)}))
    expected = [entry["revision"] for entry in history(api)]
    revisions, address = [], "/v1/flags/f/history?limit=3"
    while address:
        response = api.get(address)
        revisions += [entry["revision"] for entry in data(response)]
        address = next_page(response)
    assert revisions == expected == sorted(expected, reverse=True)
    assert len(revisions) == 7


def test_history__any_length__takes_three_queries(api, django_assert_max_num_queries):
    FlagFactory(key="f")
    for at in range(12):
        data(api.patch("/v1/flags/f", {"description": str(at)}))
    api.get("/v1/flags")
    with django_assert_max_num_queries(3):
        assert len(history(api)) == 13


# --- revert ----------------------------------------------------------------------------------------------------------


def test_revert__to_a_revision__restores_what_is_common_and_this_environment_s_state(api, staging_api):
    FlagFactory(key="f", description="first", half=True)
    before, revision = data(api.get("/v1/flags/f")), Change.objects.latest_revision()
    data(api.patch("/v1/flags/f", {"description": "second", "enabled": False, "rules": [], "owner": "ada"}))
    data(staging_api.patch("/v1/flags/f", {"rules": []}))
    response = api.post("/v1/flags/f/revert", {"revision": revision}, HTTP_X_CHANGE_REASON="Too early")
    assert data(response) == {**before, "updatedAt": data(response)["updatedAt"]}
    assert response["ETag"] == api.get("/v1/flags/f")["ETag"]
    assert data(staging_api.get("/v1/flags/f"))["rules"] == []
    newest = history(api)[0]
    assert newest["reason"] == "Too early"
    assert {change["field"] for change in newest["changes"]} == {"description", "enabled", "rules[0]", "owner"}


def test_revert__to_what_it_is__changes_nothing(api):
    FlagFactory(key="f")
    revision = Change.objects.latest_revision()
    before = api.get("/v1/flags/f")
    after = api.post("/v1/flags/f/revert", {"revision": revision})
    assert (data(after), after["ETag"]) == (data(before), before["ETag"])
    assert Change.objects.latest_revision() == revision


def test_revert__to_what_needs_something_that_is_gone__names_the_revision_and_what_is_missing(api):
    FlagFactory(key="base")
    data(api.post("/v1/flags", {"key": "f", "prerequisites": [{"flag": "base"}]}), 201)
    revision = Change.objects.latest_revision()
    data(api.patch("/v1/flags/f", {"prerequisites": []}))
    assert api.delete("/v1/flags/base").status_code == 204
    [detail] = error(api.post("/v1/flags/f/revert", {"revision": revision}), 400, "validation_failed")["details"]
    assert (detail["field"], detail["code"]) == ("revision", "unknown_reference")
    assert detail["message"] == "prerequisites[0].flag: No flag has the key base; create it first."


def test_revert__to_before_a_variant_that_is_served_elsewhere__is_in_use(api, staging_api):
    variants = [{"key": "a", "value": "A"}, {"key": "b", "value": "B"}]
    data(api.post("/v1/flags", {"key": "f", "type": "string", "variants": variants[:1]}), 201)
    revision = Change.objects.latest_revision()
    data(api.patch("/v1/flags/f", {"variants": variants}))
    data(staging_api.patch("/v1/flags/f", {"rules": [{**HALF, "variant": "b"}]}))
    assert "staging" in error(api.post("/v1/flags/f/revert", {"revision": revision}), 409, "in_use")["message"]


def test_revert__to_a_revision_of_another_environment__is_none_of_this_history(api, staging_api):
    FlagFactory(key="f")
    data(staging_api.patch("/v1/flags/f", {"enabled": True}))
    elsewhere = Change.objects.latest_revision()
    refused = error(api.post("/v1/flags/f/revert", {"revision": elsewhere}), 400, "validation_failed")
    assert [(detail["field"], detail["code"]) for detail in refused["details"]] == [("revision", "unknown_reference")]
    data(staging_api.post("/v1/flags/f/revert", {"revision": elsewhere}))


def test_revert__to_a_revision_of_something_else_or_none__names_it(api):
    FlagFactory(key="f")
    FlagFactory(key="g")
    for revision in (Change.objects.latest_revision(), 1, 10**15):
        [detail] = error(api.post("/v1/flags/f/revert", {"revision": revision}), 400, "validation_failed")["details"]
        assert (detail["field"], detail["code"]) == ("revision", "unknown_reference")
