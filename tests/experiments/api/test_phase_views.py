"""POST /v1/experiments/<key>/phases: what it takes, what it answers, and who sees what from then on."""

from __future__ import annotations

from typing import Any

import pytest

from config.models import Change
from experiments.lifecycle.new_phase import MAX_PHASES
from experiments.models import Exposure
from flags.models import Flag
from tests.answers import data, error
from tests.experiments.calls import assign
from tests.factories import ExperimentFactory, FlagFactory

pytestmark = pytest.mark.django_db

PATH = "/v1/experiments/e/phases"
WHY = "It broke nothing."
OFF = [{"key": "control", "weight": 1}, {"key": "green", "weight": 0}]
PROS = [{"attribute": "plan", "operator": "equals", "value": "pro"}]


@pytest.fixture
def _running() -> None:
    ExperimentFactory(key="e", running=True)


def detail(response: Any) -> tuple[str, str]:
    [answer] = error(response, 400, "validation_failed")["details"]
    return answer["field"], answer["code"]


@pytest.mark.usefixtures("_running")
def test_open_phase__of_a_running_experiment__answers_it_with_all_its_phases(api):
    answer = data(api.post(PATH, {"percentage": 50, "reason": WHY}), 201)
    assert (answer["key"], answer["status"], answer["percentage"]) == ("e", "running", 50)
    assert [(entry["number"], entry["percentage"], entry["reason"]) for entry in answer["phases"]] == [
        (1, 100, ""),
        (2, 50, WHY),
    ]
    assert answer["phases"][0]["startedAt"] < answer["phases"][1]["startedAt"]
    assert data(api.get("/v1/experiments/e")) == answer

    answer = data(api.post(PATH, {"variants": OFF, "conditions": PROS, "percentage": None, "reason": WHY}), 201)
    assert (answer["variants"], answer["conditions"], answer.get("percentage")) == (OFF, PROS, None)
    assert [entry["percentage"] for entry in answer["phases"]] == [100, 50, 100]


@pytest.mark.usefixtures("_running")
def test_open_phase__change_log__has_the_experiment_before_and_after_and_why(api):
    api.post(PATH, {"percentage": 50, "reason": WHY})
    change = Change.objects.latest("revision")
    assert (change.kind, change.key, change.reason) == ("experiment", "e", WHY)
    assert (change.before.get("percentage"), change.after["percentage"]) == (None, 50)
    assert len(change.after["phases"]) == len(change.before["phases"]) + 1


@pytest.mark.usefixtures("_running")
def test_open_phase__reason_as_a_header__is_one_as_well(api):
    answer = data(api.post(PATH, {"percentage": 50}, headers={"x-change-reason": WHY}), 201)
    assert answer["phases"][1]["reason"] == WHY


@pytest.mark.usefixtures("_running")
def test_open_phase__users_of_before__keep_their_variant_and_new_ones_get_it_by_the_new_weights(api):
    before = {user: assign(api, user) for user in map(str, range(20))}
    api.post(PATH, {"variants": OFF, "reason": WHY})
    assert {user: assign(api, user) for user in before} == before
    assert {assign(api, f"new {user}") for user in before} == {"control"}
    assert Exposure.objects.filter(phase=1).count() == Exposure.objects.filter(phase=2).count() == 20
    assert "green" in before.values()


