"""The /v1/flags operations, as a client sees them."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pytest

from config.models import Change
from flags.models import Flag
from tests.answers import data, error, next_page
from tests.cases import undone
from tests.factories import FlagFactory

FIELDS = ["id", "key", "description", "enabled", "rules", "createdAt", "updatedAt"]
ENTRY_FIELDS = ["id", "key", "description", "enabled", "createdAt"]
HALF = [{"type": "percentage", "percentage": 50}]
EVERYONE = [{"type": "percentage", "percentage": 100}]
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


# --- create ----------------------------------------------------------------------------------------------------------


def test_create__key_alone__gets_the_defaults(api):
    flag = data(api.post("/v1/flags", {"key": "checkout"}), 201)
    assert list(flag) == FIELDS
    assert (flag["key"], flag["description"], flag["enabled"], flag["rules"]) == ("checkout", "", False, [])
    assert UUID(flag["id"]).version == 7
    assert TIMESTAMP.fullmatch(flag["createdAt"])
    assert flag["updatedAt"] == flag["createdAt"]


def test_create__whole_flag__is_answered_as_sent_with_its_address_and_version(api):
    sent = {"key": "Check.out_2-x", "description": "Ünïcode 🙂", "enabled": True, "rules": HALF}
    response = api.post("/v1/flags", sent)
    assert sent.items() <= data(response, 201).items()
    assert response["Location"] == "http://testserver/v1/flags/Check.out_2-x"
    read = api.get(response["Location"])
    assert data(read) == response.json()["data"]
    assert read["ETag"] == response["ETag"]


def test_create__rules__come_back_exactly_as_they_were_sent(api):
    rules = [
        {"type": "percentage", "percentage": 12.125},
        {"type": "users", "userIds": ["ada", "🙂"], "percentage": 100},
        {
            "type": "attribute",
            "conditions": [
                {"attribute": "plan", "operator": "in", "value": ["pro", 1, 1.5, True]},
                {"attribute": "age", "operator": "greaterThan", "value": 17},
                {"attribute": "email", "operator": "exists"},
            ],
        },
    ]
    data(api.post("/v1/flags", {"key": "f", "rules": rules}), 201)
    assert data(api.get("/v1/flags/f"))["rules"] == rules


def test_create__key_of_the_documented_form__is_accepted_and_found(subtests, api):
    for key in ["a", "0", "A.b_c-d", "a" * 100]:
        with subtests.test(key=key):
            data(api.post("/v1/flags", {"key": key}), 201)
            assert data(api.get(f"/v1/flags/{key}"))["key"] == key


def test_create__keys_that_differ_in_case__are_two_flags(api):
    data(api.post("/v1/flags", {"key": "flag", "description": "small"}), 201)
    data(api.post("/v1/flags", {"key": "FLAG", "description": "large"}), 201)
    assert data(api.get("/v1/flags/flag"))["description"] == "small"
    assert data(api.get("/v1/flags/FLAG"))["description"] == "large"


def test_create__key_that_exists__is_refused_and_changes_nothing(api):
    FlagFactory(key="taken", description="first")
    error(api.post("/v1/flags", {"key": "taken", "description": "second"}), 409, "already_exists")
    assert data(api.get("/v1/flags/taken"))["description"] == "first"


def test_create__every_mistake__is_named_in_one_answer(api):
    failure = error(
        api.post("/v1/flags", {"key": 1, "description": [], "enabled": "yes", "rulez": []}), 400, "validation_failed"
    )
    named = {detail["field"]: detail["code"] for detail in failure["details"]}
    assert named == {
        "key": "invalid_type",
        "description": "invalid_type",
        "enabled": "invalid_type",
        "rulez": "unknown_field",
    }
    assert not Flag.objects.exists()


def test_create__in_one_environment__starts_off_in_the_other_with_the_same_rules(api, staging_api):
    created = data(api.post("/v1/flags", {"key": "f", "description": "d", "enabled": True, "rules": HALF}), 201)
    assert data(staging_api.get("/v1/flags/f")) == {**created, "enabled": False}


# --- get, update -----------------------------------------------------------------------------------------------------


def test_get__flag__carries_exactly_what_is_documented_and_its_version(api):
    FlagFactory(key="f", half=True)
    response = api.get("/v1/flags/f")
    assert list(data(response)) == FIELDS
    assert re.fullmatch(r'"\d+"', response["ETag"])


def test_get__unknown_key__is_not_found(api):
    assert "'nope'" in error(api.get("/v1/flags/nope"), 404, "flag_not_found")["message"]


def test_update__some_properties__replaces_them_and_keeps_the_others(subtests, api):
    FlagFactory(key="f", description="old", rules=HALF)
    before = data(api.get("/v1/flags/f"))
    for change in [{"enabled": True}, {"description": "new"}, {"rules": []}, {"enabled": True, "rules": EVERYONE}]:
        with undone(subtests, change=change):
            after = data(api.patch("/v1/flags/f", change))
            assert after == {**before, **change, "updatedAt": after["updatedAt"]}
            assert after["updatedAt"] > before["updatedAt"]
            assert data(api.get("/v1/flags/f")) == after


def test_update__nothing_new__changes_neither_version_nor_moment_nor_log(subtests, api):
    FlagFactory(key="f", description="old", rules=HALF)
    before, revision = api.get("/v1/flags/f"), Change.objects.latest_revision()
    for body in [{}, {"enabled": False}, {"description": "old", "rules": HALF}]:
        with subtests.test(body=body):
            after = api.patch("/v1/flags/f", body)
            assert data(after) == data(before)
            assert after["ETag"] == before["ETag"]
            assert Change.objects.latest_revision() == revision


def test_update__what_was_read__can_be_edited_and_sent_back(api):
    FlagFactory(key="f", half=True)
    read = data(api.get("/v1/flags/f"))
    assert data(api.patch("/v1/flags/f", {**read, "description": "edited"}))["description"] == "edited"


def test_update__state_and_rules__are_those_of_the_environment_alone(api, staging_api):
    FlagFactory(key="f")
    staging_version = staging_api.get("/v1/flags/f")["ETag"]
    data(api.patch("/v1/flags/f", {"enabled": True, "rules": HALF}))
    elsewhere = staging_api.get("/v1/flags/f")
    assert (data(elsewhere)["enabled"], data(elsewhere)["rules"]) == (False, [])
    assert elsewhere["ETag"] == staging_version


def test_update__description__is_common_to_all_environments(api, staging_api):
    FlagFactory(key="f")
    data(api.patch("/v1/flags/f", {"description": "common"}))
    assert data(staging_api.get("/v1/flags/f"))["description"] == "common"


def test_update__bad_rule__names_it_and_changes_nothing(api):
    FlagFactory(key="f", half=True)
    before = data(api.get("/v1/flags/f"))
    body = {"enabled": False, "rules": [EVERYONE[0], {"type": "percentage", "percentage": 101}]}
    failure = error(api.patch("/v1/flags/f", body), 400, "validation_failed")
    assert [detail["field"] for detail in failure["details"]] == ["rules[1].percentage"]
    assert data(api.get("/v1/flags/f")) == before


def test_update__current_version__is_taken_and_makes_a_new_one(api):
    FlagFactory(key="f")
    first = api.get("/v1/flags/f")["ETag"]
    second = api.patch("/v1/flags/f", {"enabled": True}, HTTP_IF_MATCH=first)
    data(second)
    assert second["ETag"] not in ("", first)
    data(api.patch("/v1/flags/f", {"enabled": False}, HTTP_IF_MATCH=f'"0", {second["ETag"]}'))
    data(api.patch("/v1/flags/f", {"enabled": True}, HTTP_IF_MATCH="*"))


def test_update__stale_version__is_refused_even_where_the_whole_flag_is_sent(api):
    FlagFactory(key="f")
    read = api.get("/v1/flags/f")
    data(api.patch("/v1/flags/f", {"description": "meanwhile"}))
    body = {**data(read), "enabled": True}
    error(api.patch("/v1/flags/f", body, HTTP_IF_MATCH=read["ETag"]), 412, "precondition_failed")
    assert data(api.get("/v1/flags/f"))["enabled"] is False


# --- delete ----------------------------------------------------------------------------------------------------------


def test_delete__flag__is_gone_everywhere_and_its_history_stays(api, staging_api):
    flag = FlagFactory(key="f", on=True)
    response = api.delete("/v1/flags/f")
    assert (response.status_code, response.content) == (204, b"")
    for client in (api, staging_api):
        error(client.get("/v1/flags/f"), 404, "flag_not_found")
        error(client.post("/v1/flags/f/evaluate", {"userId": "u"}), 404, "flag_not_found")
    assert [change.action for change in Change.objects.of("flag", flag.pk)] == ["deleted", "created"]


def test_delete__on_in_another_environment__is_refused_until_it_is_off_there(api, staging_api):
    FlagFactory(key="f", on=True)
    assert "production" in error(staging_api.delete("/v1/flags/f"), 409, "enabled_elsewhere")["message"]
    data(api.patch("/v1/flags/f", {"enabled": False}))
    assert staging_api.delete("/v1/flags/f").status_code == 204


def test_delete__stale_version__is_refused(api):
    FlagFactory(key="f")
    stale = api.get("/v1/flags/f")["ETag"]
    current = api.patch("/v1/flags/f", {"enabled": True})["ETag"]
    error(api.delete("/v1/flags/f", HTTP_IF_MATCH=stale), 412, "precondition_failed")
    assert api.delete("/v1/flags/f", HTTP_IF_MATCH=current).status_code == 204


@pytest.mark.parametrize("body", [None, {}])
def test_delete__no_body_or_an_empty_object__are_the_same(api, body):
    FlagFactory(key="f")
    assert api.delete("/v1/flags/f", body).status_code == 204


def test_delete__key__can_be_used_again_for_another_flag(api):
    first = data(api.post("/v1/flags", {"key": "f"}), 201)
    assert api.delete("/v1/flags/f").status_code == 204
    assert data(api.post("/v1/flags", {"key": "f"}), 201)["id"] != first["id"]


# --- list ------------------------------------------------------------------------------------------------------------


def keys(response: Any) -> list[str]:
    return [flag["key"] for flag in data(response)]


def test_list__no_flags__is_an_empty_array(api):
    assert data(api.get("/v1/flags")) == []


def test_list__entries__carry_exactly_what_is_documented(api):
    FlagFactory(key="f", half=True, description="d")
    whole = data(api.get("/v1/flags/f"))
    [entry] = data(api.get("/v1/flags"))
    assert list(entry) == ENTRY_FIELDS
    assert entry == {name: whole[name] for name in ENTRY_FIELDS}


def test_list__without_limit__is_all_of_them_by_key(api):
    for key in ("pear", "apple", "fig"):
        FlagFactory(key=key)
    FlagFactory.create_batch(120)
    response = api.get("/v1/flags")
    assert keys(response)[:2] == ["apple", "fig"]
    assert keys(response)[-1] == "pear"
    assert len(keys(response)) == 123
    assert "Link" not in response


def test_list__by_pages__gives_every_flag_once(api):
    expected = sorted(flag.key for flag in FlagFactory.create_batch(7))
    pages, address = [], "/v1/flags?limit=3"
    while address:
        response = api.get(address)
        pages.append(keys(response))
        address = next_page(response)
    assert pages == [expected[:3], expected[3:6], expected[6:]]


def test_list__limit_that_takes_the_last__names_no_next_page(api):
    FlagFactory.create_batch(3)
    assert "Link" not in api.get("/v1/flags?limit=3")
    assert "Link" in api.get("/v1/flags?limit=2")


def test_list__next_page__keeps_the_filters(api):
    for at in range(4):
        FlagFactory(key=f"on-{at}", on=True)
    FlagFactory(key="on-0-not")
    first = api.get("/v1/flags?limit=2&enabled=true&search=on-")
    assert keys(first) == ["on-0", "on-1"]
    assert keys(api.get(next_page(first))) == ["on-2", "on-3"]


def test_list__enabled__means_in_this_environment(api, staging_api):
    FlagFactory(key="on", on=True)
    FlagFactory(key="off")
    assert keys(api.get("/v1/flags?enabled=true")) == ["on"]
    assert keys(api.get("/v1/flags?enabled=false")) == ["off"]
    assert keys(staging_api.get("/v1/flags?enabled=true")) == []
    assert keys(staging_api.get("/v1/flags?enabled=false")) == ["off", "on"]


def test_list__search__looks_in_keys_and_descriptions_in_any_case(subtests, api):
    FlagFactory(key="checkout", description="The one-page way")
    FlagFactory(key="sale", description="50% off")
    for text, expected in [
        ("CHECK", ["checkout"]), ("one-PAGE", ["checkout"]), ("%25", ["sale"]), ("_", []), ("zz", []),
    ]:  # fmt: skip
        with subtests.test(text=text):
            assert keys(api.get(f"/v1/flags?search={text}")) == expected


def test_list__head__is_get_without_a_body(api):
    response = api.head("/v1/flags")
    assert (response.status_code, response.content) == (200, b"")


def test_list__any_number_of_flags__takes_one_query(api, django_assert_max_num_queries):
    FlagFactory.create_batch(12, half=True)
    api.get("/v1/flags")
    with django_assert_max_num_queries(1):
        assert len(data(api.get("/v1/flags"))) == 12


# --- evaluate --------------------------------------------------------------------------------------------------------


def evaluation(client: Any, body: dict[str, Any], key: str = "f") -> tuple[bool, str]:
    evaluation = data(client.post(f"/v1/flags/{key}/evaluate", body))
    assert list(evaluation) == ["enabled", "reason"]
    return evaluation["enabled"], evaluation["reason"]


def test_evaluate__each_reason__is_as_documented(subtests, api):
    for flag, answer in [
        ({"enabled": False, "rules": EVERYONE}, (False, "disabled")),
        ({"enabled": False}, (False, "disabled")),
        ({"enabled": True}, (True, "default")),
        ({"enabled": True, "rules": EVERYONE}, (True, "rule_match")),
        ({"enabled": True, "rules": [{"type": "percentage", "percentage": 0}]}, (False, "no_rule_match")),
        ({"enabled": True, "rules": [{"type": "users", "userIds": ["u"]}]}, (True, "rule_match")),
        ({"enabled": True, "rules": [{"type": "users", "userIds": ["v"]}]}, (False, "no_rule_match")),
        ({"enabled": True, "rules": [{"type": "users", "userIds": ["v"]}, *EVERYONE]}, (True, "rule_match")),
    ]:
        with undone(subtests, flag=flag):
            FlagFactory(key="f", **flag)
            assert evaluation(api, {"userId": "u"}) == answer


def test_evaluate__attributes__decide_and_never_fail(subtests, api):
    condition = {"attribute": "plan", "operator": "equals", "value": "pro"}
    FlagFactory(key="f", enabled=True, rules=[{"type": "attribute", "conditions": [condition]}])
    for attributes, enabled in [
        ({"plan": "pro"}, True),
        ({"plan": "free"}, False),
        ({"plan": ["free", "pro"]}, True),
        ({"plan": [["pro"]]}, False),
        ({"plan": None}, False),
        ({}, False),
        ({"Plan": "pro"}, False),
        ({"plan": "pro", "anything": {"else": [1, None, {"x": "🙂"}]}}, True),
    ]:
        with subtests.test(attributes=attributes, enabled=enabled):
            assert evaluation(api, {"userId": "u", "attributes": attributes})[0] is enabled


def test_evaluate__user_id__is_an_attribute_that_cannot_be_forged(api):
    condition = {"attribute": "userId", "operator": "equals", "value": "ada"}
    FlagFactory(key="f", enabled=True, rules=[{"type": "attribute", "conditions": [condition]}])
    assert evaluation(api, {"userId": "ada"}) == (True, "rule_match")
    assert evaluation(api, {"userId": "eve", "attributes": {"userId": "ada"}}) == (False, "no_rule_match")


def test_evaluate__user_id_of_1_to_200_characters__is_accepted(subtests, api):
    FlagFactory(key="f", on=True)
    for user_id in ["u", "u" * 200, "🙂" * 200, " ", "a\nb", "0"]:
        with subtests.test(user_id=user_id):
            assert evaluation(api, {"userId": user_id}) == (True, "default")


def test_evaluate__half__is_half_of_the_users_and_always_the_same(api):
    FlagFactory(key="f", half=True)
    answers = [evaluation(api, {"userId": f"user-{at}"})[0] for at in range(60)]
    assert answers == [evaluation(api, {"userId": f"user-{at}"})[0] for at in range(60)]
    assert 15 < sum(answers) < 45


def test_evaluate__after_an_update__sees_it_at_once(api, staging_api):
    FlagFactory(key="f")
    assert evaluation(api, {"userId": "u"}) == (False, "disabled")
    data(api.patch("/v1/flags/f", {"enabled": True}))
    assert evaluation(api, {"userId": "u"}) == (True, "default")
    data(api.patch("/v1/flags/f", {"rules": [{"type": "percentage", "percentage": 0}]}))
    assert evaluation(api, {"userId": "u"}) == (False, "no_rule_match")
    assert evaluation(staging_api, {"userId": "u"}) == (False, "disabled")


def test_evaluate__unknown_flag__is_not_found(api):
    error(api.post("/v1/flags/nope/evaluate", {"userId": "u"}), 404, "flag_not_found")


def test_evaluate__in_every_way__asks_the_database_nothing(api, django_assert_max_num_queries):
    FlagFactory(key="f", half=True)
    evaluation(api, {"userId": "u"})
    with django_assert_max_num_queries(0):
        evaluation(api, {"userId": "u", "attributes": {"plan": "pro"}})
        error(api.post("/v1/flags/nope/evaluate", {"userId": "u"}), 404, "flag_not_found")
        error(api.post("/v1/flags/f/evaluate", {"userId": 1}), 400, "validation_failed")
