"""Evaluations of one flag, of several, and explained, as a client sees them."""

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

COLOURS = [{"key": "blue", "value": "#00f"}, {"key": "green", "value": "#0f0"}]
PRO = {"attribute": "plan", "operator": "equals", "value": "pro"}
BLUE, GREEN = {"variant": "blue", "value": "#00f"}, {"variant": "green", "value": "#0f0"}


def create(api: Any, key: str = "f", **values: Any) -> Any:
    return data(api.post("/v1/flags", {"key": key, "enabled": True, **values}), 201)


def evaluate(client: Any, key: str = "f", **body: Any) -> Any:
    return data(client.post(f"/v1/flags/{key}/evaluate", {"userId": "u", **body}))


def evaluate_all(client: Any, **body: Any) -> Any:
    return data(client.post("/v1/evaluate", {"userId": "u", **body}))


def explain(client: Any, key: str = "f", **body: Any) -> Any:
    return data(client.post(f"/v1/flags/{key}/explain", {"userId": "u", **body}))


def numbered(response: Any) -> int:
    return int(response["X-Revision"])


# --- evaluate --------------------------------------------------------------------------------------------------------


@pytest.mark.both_lanes
def test_evaluate__flag_with_variants__answers_one_and_its_value(subtests, api):
    FlagFactory(key="off")
    for flag, answer in [
        ({"enabled": False}, {"enabled": False, "reason": "disabled", **GREEN}),
        ({}, {"enabled": True, "reason": "default", **BLUE}),
        (
            {"rules": [{"type": "percentage", "percentage": 100, "variant": "green"}]},
            {"enabled": True, "reason": "rule_match", **GREEN},
        ),
        (
            {"rules": [{"type": "percentage", "percentage": 0}]},
            {"enabled": False, "reason": "no_rule_match", **GREEN},
        ),
        ({"prerequisites": [{"flag": "off"}]}, {"enabled": False, "reason": "prerequisite_failed", **GREEN}),
    ]:
        with undone(subtests, flag=flag):
            create(api, type="string", variants=COLOURS, **flag)
            evaluation = evaluate(api)
            assert evaluation == answer
            assert list(evaluation) == ["enabled", "reason", "variant", "value"]


@pytest.mark.both_lanes
def test_evaluate__value_of_each_type__goes_out_as_it_was_sent(subtests, api):
    for value_type, value in [
        ("number", 1.5), ("object", {"a": [1, None, {"x": "🙂"}]}), ("string", "Ünï"), ("boolean", True),
    ]:  # fmt: skip
        with undone(subtests, value_type=value_type, value=value):
            off = {"key": "off", "value": False if value_type == "boolean" else value}
            create(api, type=value_type, variants=[{"key": "on", "value": value}, off])
            assert evaluate(api)["value"] == value


@pytest.mark.both_lanes
def test_evaluate__answer__says_how_new_it_is(api):
    create(api)
    before = api.post("/v1/flags/f/evaluate", {"userId": "u"})
    assert numbered(before) == Change.objects.latest_revision()
    data(api.patch("/v1/flags/f", {"enabled": False}))
    after = api.post("/v1/flags/f/evaluate", {"userId": "u"})
    assert numbered(after) == Change.objects.latest_revision() > numbered(before)


# --- evaluate several ------------------------------------------------------------------------------------------------


@pytest.mark.both_lanes
def test_evaluate_all__without_flags__is_each_that_is_not_archived(api, staging_api):
    create(api, "plain")
    create(api, "colour", type="string", variants=COLOURS)
    create(api, "old", enabled=False)
    data(api.post("/v1/flags/old/archive"))
    expected = {"plain": {"enabled": True, "reason": "default"}, "colour": evaluate(api, "colour")}
    assert evaluate_all(api) == expected
    assert {key: answer["reason"] for key, answer in evaluate_all(staging_api).items()} == dict.fromkeys(
        expected, "disabled"
    )


@pytest.mark.both_lanes
def test_evaluate_all__named_flags__are_answered_in_their_order_and_unknown_ones_by_their_error(api):
    for key in ("a", "b", "old"):
        create(api, key, rules=[{"type": "attribute", "conditions": [PRO]}])
    data(api.post("/v1/flags/old/archive"))
    response = api.post("/v1/evaluate", {"userId": "u", "attributes": {"plan": "pro"}, "flags": ["b", "?", "old", "a"]})
    answers = data(response)
    assert list(answers) == ["b", "?", "old", "a"]
    assert answers["a"] == answers["b"] == {"enabled": True, "reason": "rule_match"}
    assert answers["old"] == {"enabled": False, "reason": "disabled"}
    assert answers["?"]["error"]["code"] == "flag_not_found"
    assert answers["?"]["error"].keys() == {"code", "message"}
    assert numbered(response) == Change.objects.latest_revision()


@pytest.mark.both_lanes
def test_evaluate_all__every_flag__gets_what_it_gets_alone(api):
    create(api, "base", rules=[{"type": "percentage", "percentage": 50}])
    for at in range(20):
        create(api, f"f{at}", rules=[{"type": "percentage", "percentage": 5 * at}], prerequisites=[{"flag": "base"}])
    for user in ("ada", "bob", "eve"):
        answers = evaluate_all(api, userId=user)
        assert answers == {key: evaluate(api, key, userId=user) for key in answers}
        assert len(answers) == 21