def test_open_phase__experiment_that_drives_a_flag__changes_the_rule_at_once(api):
    FlagFactory(key="f", on=True)
    serves = {"key": "f", "serves": {"control": False, "green": True}}
    ExperimentFactory(key="e", flag=serves, running=True)
    api.post(PATH, {"variants": OFF, "percentage": 10, "reason": WHY})

    [rule] = data(api.get("/v1/flags/f"))["rules"]
    assert (rule["type"], rule["percentage"]) == ("experiment", 10)
    assert [entry["weight"] for entry in rule["variants"]] == [1, 0]
    changes = Change.objects.order_by("-revision")[:2]
    assert [(entry.kind, entry.reason) for entry in changes] == [("flag", WHY), ("experiment", WHY)]
    assert Flag.objects.get().key == "f"


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        ({"percentage": 50}, "reason", "required"),
        ({"percentage": 50, "reason": " "}, "reason", "required"),
        ({"percentage": 50, "reason": "x" * 1001}, "reason", "too_long"),
        ({"reason": WHY}, "variants", "required"),
        ({"percentage": 100, "reason": WHY}, "variants", "required"),
        ({"percentage": None, "conditions": None, "reason": WHY}, "variants", "required"),
        ({"percentage": 100.5, "reason": WHY}, "percentage", "out_of_range"),
        ({"percentage": "50", "reason": WHY}, "percentage", "invalid_type"),
        ({"variants": [*OFF, {"key": "blue", "weight": 1}], "reason": WHY}, "variants", "invalid_value"),
        ({"variants": OFF[::-1], "reason": WHY}, "variants", "invalid_value"),
        ({"variants": [{**entry, "weight": 0} for entry in OFF], "reason": WHY}, "variants", "out_of_range"),
        ({"variants": [OFF[0], OFF[0]], "reason": WHY}, "variants[1].key", "duplicate"),
        ({"variants": {}, "reason": WHY}, "variants", "invalid_type"),
        ({"variants": None, "reason": WHY}, "variants", "invalid_type"),
        ({"conditions": [{**PROS[0], "operator": "eq"}], "reason": WHY}, "conditions[0].operator", "invalid_value"),
        (
            {"conditions": [{"operator": "inSegment", "value": "nobody"}], "reason": WHY},
            "conditions[0].value",
            "unknown_reference",
        ),
        ({"weights": OFF, "reason": WHY}, "weights", "unknown_field"),
        ({"metrics": ["buy"], "reason": WHY}, "metrics", "unknown_field"),
    ],
)
@pytest.mark.usefixtures("_running")
def test_open_phase__body_that_is_not_acceptable__is_refused_by_the_name_of_the_field(api, body, field, code):
    assert detail(api.post(PATH, body)) == (field, code)
    assert "phases" not in data(api.get("/v1/experiments/e"))


@pytest.mark.parametrize("state", [{}, {"stopped": True}])
def test_open_phase__experiment_that_is_not_running__is_refused(api, state):
    ExperimentFactory(key="e", **state)
    assert error(api.post(PATH, {"percentage": 50, "reason": WHY}), 409, "invalid_transition")


def test_open_phase__no_such_experiment__is_not_found(api):
    assert error(api.post(PATH, {"percentage": 50, "reason": WHY}), 404, "experiment_not_found")


def test_open_phase__as_many_as_there_may_be__is_refused(api):
    experiment = ExperimentFactory(key="e", running=True)
    experiment.phases *= MAX_PHASES - 1
    experiment.save(update_fields=["phases"])
    assert len(data(api.post(PATH, {"percentage": 50, "reason": WHY}), 201)["phases"]) == MAX_PHASES
    assert error(api.post(PATH, {"percentage": 60, "reason": WHY}), 409, "experiment_locked")


@pytest.mark.usefixtures("_running")
def test_open_phase__the_same_request_again__opens_one(api):
    again = [
        api.post(PATH, {"percentage": 50, "reason": WHY}, headers={"idempotency-key": "once"}, **{}) for _ in range(2)
    ]
    assert [entry.status_code for entry in again] == [201, 201]
    assert len(data(api.get("/v1/experiments/e"))["phases"]) == 2


def test_open_phase__flag_that_can_be_driven_no_longer__changes_nothing(api, monkeypatch):
    FlagFactory(key="f", on=True)
    ExperimentFactory(key="e", flag={"key": "f", "serves": {"control": False, "green": True}}, running=True)
    before = data(api.get("/v1/experiments/e"))
    Flag.objects.update(archived_at=Flag.objects.get().created_at)
    assert api.post(PATH, {"percentage": 50, "reason": WHY}).status_code in (400, 409)
    assert data(api.get("/v1/experiments/e")) == before


@pytest.mark.parametrize(
    ("weight", "is_driving", "status"), [(10**9, True, 201), (10**9 + 1, True, 400), (10**9 + 1, False, 201)]
)
def test_open_phase__weights_that_its_flag_cannot_have__names_them(api, weight, is_driving, status):
    FlagFactory(key="f", enabled=True)
    flag = {"key": "f", "serves": {"control": False, "green": True}} if is_driving else None
    ExperimentFactory(key="e", flag=flag, running=True)
    response = api.post(
        PATH, {"variants": [{"key": "control", "weight": 1}, {"key": "green", "weight": weight}], "reason": WHY}
    )
    assert response.status_code == status
    if status == 400:
        assert detail(response) == ("variants[1].weight", "out_of_range")
