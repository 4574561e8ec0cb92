"""Stop with a winner and open again over HTTP: what is answered, and which field is to blame where it is refused."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from config.models import Change, Environment
from experiments.lifecycle.changes import get_experiment
from tests.admin import AdminClient, sign_in
from tests.answers import data, error
from tests.experiments.lifecycle.shipping import OWN, flag_rules, record_clear_winner, run_experiment
from tests.factories import ExperimentFactory, FlagFactory

pytestmark = pytest.mark.django_db

STOP = "/v1/experiments/e/stop"
REOPEN = "/v1/experiments/e/reopen"


def test_stop__with_the_winner_by_the_verdict__needs_no_reason(api: Any, production: Environment) -> None:
    run_experiment(production)
    record_clear_winner(production)
    stopped = data(api.post(STOP, {"winner": "green", "holdback": 10}))

    assert (stopped["status"], stopped["winner"], stopped["holdback"]) == ("stopped", "green", 10)
    assert "decision" not in stopped
    held = {"type": "percentage", "percentage": 10, "salt": "e:holdback", "serves": False}
    assert flag_rules(production) == [held, {"type": "percentage", "percentage": 100}, *OWN]
    assert data(api.get("/v1/experiments/e")) == stopped


@pytest.mark.parametrize("where", ["body", "header"])
def test_stop__against_the_verdict__takes_the_reason_from_either_place(
    api: Any, production: Environment, where: str
) -> None:
    run_experiment(production)
    refusal = error(api.post(STOP, {"winner": "green"}), 400, "validation_failed")
    [detail] = refusal["details"]
    assert (detail["field"], detail["code"]) == ("reason", "required")
    assert "the verdict is to keep the experiment running" in refusal["message"]
    assert get_experiment("e", production).status == "running"

    if where == "body":
        answer = api.post(STOP, {"winner": "green", "reason": "We like it."})
    else:
        answer = api.post(STOP, {"winner": "green"}, headers={"X-Change-Reason": "We like it."})
    assert data(answer)["winner"] == "green"
    assert Change.objects.latest("revision").reason == "We like it."


@pytest.mark.parametrize("body", [None, {}])
def test_stop__without_a_body__names_no_winner(api: Any, production: Environment, body: Any) -> None:
    run_experiment(production)
    stopped = data(api.post(STOP, body))

    assert (stopped["status"], "winner" in stopped) == ("stopped", False)
    assert flag_rules(production) == OWN


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        ({"winner": "purple"}, "winner", "unknown_reference"),
        ({"winner": None}, "winner", "invalid_type"),
        ({"winner": 5}, "winner", "invalid_type"),
        ({"winner": "green", "holdback": "5"}, "holdback", "invalid_type"),
        ({"winner": "green", "holdback": 51}, "holdback", "out_of_range"),
        ({"winner": "green", "holdback": -0.001}, "holdback", "out_of_range"),
        ({"winner": "green", "holdback": 0.0001}, "holdback", "invalid_value"),
        ({"holdback": 5}, "holdback", "invalid_value"),
        ({"winner": "green", "reason": ""}, "reason", "out_of_range"),
        ({"winner": "green", "reason": "r" * 1001}, "reason", "too_long"),
        ({"winer": "green"}, "winer", "unknown_field"),
    ],
)
def test_stop__unacceptable__names_the_field_and_stops_nothing(
    api: Any, production: Environment, body: Any, field: str, code: str
) -> None:
    run_experiment(production)
    revision = Change.objects.latest_revision()
    [detail] = error(api.post(STOP, body), 400, "validation_failed")["details"]

    assert (detail["field"], detail["code"]) == (field, code)
    assert Change.objects.latest_revision() == revision


def test_reopen__stopped_with_a_winner__runs_again(api: Any, production: Environment) -> None:
    run_experiment(production)
    record_clear_winner(production)
    before = data(api.get("/v1/experiments/e"))
    data(api.post(STOP, {"winner": "green"}))

    assert data(api.post(REOPEN)) == before
    assert error(api.post(REOPEN), 409, "invalid_transition")["message"].endswith("stopped experiment can be reopened.")


def test_reopen__flag_changed_since__is_refused_naming_the_flag(api: Any, production: Environment) -> None:
    run_experiment(production)
    data(api.post(STOP))
    data(api.patch("/v1/flags/button", {"rules": []}))

    assert "button was changed since" in error(api.post(REOPEN), 409, "experiment_locked")["message"]


@pytest.mark.parametrize("where", ["body", "header"])
def test_reopen__with_a_reason__keeps_it_from_either_place(api: Any, production: Environment, where: str) -> None:
    run_experiment(production)
    data(api.post(STOP))
    if where == "body":
        data(api.post(REOPEN, {"reason": "Too early."}))
    else:
        data(api.post(REOPEN, headers={"X-Change-Reason": "Too early."}))

    assert Change.objects.latest("revision").reason == "Too early."


def test_stop__nothing_held_back__is_said_of_any_winner(api: Any, production: Environment) -> None:
    run_experiment(production)
    assert data(api.post(STOP, {"winner": "control", "holdback": 0, "reason": "Safer."}))["winner"] == "control"


STEPS = [
    ("start", {}, "draft"),
    ("phases", {"percentage": 50, "reason": "Fewer."}, "running"),
    ("stop", {}, "running"),
    ("reopen", {}, "stopped"),
]


@pytest.mark.parametrize(("step", "body", "status"), STEPS)
def test_step__of_an_experiment_that_drives_a_flag__takes_a_user_who_may_change_flags(
    production: Environment, step: str, body: Any, status: str
) -> None:
    FlagFactory(key="button", on=True)
    drives = {"key": "button", "serves": {"control": False, "green": True}}
    times = {"draft": {}, "running": {"running": True}, "stopped": {"running": True, "stopped_at": timezone.now()}}
    ExperimentFactory(key="e", flag=drives, **times[status])
    ExperimentFactory(key="free", **times[status])
    mine = {"experiments.view_experiment", "experiments.change_experiment"}
    client, trusted = (signed_in(mine | more) for more in (set(), {"flags.change_flag"}))

    before = Change.objects.latest_revision()
    refused = client.post(f"/v1/experiments/e/{step}", body, "application/json")
    assert "flags.change_flag" in error(refused, 403, "forbidden")["message"]
    assert Change.objects.latest_revision() == before
    assert client.post(f"/v1/experiments/free/{step}", body, "application/json").status_code in (200, 201)
    assert trusted.post(f"/v1/experiments/e/{step}", body, "application/json").status_code in (200, 201)


def test_testers__of_a_running_experiment_that_drives_a_flag__take_a_user_who_may_change_flags(
    production: Environment,
) -> None:
    run_experiment(production)
    mine = {"experiments.view_experiment", "experiments.change_experiment"}
    sent = {"forcedVariants": {"qa": "green"}}, "application/json"
    assert signed_in(mine).patch("/v1/experiments/e", *sent).status_code == 403
    same = {"description": "?", "forcedVariants": None}
    assert signed_in(mine).patch("/v1/experiments/e", same, "application/json").status_code == 200
    assert signed_in(mine | {"flags.change_flag"}).patch("/v1/experiments/e", *sent).status_code == 200


def signed_in(permissions: set[str]) -> AdminClient:
    return sign_in(*permissions, username=f"user-{User.objects.count()}")


def test_reopen__with_a_payload__is_refused(api: Any, production: Environment) -> None:
    run_experiment(production)
    data(api.post(STOP))

    [detail] = error(api.post(REOPEN, {"winner": "green"}), 400, "validation_failed")["details"]
    assert detail["field"] == "winner"