@pytest.mark.both_lanes
def test_evaluate_all__flags_that_make_no_list__are_refused(subtests, api):
    for flags, field, code in [
        ([], "flags", "out_of_range"), (["f"] * 1001, "flags", "too_long"),
        (["f", "g", "f"], "flags[2]", "duplicate"), (["f", 1], "flags[1]", "invalid_type"),
        ([""], "flags[0]", "out_of_range"), (None, "flags", "invalid_type"), ("f", "flags", "invalid_type"),
    ]:  # fmt: skip
        with subtests.test(flags=flags, field=field):
            failure = error(api.post("/v1/evaluate", {"userId": "u", "flags": flags}), 400, "validation_failed")
            assert (failure["details"][0]["field"], failure["details"][0]["code"]) == (field, code)


@pytest.mark.both_lanes
def test_evaluate_all__in_every_way__asks_the_database_nothing(api, django_assert_num_queries):
    FlagFactory.create_batch(5, half=True)
    evaluate_all(api)
    with django_assert_num_queries(0):
        assert len(evaluate_all(api)) == 5
        assert len(evaluate_all(api, flags=["nope"])) == 1
        error(api.post("/v1/evaluate", {"userId": 1}), 400, "validation_failed")


# --- explain ---------------------------------------------------------------------------------------------------------


def test_explain__now__is_the_evaluation_with_every_step(api):
    create(api, "base")
    api.post("/v1/segments", {"key": "beta", "userIds": ["ada"]})
    create(
        api,
        prerequisites=[{"flag": "base"}],
        rules=[
            {"type": "segment", "segment": "beta"},
            {"type": "attribute", "name": "Payers", "conditions": [PRO]},
            {"type": "percentage", "percentage": 100},
        ],
    )
    response = api.post("/v1/flags/f/explain", {"userId": "u", "attributes": {"plan": "pro"}})
    explanation = data(response)
    assert evaluate(api, attributes={"plan": "pro"}).items() <= explanation.items()
    assert (explanation["flag"], explanation["environment"], explanation["isEnabled"]) == ("f", "production", True)
    assert explanation["revision"] == numbered(response) == Change.objects.latest_revision()
    assert [needed["isMet"] for needed in explanation["prerequisites"]] == [True]
    assert [(rule["matches"], rule["isServed"]) for rule in explanation["rules"]] == [
        (False, False),
        (True, True),
        (True, False),
    ]
    assert explanation["rules"][0]["steps"][0]["isMember"] is False
    [step] = explanation["rules"][1]["steps"][:1]
    assert (explanation["rules"][1]["name"], step["actual"], step["passed"]) == ("Payers", "pro", True)


def test_explain__then__is_by_the_configuration_and_the_clock_of_then(api):
    day = timedelta(days=1)
    with time_machine.travel(NOON.replace(year=2099), tick=False) as clock:
        api.post("/v1/segments", {"key": "beta", "userIds": ["u"]})
        create(api, rules=[{"type": "segment", "segment": "beta", "endAt": "2099-02-02T12:00:00Z"}])
        revision = Change.objects.latest_revision()
        clock.shift(day)
        data(api.patch("/v1/segments/beta", {"userIds": []}))
        data(api.patch("/v1/flags/f", {"enabled": False}))
        clock.shift(day)
        now = explain(api)
        explanation = explain(api, at="2099-01-31T18:00:00Z")
    assert (now["reason"], now["revision"]) == ("disabled", revision + 2)
    assert (explanation["reason"], explanation["revision"], explanation["at"]) == (
        "rule_match",
        revision,
        "2099-01-31T18:00:00.000000Z",
    )


def test_explain__in_the_future__is_today_s_configuration_by_that_clock(api):
    create(api, rules=[{"type": "percentage", "percentage": 100, "startAt": "2099-01-01"}])
    explanation = explain(api, at="2099-01-01")
    assert explain(api)["reason"] == "no_rule_match"
    assert (explanation["reason"], explanation["at"]) == ("rule_match", "2099-01-01T00:00:00.000000Z")
    assert explanation["revision"] == Change.objects.latest_revision()


def test_explain__before_the_flag_existed__names_the_moment(api):
    at = data(api.post("/v1/flags", {"key": "f"}), 201)["createdAt"]
    failure = error(api.post("/v1/flags/f/explain", {"userId": "u", "at": "2026-01-31"}), 404, "flag_not_found")
    assert [detail["field"] for detail in failure["details"]] == ["at"]
    assert explain(api, at=at)["reason"] == "disabled"


def test_explain__deleted_flag__was_something_once(api):
    create(api)
    at = format_timestamp(Change.objects.first().at)
    data(api.patch("/v1/flags/f", {"description": "new"}))
    assert api.delete("/v1/flags/f").status_code == 204
    error(api.post("/v1/flags/f/explain", {"userId": "u"}), 404, "flag_not_found")
    assert explain(api, at=at)["reason"] == "default"


def test_explain__body_that_makes_no_sense__is_refused(subtests, api):
    create(api)
    for body, field in [
        ({}, "userId"),
        ({"userId": "u", "at": "then"}, "at"),
        ({"userId": "u", "when": "now"}, "when"),
    ]:
        with subtests.test(body=body, field=field):
            failure = error(api.post("/v1/flags/f/explain", body), 400, "validation_failed")
            assert field in [detail["field"] for detail in failure["details"]]
