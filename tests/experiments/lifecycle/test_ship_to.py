"""Shipping a winner to the audience of the experiment, or to everyone, and the way back."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.models import Environment
from experiments.lifecycle.changes import get_experiment
from experiments.lifecycle.decisions import reopen_experiment
from flags.changes.flag_changes import get_flag
from tests.answers import data, error
from tests.experiments.lifecycle.shipping import step_arguments
from tests.factories import ExperimentFactory
from tests.flags.engine.reference import reference_bucket
from tests.flags.engine.test_participation import EXPERIMENTS, OTHER_RULES
from tests.selection import histories

pytestmark = pytest.mark.django_db

STOP = "/v1/experiments/e/stop"
PRO = [{"attribute": "plan", "operator": "equals", "value": "pro"}]
GROUP = {"key": "checkout", "from": 0, "to": 75}
FIRST, LAST = {"type": "users", "userIds": ["ann"]}, {"type": "percentage", "percentage": 20}
COLOURS = {"type": "string", "variants": [{"key": "old", "value": "a"}, {"key": "new", "value": "b"}]}
SERVES = {"control": "old", "green": "new"}
EVERYONE = {"type": "percentage", "percentage": 100}
USERS = [f"user-{number}" for number in range(60)]
REASON = {"reason": "We like it."}
_NUMBERS = count()


def run(api: Any, rules: list[Any], position: int = 0, serves: Any = SERVES, **audience: Any) -> list[Any]:
    """Run an experiment that drives a flag with these rules, and return the rules of the flag."""
    values = COLOURS if serves is SERVES else {}
    data(api.post("/v1/flags", {"key": "f", "enabled": True, "rules": rules, **values}), 201)
    variants = [{"key": key, "weight": 50} for key in serves]
    flag = {"key": "f", "serves": serves, "position": position}
    data(api.post("/v1/experiments", {"key": "e", "variants": variants, "flag": flag, **audience}), 201)
    data(api.post("/v1/experiments/e/start"))
    return rules_of(api)


def rules_of(api: Any) -> list[Any]:
    rules: list[Any] = data(api.get("/v1/flags/f"))["rules"]
    return rules


def evaluate(api: Any, user_id: str) -> dict[str, Any]:
    return data(api.post("/v1/flags/f/evaluate", {"userId": user_id, "attributes": {"plan": "pro"}}))


def test_stop__winner_for_the_audience__becomes_a_rule_at_the_same_place(api: Any) -> None:
    run(api, [FIRST, LAST], 1, percentage=60, conditions=PRO, group=GROUP)
    stopped = data(api.post(STOP, {"winner": "green", **REASON}))

    ranges = [{"salt": "checkout", "from": 0, "to": 75}]
    winners = {
        "type": "attribute",
        "conditions": PRO,
        "percentage": 60,
        "salt": "e",
        "ranges": ranges,
        "variant": "new",
    }
    assert rules_of(api) == [FIRST, winners, LAST]
    assert stopped["shipTo"] == "audience"


@histories(25)
@given(OTHER_RULES, EXPERIMENTS, OTHER_RULES, st.sampled_from(["pro", "free"]))
def test_stop__winner_for_the_audience_at_any_position__changes_nobody_outside_of_it(
    api: Any, before: list[Any], rule: dict[str, Any], after: list[Any], plan: str
) -> None:
    number = next(_NUMBERS)
    flag, key = f"flag-{number}", f"experiment-{number}"
    audience = {name: rule[name] for name in ("percentage", "conditions") if name in rule}
    group = {"group": {**rule["group"], "key": f"group-{number}"}} if "group" in rule else {}
    data(api.post("/v1/flags", {"key": flag, "enabled": True, "rules": [*before, *after]}), 201)
    driven = {"key": flag, "serves": {"control": False, "treatment": True}, "position": len(before)}
    variants = [{"key": variant, "weight": 50} for variant in driven["serves"]]
    data(api.post("/v1/experiments", {"key": key, "variants": variants, "flag": driven, **audience, **group}), 201)
    data(api.post(f"/v1/experiments/{key}/start"))

    def ask(address: str, user_id: str) -> Any:
        return data(api.post(address, {"userId": user_id, "attributes": {"plan": plan}}))

    entries = {user_id: ask("/v1/variants", user_id) for user_id in USERS[:12]}
    is_in = {
        user_id: next(entry["inExperiment"] for entry in own if entry["experiment"] == key)
        for user_id, own in entries.items()
    }
    seen = {user_id: ask("/v1/evaluate", user_id)[flag]["enabled"] for user_id in is_in}
    data(api.post(f"/v1/experiments/{key}/stop", {"winner": "treatment", **REASON}))
    for user_id in is_in:
        assert ask("/v1/evaluate", user_id)[flag]["enabled"] is (is_in[user_id] or seen[user_id])


def test_stop__winner_for_the_audience_with_a_holdback__serves_both_to_the_audience_alone(api: Any) -> None:
    run(api, [], 0, percentage=60, conditions=PRO, group=GROUP)
    before = {user_id: evaluate(api, user_id) for user_id in USERS}
    data(api.post(STOP, {"winner": "green", "holdback": 25, "shipTo": "audience", **REASON}))

    for user_id in USERS:
        is_in = reference_bucket("checkout", user_id) < 75_000 and reference_bucket("e", user_id) < 60_000
        is_held = reference_bucket("e:holdback", user_id) < 25_000
        answer = evaluate(api, user_id)
        if is_in:
            assert answer["variant"] == ("old" if is_held else "new")
        else:
            assert (answer["enabled"], answer["value"]) == (before[user_id]["enabled"], before[user_id]["value"])
    assert rules_of(api)[-1] == EVERYONE


@pytest.mark.parametrize(("winner", "on"), [("green", True), ("control", False)])
def test_stop__flag_without_variants__serves_the_winner_to_the_audience_and_true_to_others(
    api: Any, winner: str, on: bool
) -> None:
    run(api, [LAST], 0, {"control": False, "green": True}, percentage=50)
    data(api.post(STOP, {"winner": winner, **REASON}))

    winners = {"type": "percentage", "percentage": 50, "salt": "e", **({} if on else {"serves": False})}
    assert rules_of(api) == [winners, LAST]


def test_stop__holdback_of_an_experiment_that_takes_nobody_in__holds_nobody_back(api: Any) -> None:
    run(api, [LAST], percentage=60)
    data(api.post("/v1/experiments/e/phases", {"percentage": 0, **REASON}), 201)
    data(api.post(STOP, {"winner": "green", "holdback": 5, **REASON}))
    assert rules_of(api) == [{"type": "percentage", "percentage": 0, "salt": "e", "variant": "new"}, LAST]


def test_stop__winner_for_everyone__removes_the_other_rules_and_says_so(api: Any) -> None:
    driven = run(api, [FIRST, {**LAST, "variant": "new"}], 1, percentage=60)
    refused = error(api.post(STOP, {"winner": "green", "shipTo": "everyone"}), 400, "validation_failed")
    assert [detail["field"] for detail in refused["details"]] == ["reason"]
    assert "it removes rule 1 of the flag (ann)" in refused["message"]
    assert "it removes rule 3 of the flag (20 % of everyone → new)" in refused["message"]
    assert rules_of(api) == driven

    stopped = data(api.post(STOP, {"winner": "green", "shipTo": "everyone", **REASON}))
    assert stopped["shipTo"] == "everyone"
    assert rules_of(api) == [{**EVERYONE, "variant": "new"}]


def test_stop__winner_for_everyone__stores_what_was_overruled(api: Any, production: Environment) -> None:
    run(api, [FIRST, LAST], 1)
    data(api.post(STOP, {"winner": "green", "shipTo": "everyone", **REASON}))
    decision = get_experiment("e", production).decision
    assert decision is not None
    assert (decision["shipTo"], decision["overridden"].count("rules_removed")) == ("everyone", 1)


def test_stop__winner_for_everyone_of_a_flag_without_other_rules__has_no_such_objection(api: Any) -> None:
    run(api, [])
    refused = error(api.post(STOP, {"winner": "green", "shipTo": "everyone"}), 400, "validation_failed")
    assert "it removes" not in refused["message"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"shipTo": "audience"}, "invalid_value"),
        ({"shipTo": "everyone", "reason": "Because"}, "invalid_value"),
        ({"shipTo": "nobody"}, "invalid_value"),
        ({"winner": "green", "shipTo": "nobody"}, "invalid_value"),
        ({"winner": "green", "shipTo": ["everyone"]}, "invalid_value"),
        ({"winner": "green", "shipTo": {}}, "invalid_value"),
        ({"winner": "green", "shipTo": 1}, "invalid_value"),
    ],
)
def test_stop__ship_to_that_cannot_be__names_it(api: Any, body: Any, code: str) -> None:
    driven = run(api, [LAST])
    details = error(api.post(STOP, body), 400, "validation_failed")["details"]
    assert [(detail["field"], detail["code"]) for detail in details] == [("shipTo", code)]
    assert rules_of(api) == driven


def test_stop__ship_to_without_a_flag__names_it(api: Any, production: Environment) -> None:
    ExperimentFactory(key="e", environment=production, running=True)
    details = error(api.post(STOP, {"winner": "green", "shipTo": "everyone"}), 400, "validation_failed")["details"]
    assert [detail["field"] for detail in details] == ["shipTo"]


def test_stop__holdback_of_a_full_flag__names_it(api: Any) -> None:
    run(api, [LAST] * 199)
    details = error(api.post(STOP, {"winner": "green", "holdback": 5, **REASON}), 400, "validation_failed")["details"]
    assert [detail["field"] for detail in details] == ["holdback"]
    data(api.post(STOP, {"winner": "green", **REASON}))
    assert len(rules_of(api)) == 200


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"winner": "green", **REASON},
        {"winner": "green", "holdback": 5, **REASON},
        {"winner": "control", "shipTo": "everyone", **REASON},
    ],
)
def test_reopen__restores_the_rule_with_its_neighbours(api: Any, production: Environment, body: Any) -> None:
    driven = run(api, [FIRST, LAST], 1, percentage=60)
    data(api.post(STOP, body))
    assert rules_of(api) != driven
    reopen_experiment(**step_arguments(production))

    assert rules_of(api) == driven
    assert "shipTo" not in data(api.get("/v1/experiments/e"))
    assert get_flag("f", production).enabled


def test_stop__without_a_winner__leaves_the_other_rules_in_order(api: Any) -> None:
    run(api, [FIRST, LAST], 1)
    data(api.post(STOP))
    assert rules_of(api) == [FIRST, LAST]


# --- the position ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("position", "code"),
    [
        (3, "out_of_range"),
        (201, "out_of_range"),
        (-1, "out_of_range"),
        (0.5, "invalid_type"),
        ("1", "invalid_type"),
        (True, "invalid_type"),
        (None, "invalid_type"),
        ([0], "invalid_type"),
    ],
)
def test_create_and_change__position_that_cannot_be__names_it(api: Any, position: Any, code: str) -> None:
    data(api.post("/v1/flags", {"key": "f", "rules": [FIRST, LAST], **COLOURS}), 201)
    draft = {"key": "e", "variants": [{"key": key, "weight": 50} for key in SERVES]}
    flag = {"key": "f", "serves": SERVES}
    created = api.post("/v1/experiments", {**draft, "flag": {**flag, "position": position}})
    data(api.post("/v1/experiments", {**draft, "flag": flag}), 201)
    changed = api.patch("/v1/experiments/e", {"flag": {**flag, "position": position}})
    for answer in (created, changed):
        details = error(answer, 400, "validation_failed")["details"]
        assert [(detail["field"], detail["code"]) for detail in details] == [("flag.position", code)]


def test_start__rules_that_are_gone_by_now__names_the_position(api: Any) -> None:
    data(api.post("/v1/flags", {"key": "f", "rules": [FIRST, LAST], **COLOURS}), 201)
    variants = [{"key": key, "weight": 50} for key in SERVES]
    flag = {"key": "f", "serves": SERVES, "position": 2.0}
    created = data(api.post("/v1/experiments", {"key": "e", "variants": variants, "flag": flag}), 201)
    assert created["flag"]["position"] == 2
    data(api.patch("/v1/flags/f", {"rules": [FIRST]}))
    details = error(api.post("/v1/experiments/e/start"), 400, "validation_failed")["details"]
    assert [(detail["field"], detail["code"]) for detail in details] == [("flag.position", "out_of_range")]
    assert "Must be at most 1" in details[0]["message"]

    data(api.patch("/v1/experiments/e", {"flag": {**flag, "position": 1}}))
    data(api.post("/v1/experiments/e/start"))
    assert [rule["type"] for rule in rules_of(api)] == ["users", "experiment"]
