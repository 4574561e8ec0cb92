"""OFREP as its clients see it: one flag, all flags, what each kind of key reveals, and the number of queries."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine

from config.models import Change, Scope
from config.serving import worker_process
from flags.ofrep import tokens
from tests.answers import data
from tests.conftest import NOON, CommittingClient
from tests.factories import FlagFactory
from tests.flags.ofrep.calls import ask, ask_all, bulk, by_key, one

pytestmark = pytest.mark.both_lanes

COLOURS = [{"key": "blue", "value": "#00f"}, {"key": "green", "value": "#0f0"}]
SECRET = [
    {"type": "segment", "segment": "secret-segment", "name": "Secret name"},
    {
        "type": "attribute",
        "name": "Secret name",
        "conditions": [{"attribute": "secretAttribute", "operator": "equals", "value": "secret value"}],
    },
]


def create(api: Any, key: str = "f", **values: Any) -> Any:
    return data(api.post("/v1/flags", {"key": key, "enabled": True, **values}), 201)


# --- one flag --------------------------------------------------------------------------------------------------------


def test_one__flag_with_variants__is_its_value_and_how_it_came_about(api):
    create(api, type="string", variants=COLOURS, rules=[{"type": "users", "userIds": ["u"], "name": "Ourselves"}])
    response = one(api, "f", {"targetingKey": "u"})
    assert (response.status_code, response["Content-Type"]) == (200, "application/json")
    assert response.json() == {
        "key": "f",
        "reason": "TARGETING_MATCH",
        "value": "#00f",
        "variant": "blue",
        "metadata": {
            "flagSetId": "production",
            "revision": Change.objects.latest_revision(),
            "version": str(Change.objects.latest_revision()),
            "reason": "rule_match",
            "rule": 0,
            "ruleName": "Ourselves",
        },
    }


def test_one__flag_that_is_archived__is_off(api):
    create(api)
    data(api.post("/v1/flags/f/archive"))
    assert (ask(api, "f")["reason"], ask(api, "f")["value"]) == ("DISABLED", False)


def test_one__flag_in_another_environment__is_as_it_stands_there(api, staging_api):
    create(api)
    assert ask(api, "f")["value"] is True
    answer = ask(staging_api, "f")
    assert (answer["value"], answer["metadata"]["flagSetId"]) == (False, "staging")


def test_one__user_without_a_targeting_key__is_refused_only_where_a_share_decides(api):
    create(api, "half", rules=[{"type": "percentage", "percentage": 50}])
    create(api, "all", rules=[{"type": "percentage", "percentage": 100}])
    for context in ({}, {"targetingKey": ""}, {"targetingKey": None}):
        response = one(api, "half", context)
        assert response.status_code == 400
        assert response.json() == {
            "key": "half",
            "errorCode": "TARGETING_KEY_MISSING",
            "errorDetails": response.json()["errorDetails"],
            "metadata": {},
        }
        assert ask(api, "all", context)["value"] is True


def test_one__attribute_named_like_the_user_id__is_not_taken_for_it(api):
    create(
        api, rules=[{"type": "attribute", "conditions": [{"attribute": "userId", "operator": "equals", "value": "u"}]}]
    )
    assert ask(api, "f", {"targetingKey": "v", "userId": "u"})["value"] is False
    assert ask(api, "f", {"userId": "u"})["value"] is False
    assert ask(api, "f", {"targetingKey": "u", "userId": "v"})["value"] is True


def test_one__key_that_no_flag_has__is_sent_back(subtests, api):
    create(api)
    for key in ["no-such-flag", "F", "a/b", "a b", "ü", "f%00", "..x", "f/", "x" * 3000]:
        with subtests.test(key=key):
            response = one(api, key.replace("ü", "%C3%BC").replace(" ", "%20"), {"targetingKey": "u"})
            assert response.status_code == 404
            assert response.json().keys() == {"key", "errorCode", "errorDetails", "metadata"}
            assert (response.json()["key"], response.json()["errorCode"]) == (
                key.replace("%00", "\0"),
                "FLAG_NOT_FOUND",
            )


# --- all flags -------------------------------------------------------------------------------------------------------


def test_all__flags__are_those_that_are_not_archived_each_as_alone(api):
    for at in range(12):
        create(api, f"f{at}", rules=[{"type": "percentage", "percentage": 9 * at}])
    create(api, "colour", type="string", variants=COLOURS)
    create(api, "child", prerequisites=[{"flag": "f5"}])
    create(api, "old", enabled=False)
    data(api.post("/v1/flags/old/archive"))
    for user in ("ada", "bob", "eve"):
        evaluations = by_key(ask_all(api, {"targetingKey": user}))
        assert len(evaluations) == 14
        for key, answer in evaluations.items():
            alone = ask(api, key, {"targetingKey": user})
            del alone["metadata"]["revision"]
            assert answer == alone


def test_all__of_an_environment__tell_which_and_at_which_revision(api, staging_api):
    create(api)
    created = Change.objects.latest_revision()
    data(api.patch("/v1/flags/f", {"rules": [{"type": "percentage", "percentage": 50}]}))
    assert ask_all(api)["metadata"] == {"flagSetId": "production", "revision": created + 1}
    assert ask_all(staging_api)["metadata"] == {"flagSetId": "staging", "revision": created}


def test_all__entries__stay_the_same_while_another_flag_changes(api):
    """Clients compare entries, and tell the application which flags have changed."""
    create(api, "a")
    create(api, "b")
    before = by_key(ask_all(api))
    data(api.patch("/v1/flags/b", {"enabled": False}))
    after = by_key(ask_all(api))
    assert after["a"] == before["a"]
    assert after["b"] != before["b"]


def test_all__flags_named_in_the_context__are_those_alone(api):
    for key in ("a", "b", "old"):
        create(api, key)
    data(api.post("/v1/flags/old/archive"))
    assert list(by_key(ask_all(api, {"flags": ["b", "a", "?", "old", "b"]}))) == ["b", "a"]
    assert ask_all(api, {"flags": ["?"]})["flags"] == []
    for no_filter in ([], "a", ["a", 1], {"a": 1}, None):
        assert by_key(ask_all(api, {"flags": no_filter})).keys() == {"a", "b"}


def test_all__flags_named_in_the_context__are_an_attribute_too(api):
    create(
        api, rules=[{"type": "attribute", "conditions": [{"attribute": "flags", "operator": "equals", "value": "f"}]}]
    )
    assert by_key(ask_all(api, {"flags": ["f"]}))["f"]["value"] is True
    assert by_key(ask_all(api, {"flags": []}))["f"]["value"] is False


def test_all__user_without_a_targeting_key__fails_for_the_flags_that_need_one(api):
    create(api, "half", rules=[{"type": "percentage", "percentage": 50}])
    create(api, "plain")
    evaluations = by_key(ask_all(api, {}))
    assert evaluations["half"].keys() == {"key", "errorCode", "errorDetails", "metadata"}
    assert evaluations["half"]["errorCode"] == "TARGETING_KEY_MISSING"
    assert evaluations["plain"]["value"] is True


def test_all__of_nothing__are_none(api):
    assert ask_all(api)["flags"] == []


# --- what keys reveal ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", [Scope.SERVER, Scope.MANAGE])
def test_rule__for_keys_that_may_read_rules__is_named(api, client_of, scope):
    client = client_of(scope)
    create(api, rules=[SECRET[1]])
    context = {"targetingKey": "u", "secretAttribute": "secret value"}
    rule = {"rule": 0, "ruleName": "Secret name"}
    assert rule.items() <= ask(client, "f", context)["metadata"].items()
    assert rule.items() <= by_key(ask_all(client, context))["f"]["metadata"].items()


def test_rule__for_keys_of_scope_client__is_never_shown(api, client_of):
    client = client_of(Scope.CLIENT)
    data(api.post("/v1/segments", {"key": "secret-segment", "userIds": ["u"]}), 201)
    create(api, "base", description="Secret description", tags=["secret-tag"], owner="secret-owner")
    create(api, rules=SECRET, prerequisites=[{"flag": "base"}])
    create(api, "half", rules=[{"type": "percentage", "percentage": 50, "name": "Secret name", "salt": "secret-salt"}])
    for user in ("u", "v", ""):
        for attributes in ({}, {"secretAttribute": "secret value"}):
            context = {"targetingKey": user, **attributes}
            responses = [bulk(client, context), *(one(client, key, context) for key in ("f", "half"))]
            for response in responses:
                assert "ecret" not in response.content.decode()
                assert '"rule"' not in response.content.decode()


# --- streams ---------------------------------------------------------------------------------------------------------


def test_event_streams__where_some_are_served__come_with_all_flags(api, monkeypatch):
    monkeypatch.setattr(worker_process, "stream_port", 8001)
    create(api)
    with time_machine.travel(NOON, tick=False):
        answer = ask_all(api)
    [stream] = answer["eventStreams"]
    address, _, query = stream["url"].partition("?token=")
    token, _, revision = query.partition("&revision=")
    assert revision == str(answer["metadata"]["revision"])
    assert address == "http://testserver:8001/ofrep/v1/streams/production"
    ticket = tokens.read(token, environment="production", now=NOON)
    assert (ticket.since, len(ticket.key_id)) == (NOON, 36)


def test_event_streams__after_a_change__keep_the_address_of_a_client_and_give_new_ones_the_revision(api, monkeypatch):
    monkeypatch.setattr(worker_process, "stream_port", 8001)

    def address(response):
        return response.json()["eventStreams"][0]["url"]

    with time_machine.travel(NOON, tick=False) as clock:
        create(api)
        first = bulk(api)
        data(api.patch("/v1/flags/f", {"enabled": False}))
        again = bulk(api, HTTP_IF_NONE_MATCH=first["ETag"])
        assert (again.status_code, address(again)) == (200, address(first))
        assert bulk(api, HTTP_IF_NONE_MATCH=again["ETag"]).status_code == 304
        new = bulk(api)
        assert address(new).endswith(f"&revision={new.json()['metadata']['revision']}")
        assert address(new) != address(first)
        for foreign in ('"none"', "", '"00-1-99999"', '"00-' + "9" * 30 + '-1"', again["ETag"].replace("-", "_")):
            assert address(bulk(api, HTTP_IF_NONE_MATCH=foreign)) == address(new)
        clock.shift(timedelta(minutes=31))
        later = bulk(api, HTTP_IF_NONE_MATCH=again["ETag"])
        assert address(later).endswith(address(new).partition("&")[2])


def test_event_streams__of_a_caller_without_a_key__name_none(settings, db, monkeypatch):
    settings.ANONYMOUS_SCOPE = "client"
    monkeypatch.setattr(worker_process, "stream_port", 8001)
    FlagFactory(key="f")
    client = CommittingClient()
    client.default_format = "json"
    with time_machine.travel(NOON, tick=False):
        [stream] = ask_all(client)["eventStreams"]
    token = stream["url"].partition("?token=")[2].partition("&")[0]
    assert tokens.read(token, environment="production", now=NOON).key_id == ""


def test_event_streams__where_none_are_served__are_left_out(api):
    assert ask_all(api).keys() == {"flags", "metadata"}


# --- what it costs ---------------------------------------------------------------------------------------------------


def test_evaluations__of_any_kind__ask_the_database_nothing(api, monkeypatch, django_assert_num_queries):
    monkeypatch.setattr(worker_process, "stream_port", 8001)
    FlagFactory.create_batch(5, half=True)
    response = bulk(api)
    with django_assert_num_queries(0):
        assert len(ask_all(api)["flags"]) == 5
        assert len(ask_all(api, {})["flags"]) == 5
        assert ask(api, response.json()["flags"][0]["key"])["reason"]
        assert one(api, "nope").status_code == 404
        assert bulk(api, 1).status_code == 400
        assert bulk(api, HTTP_IF_NONE_MATCH=response["ETag"]).status_code == 304
