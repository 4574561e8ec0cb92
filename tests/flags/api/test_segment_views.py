"""The /v1/segments operations, as a client sees them."""

from __future__ import annotations

from typing import Any

import pytest

from config.models import Change
from flags.models import Segment
from tests.answers import data, error, next_page
from tests.cases import undone

FIELDS = ["id", "key", "description", "conditions", "userIds", "createdAt", "updatedAt"]
ENTRY_FIELDS = ["id", "key", "description", "createdAt"]
PRO = {"attribute": "plan", "operator": "equals", "value": "pro"}


def create(api: Any, key: str = "beta", **values: Any) -> Any:
    return data(api.post("/v1/segments", {"key": key, **values}), 201)


def keys(response: Any) -> list[str]:
    return [segment["key"] for segment in data(response)]


# --- create, get, update ---------------------------------------------------------------------------------------------


def test_create__key_alone__has_no_members(api):
    segment = create(api)
    assert list(segment) == FIELDS
    assert (segment["description"], segment["conditions"], segment["userIds"]) == ("", [], [])


def test_create__whole_segment__is_answered_as_sent_with_its_address_and_version(api, staging_api):
    sent = {"key": "beta", "description": "Ünï", "conditions": [PRO], "userIds": ["ada", "🙂"]}
    response = api.post("/v1/segments", sent, HTTP_X_CHANGE_REASON="Asked for")
    assert sent.items() <= data(response, 201).items()
    assert response["Location"] == "http://testserver/v1/segments/beta"
    read = staging_api.get("/v1/segments/beta")
    assert (data(read), read["ETag"]) == (response.json()["data"], response["ETag"])
    assert Change.objects.first().reason == "Asked for"


def test_create__key_that_exists__is_refused(api):
    create(api)
    error(api.post("/v1/segments", {"key": "beta"}), 409, "already_exists")


def test_create__100_000_user_ids__is_accepted_and_read_back(api):
    user_ids = [f"user-{at}" for at in range(100_000)]
    assert create(api, userIds=user_ids)["userIds"] == user_ids


def test_update__what_a_segment_cannot_be__is_refused_with_its_field(subtests, api):
    before = create(api)
    for body, field, code in [
        ({"conditions": [{**PRO, "operator": "equal"}]}, "conditions[0].operator", "invalid_value"),
        ({"conditions": [{"operator": "inSegment", "value": "nope"}]}, "conditions[0].value", "unknown_reference"),
        ({"conditions": [{"operator": "inSegment", "value": "beta"}]}, "conditions[0].value", "invalid_value"),
        ({"conditions": [PRO] * 101}, "conditions", "out_of_range"),
        ({"conditions": None}, "conditions", "invalid_type"),
        ({"userIds": None}, "userIds", "invalid_type"),
        ({"userIds": ["u", "u"]}, "userIds[1]", "duplicate"),
        ({"userIds": [1]}, "userIds[0]", "invalid_type"),
        ({"userIds": [str(at) for at in range(100_001)]}, "userIds", "out_of_range"),
        ({"description": "x" * 2001}, "description", "too_long"),
        ({"key": "other"}, "key", "invalid_value"),
        ({"members": []}, "members", "unknown_field"),
    ]:
        with subtests.test(body=body, field=field):
            detail = error(api.patch("/v1/segments/beta", body), 400, "validation_failed")["details"][0]
            assert (detail["field"], detail["code"]) == (field, code)
            assert data(api.get("/v1/segments/beta")) == before


def test_update__some_properties__replaces_them_and_keeps_the_others(subtests, api):
    before = create(api, conditions=[PRO], userIds=["ada"])
    for change in [{"description": "new"}, {"conditions": []}, {"userIds": ["ada", "bob"]}]:
        with undone(subtests, change=change):
            after = data(api.patch("/v1/segments/beta", change))
            assert after == {**before, **change, "updatedAt": after["updatedAt"]}
            assert data(api.get("/v1/segments/beta")) == after


def test_update__what_was_read__can_be_sent_back_and_changes_nothing(api):
    create(api, conditions=[PRO], userIds=["ada"])
    read, revision = api.get("/v1/segments/beta"), Change.objects.latest_revision()
    after = api.patch("/v1/segments/beta", data(read), HTTP_IF_MATCH=read["ETag"])
    assert (data(after), after["ETag"]) == (data(read), read["ETag"])
    assert Change.objects.latest_revision() == revision


@pytest.mark.parametrize("method", ["patch", "delete"])
def test_update_and_delete__stale_version__are_refused(api, method):
    create(api)
    stale = api.get("/v1/segments/beta")["ETag"]
    current = api.patch("/v1/segments/beta", {"userIds": ["ada"]})["ETag"]
    body = {"description": "x"} if method == "patch" else None
    error(getattr(api, method)("/v1/segments/beta", body, HTTP_IF_MATCH=stale), 412, "precondition_failed")
    assert getattr(api, method)("/v1/segments/beta", body, HTTP_IF_MATCH=current).status_code < 300


def test_get_update_and_delete__unknown_key__is_not_found(subtests, api):
    create(api)
    for key in ["nope", "BETA", "a%00b"]:
        with subtests.test(key=key):
            error(api.get(f"/v1/segments/{key}"), 404, "not_found")
            error(api.patch(f"/v1/segments/{key}", {}), 404, "not_found")
            error(api.delete(f"/v1/segments/{key}"), 404, "not_found")


def test_update__members__are_seen_by_the_next_evaluation_in_every_environment(api, staging_api):
    create(api)
    rules = [{"type": "segment", "segment": "beta"}]
    for client in (api, staging_api):
        client.post("/v1/flags", {"key": "f", "rules": rules})
        data(client.patch("/v1/flags/f", {"enabled": True}))
        assert data(client.post("/v1/flags/f/evaluate", {"userId": "ada"}))["reason"] == "no_rule_match"
    data(staging_api.patch("/v1/segments/beta", {"userIds": ["ada"]}))
    for client in (api, staging_api):
        assert data(client.post("/v1/flags/f/evaluate", {"userId": "ada"}))["reason"] == "rule_match"


# --- delete ----------------------------------------------------------------------------------------------------------


def test_delete__segment__is_gone_and_its_history_stays(api):
    create(api)
    response = api.delete("/v1/segments/beta")
    assert (response.status_code, response.content) == (204, b"")
    assert not Segment.objects.exists()
    entries = data(api.get("/v1/audit?object=segment/beta"))
    assert [entry["action"] for entry in entries] == ["deleted", "created"]


def test_delete__used_by_flags_and_segments__is_refused_with_their_names(api, staging_api):
    create(api)
    create(api, "wider", conditions=[{"operator": "inSegment", "value": "beta"}])
    staging_api.post("/v1/flags", {"key": "f", "rules": [{"type": "segment", "segment": "beta"}]})
    message = error(api.delete("/v1/segments/beta"), 409, "in_use")["message"]
    assert "flag f" in message
    assert "segment wider" in message


# --- revert ----------------------------------------------------------------------------------------------------------


def test_revert__to_a_revision_of_the_audit__restores_the_segment(api):
    created = create(api, conditions=[PRO], userIds=["ada"])
    data(api.post("/v1/segments/beta/users", {"add": ["bob"]}))
    data(api.patch("/v1/segments/beta", {"conditions": []}))
    first = data(api.get("/v1/audit?object=segment/beta"))[-1]["revision"]
    response = api.post("/v1/segments/beta/revert", {"revision": first}, HTTP_X_CHANGE_REASON="Too early")

    assert data(response) == {**created, "updatedAt": data(response)["updatedAt"]}
    newest = data(api.get("/v1/audit?object=segment/beta&limit=1"))[0]
    assert (response["ETag"], newest["reason"]) == (f'"{newest["revision"]}"', "Too early")


def test_revert__what_cannot_be_restored__names_the_revision(api):
    create(api)
    for body in ({"revision": 1}, {}, {"revision": "1"}):
        [detail] = error(api.post("/v1/segments/beta/revert", body), 400, "validation_failed")["details"]
        assert detail["field"] == "revision"
    error(api.post("/v1/segments/nope/revert", {"revision": 1}), 404, "not_found")


# --- list ------------------------------------------------------------------------------------------------------------


def test_list__entries__carry_exactly_what_is_documented(api):
    whole = create(api, description="d", conditions=[PRO], userIds=["ada"])
    [entry] = data(api.get("/v1/segments"))
    assert list(entry) == ENTRY_FIELDS
    assert entry == {name: whole[name] for name in ENTRY_FIELDS}


def test_list__by_pages_and_search__gives_every_segment_once_by_key(api):
    for key in ("pear", "apple", "fig"):
        create(api, key, description="fruit")
    create(api, "nut")
    assert keys(api.get("/v1/segments")) == ["apple", "fig", "nut", "pear"]
    first = api.get("/v1/segments?search=FRUIT&limit=2")
    assert keys(first) == ["apple", "fig"]
    assert keys(api.get(next_page(first))) == ["pear"]


def test_list__any_number_of_segments__takes_one_query(api, django_assert_max_num_queries):
    for at in range(12):
        create(api, f"s{at}", userIds=["ada"])
    api.get("/v1/segments")
    with django_assert_max_num_queries(1):
        assert len(data(api.get("/v1/segments"))) == 12
