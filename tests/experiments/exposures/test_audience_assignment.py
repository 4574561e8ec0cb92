"""Who is in an experiment and who is not, as a client sees it: by share, conditions, group, force, store and winner."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from config.models import Environment
from events.recording import NewEvent, new_id, record
from experiments.exposures.recording import assign as store
from experiments.lifecycle.new_phase import open_phase
from experiments.models import Experiment, Exposure
from flags.engine.bucketing import bucket
from tests.answers import data, error
from tests.conftest import ACTOR, NOON
from tests.experiments.calls import report
from tests.factories import ExperimentFactory

IN_SWITZERLAND = [{"attribute": "country", "operator": "equals", "value": "CH"}]
USERS = [f"user-{at}" for at in range(200)]


def ask(client: Any, user: str, key: str = "e", **attributes: Any) -> dict[str, Any]:
    return data(client.post(f"/v1/experiments/{key}/variant", {"userId": user, "attributes": attributes}))


def left_out(experiment: Experiment, reason: str, variant: str = "control") -> dict[str, Any]:
    return {"variant": variant, "experimentId": str(experiment.pk), "inExperiment": False, "reason": reason}


def test_percentage__takes_in_the_buckets_below_it_and_records_those_alone(api):
    experiment = ExperimentFactory(key="e", running=True, percentage=30)
    answers = {user: ask(api, user) for user in USERS}
    within = {user for user in USERS if bucket("e", user) < 30_000}

    assert {user for user, answer in answers.items() if "inExperiment" not in answer} == within
    assert all(answers[user] == left_out(experiment, "not_in_traffic") for user in set(USERS) - within)
    assert set(Exposure.objects.values_list("user_id", flat=True)) == within


@pytest.mark.parametrize("attributes", [{}, {"country": "DE"}, {"country": 1}])
def test_conditions__not_met__show_the_control_and_record_nothing(api, attributes):
    experiment = ExperimentFactory(key="e", running=True, conditions=IN_SWITZERLAND)

    assert ask(api, "u", **attributes) == left_out(experiment, "not_targeted")
    assert not Exposure.objects.exists()


def test_conditions__met_once__keep_the_user_in(api):
    ExperimentFactory(key="e", running=True, conditions=IN_SWITZERLAND)
    first = ask(api, "u", country="CH")

    assert list(first) == ["variant", "experimentId"]
    assert ask(api, "u", country="DE") == first


def test_group__experiments_of_it__share_out_the_users(api):
    halves = [{"key": "checkout", "from": 0, "to": 50}, {"key": "checkout", "from": 50, "to": 100}]
    for key, group in zip(("first", "second"), halves, strict=True):
        ExperimentFactory(key=key, running=True, group=group)
    for user in USERS:
        taken_in = ["inExperiment" not in ask(api, user, key) for key in ("first", "second")]
        is_in_first = bucket("checkout", user) < 50_000
        assert taken_in == [is_in_first, not is_in_first]
    assert ask(api, USERS[0], "first" if bucket("checkout", USERS[0]) >= 50_000 else "second")["reason"] == (
        "not_in_group"
    )
    assert Exposure.objects.count() == len(USERS)


def test_forced__tester__sees_the_variant_and_is_not_recorded(api):
    forced = {"qa-1": "green", "qa-2": "control"}
    experiment = ExperimentFactory(key="e", running=True, percentage=0, forced_variants=forced)

    for user, variant in forced.items():
        assert ask(api, user) == left_out(experiment, "forced", variant)
    assert not Exposure.objects.exists()


def test_forced__user_who_was_in__sees_the_other_variant_at_once_and_the_split_again_afterwards(api):
    ExperimentFactory(key="e", running=True)
    before = ask(api, "u")
    other = "green" if before["variant"] == "control" else "control"
    data(api.patch("/v1/experiments/e", {"forcedVariants": {"u": other}}))
    assert ask(api, "u") == {**before, "variant": other, "inExperiment": False, "reason": "forced"}
    assert not Exposure.objects.exists()

    data(api.patch("/v1/experiments/e", {"forcedVariants": None}))
    assert ask(api, "u") == before
    assert Exposure.objects.count() == 1


def test_stored__user_whom_the_audience_leaves_out__stays_in_with_the_variant_once_seen(api):
    group = {"key": "g", "from": 0, "to": 1}
    experiment = ExperimentFactory(key="e", running=True, percentage=0, conditions=IN_SWITZERLAND, group=group)
    store(experiment.pk, "u", "green", experiment.started_at)

    assert ask(api, "u") == {"variant": "green", "experimentId": str(experiment.pk)}
    assert Exposure.objects.get().origin == "assigned"


def test_stored__reported_user_who_does_not_meet_the_conditions__stays_in_with_that_variant(api):
    experiment = ExperimentFactory(key="e", running=True, conditions=IN_SWITZERLAND)
    report(api, "u", "green")

    assert ask(api, "u") == {"variant": "green", "experimentId": str(experiment.pk)}


@pytest.mark.parametrize(
    ("design", "reason"),
    [
        ({"percentage": 30}, "not_in_traffic"),
        ({"group": {"key": "g", "from": 20, "to": 60}}, "not_in_group"),
    ],
)
def test_reported__users_whom_the_hash_leaves_out__are_not_in_though_events_name_the_control(api, design, reason):
    experiment = ExperimentFactory(key="e", running=True, **design)
    out = next(user for user in USERS if "inExperiment" in ask(api, user))
    Exposure.objects.all().delete()
    for user in USERS:
        report(api, user, "control")

    is_in = {user: "inExperiment" not in ask(api, user) for user in USERS}
    assert ask(api, out) == left_out(experiment, reason)
    assert set(Exposure.objects.values_list("user_id", flat=True)) == {user for user in USERS if is_in[user]}


def see(user: str, variant: str, seconds: float) -> NewEvent:
    at = NOON + timedelta(seconds=seconds)
    return NewEvent(new_id(), user, "seen", at, at, {"experimentId": "e", "variant": variant})


@pytest.mark.parametrize(("seconds", "is_several"), [(20, True), (1, False)])
def test_reported__user_who_is_in_and_saw_another_variant__is_in_several_though_none_like_them_are_taken_in(
    production, seconds: float, is_several: bool
) -> None:
    experiment = ExperimentFactory(key="e", running=True)
    store(experiment.pk, "u", "green", NOON + timedelta(seconds=5))
    set_phase(experiment, percentage=0)
    record([see("u", "control", seconds), see("v", "control", seconds)], production)

    [exposure] = Exposure.objects.all()
    assert (exposure.user_id, exposure.variant, exposure.is_in_several_variants) == ("u", "green", is_several)


def set_phase(experiment: Experiment, **design: Any) -> None:
    """As if it had been so from the start."""
    phases = [{**experiment.phases[0], **design}]
    Experiment.objects.filter(pk=experiment.pk).update(phases=phases, **design)


@pytest.mark.parametrize(("seconds", "is_in"), [(8.9, False), (9.5, True), (10, True)])
def test_reported__in_the_second_in_which_a_phase_lets_more_in__is_in(production, seconds: float, is_in: bool) -> None:
    ExperimentFactory(key="e", running=True, percentage=0)
    who = {"key": "e", "environment": production, "actor": ACTOR, "now": NOON}
    open_phase(**who, opened_at=NOON + timedelta(seconds=10), changes={"percentage": 100}, reason="all")
    record([see("u", "green", seconds)], production)

    assert Exposure.objects.exists() is is_in


def test_reported__user_whom_an_earlier_phase_left_out__is_in_by_a_report_of_the_later_one_alone(api, production):
    ExperimentFactory(key="e", running=True, percentage=0)
    opened_at = NOON + timedelta(days=2)
    who = {"key": "e", "environment": production, "actor": ACTOR, "now": opened_at}
    open_phase(**who, opened_at=opened_at, changes={"percentage": 100}, reason="all")
    for days in (1, 3):
        at = NOON + timedelta(days=days)
        record([NewEvent(new_id(), f"{days}", "seen", at, at, {"experimentId": "e", "variant": "green"})], production)

    assert list(Exposure.objects.values_list("user_id", "phase")) == [("3", 2)]


def test_winner__of_a_stopped_experiment__is_what_everybody_sees(api):
    experiment = ExperimentFactory(key="e", running=True, percentage=10, forced_variants={"qa": "control"})
    store(experiment.pk, "u", "control", experiment.started_at)
    data(api.post("/v1/experiments/e/stop", {"winner": "green", "reason": "it is better"}))

    for user in ("u", "qa", "new"):
        assert ask(api, user) == left_out(experiment, "winner", "green")
    assert Exposure.objects.count() == 1


def test_phase__of_who_is_new__is_that_of_the_newest_configuration(api):
    ExperimentFactory(key="e", running=True, percentage=50)
    users = [user for user in USERS if 50_000 <= bucket("e", user) < 60_000]
    assert ask(api, users[0])["reason"] == "not_in_traffic"
    early = next(user for user in USERS if bucket("e", user) < 50_000)
    ask(api, early)
    data(api.post("/v1/experiments/e/phases", {"percentage": 60, "reason": "more of them"}), 201)
    ask(api, users[0])
    ask(api, early)

    assert dict(Exposure.objects.values_list("user_id", "phase")) == {early: 1, users[0]: 2}


# --- all running experiments -----------------------------------------------------------------------------------------


def ask_all(client: Any, user: str, **body: Any) -> list[dict[str, Any]]:
    return data(client.post("/v1/variants", {"userId": user, **body}))


@pytest.fixture
def several(production: Environment, staging: Environment) -> dict[str, Experiment]:
    ExperimentFactory(key="draft")
    ExperimentFactory(key="stopped", stopped=True)
    ExperimentFactory(key="elsewhere", environment=staging, running=True)
    made = {
        "b-aimed": ExperimentFactory(key="b-aimed", running=True, conditions=IN_SWITZERLAND),
        "c-forced": ExperimentFactory(key="c-forced", running=True, forced_variants={"u": "green"}),
        "a-plain": ExperimentFactory(key="a-plain", running=True),
    }
    return dict(sorted(made.items()))


def test_variants__running_experiments__are_reported_by_key_and_record_nothing(api, several):
    answers = ask_all(api, "u")

    assert [each["experiment"] for each in answers] == list(several)
    assert [each["experimentId"] for each in answers] == [str(each.pk) for each in several.values()]
    plain, aimed, forced = answers
    assert list(plain) == ["experiment", "experimentId", "variant", "inExperiment"]
    assert plain["inExperiment"] is True
    assert (aimed["variant"], aimed["inExperiment"], aimed["reason"]) == ("control", False, "not_targeted")
    assert (forced["variant"], forced["inExperiment"], forced["reason"]) == ("green", False, "forced")
    assert not Exposure.objects.exists()


def test_variants__recorded__are_those_that_get_variant_then_answers(api, several):
    answers = ask_all(api, "u", attributes={"country": "CH", "plan": "pro"}, record=True)

    assert {each.experiment.key: each.variant for each in Exposure.objects.select_related("experiment")} == {
        each["experiment"]: each["variant"] for each in answers if each["inExperiment"]
    }
    assert Exposure.objects.count() == 2
    assert [each.attributes for each in Exposure.objects.all()] == [{"country": "CH", "plan": "pro"}] * 2
    for each in answers:
        assert ask(api, "u", each["experiment"])["variant"] == each["variant"]


def test_variants__stored_ones__are_what_is_answered(api, several):
    report(api, "u", "green", experiment="a-plain")
    report(api, "u", "green", experiment="b-aimed")

    assert [(each["variant"], each["inExperiment"]) for each in ask_all(api, "u")][:2] == [("green", True)] * 2


@pytest.mark.parametrize(("body", "queries"), [({}, 1), ({"record": True}, 2)])
def test_variants__any_number_of_experiments__takes_one_query_and_one_more_to_record(
    api, several, django_assert_num_queries, body, queries
):
    ask_all(api, "someone else")
    with django_assert_num_queries(queries):
        assert len(ask_all(api, "u", **body)) == 3


def test_variants__nothing_runs__is_nothing(api):
    ExperimentFactory(key="draft")

    assert ask_all(api, "u") == []


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["userId"]),
        ({"userId": "", "record": "yes"}, ["userId", "record"]),
        ({"userId": "u", "record": None}, ["record"]),
        ({"userId": "u", "attributes": [], "recorded": True}, ["attributes", "recorded"]),
    ],
)
def test_variants__unacceptable_body__names_every_field(api, body, fields):
    found = error(api.post("/v1/variants", body), 400, "validation_failed")

    assert [each["field"] for each in found["details"]] == fields


# --- what is said of an experiment -----------------------------------------------------------------------------------


VARIANTS = [{"key": "control", "weight": 50}, {"key": "green", "weight": 50}]
AIMED = {
    "percentage": 12.5,
    "conditions": IN_SWITZERLAND,
    "group": {"key": "checkout", "from": 0, "to": 50},
    "forcedVariants": {"qa-1": "green"},
    "flag": {"key": "f", "serves": {"control": False, "green": True}},
    "plannedSampleSize": 20000,
}


@pytest.fixture
def flag(api) -> None:
    data(api.post("/v1/flags", {"key": "f", "enabled": True}), 201)


def test_audience__of_a_draft__reads_as_it_was_sent_and_goes_with_null(api, flag):
    created = data(api.post("/v1/experiments", {"key": "e", "variants": VARIANTS, **AIMED}), 201)
    assert {name: created[name] for name in AIMED} == AIMED
    assert data(api.patch("/v1/experiments/e", created)) == created

    emptied = data(api.patch("/v1/experiments/e", dict.fromkeys(AIMED)))
    assert AIMED.keys().isdisjoint(emptied)


@pytest.mark.parametrize("name", ["percentage", "conditions", "group", "flag", "plannedSampleSize"])
@pytest.mark.parametrize("state", ["running", "stopped"])
def test_audience__of_a_started_experiment__is_locked_but_for_testers(api, flag, name, state):
    data(api.post("/v1/experiments", {"key": "e", "variants": VARIANTS, **AIMED}), 201)
    data(api.post("/v1/experiments/e/start"))
    if state == "stopped":
        data(api.post("/v1/experiments/e/stop"))
    read = data(api.get("/v1/experiments/e"))
    message = error(api.patch("/v1/experiments/e", {name: None}), 409, "experiment_locked")["message"]
    assert ("/v1/experiments/e/phases" in message) == (state == "running" and name in ("percentage", "conditions"))

    forced = {"qa-2": "control"}
    changed = data(api.patch("/v1/experiments/e", {**read, "forcedVariants": forced, "description": "new"}))
    assert changed == {**read, "forcedVariants": forced, "description": "new"}


def test_percentage__of_nothing__is_reported_and_kept(api):
    created = data(api.post("/v1/experiments", {"key": "e", "variants": VARIANTS, "percentage": 0}), 201)
    assert created["percentage"] == 0
    data(api.post("/v1/experiments/e/start"))

    assert ask(api, "u")["reason"] == "not_in_traffic"


def test_create__part_of_a_group_that_is_taken__is_refused_with_what_is_free(api):
    ExperimentFactory(key="first", group={"key": "checkout", "from": 20, "to": 60})
    body = {"key": "e", "variants": VARIANTS, "group": {"key": "checkout", "from": 0, "to": 50}}
    found = error(api.post("/v1/experiments", body), 409, "in_use")

    assert "first" in found["message"]
    assert "0 to 20 %, 60 to 100 %" in found["message"]
    assert [each["field"] for each in found["details"]] == ["group"]


def test_registration__that_follows_from_the_metrics__is_left_out_until_metrics_are_added(api):
    ExperimentFactory(key="e")
    assert "registration" not in data(api.post("/v1/experiments/e/start"))
    more = data(api.patch("/v1/experiments/e", {"metrics": ["purchase", "refund"]}))
    assert more["registration"]["metrics"] == ["purchase"]


def test_registration__of_a_decrease_within_a_window__is_answered(api):
    sent = {"key": "complaints", "type": "count", "event": "complaint", "direction": "decrease", "windowHours": 24}
    data(api.post("/v1/metrics", sent), 201)
    ExperimentFactory(key="e", metrics=["complaints"])
    registration = data(api.post("/v1/experiments/e/start"))["registration"]
    assert (registration["direction"], registration["windowHours"]) == ("decrease", 24)


def test_registration__from_the_start_on__is_answered_and_may_be_sent_back_unchanged(api):
    ExperimentFactory(key="e", planned_size=500)
    assert "registration" not in data(api.get("/v1/experiments/e"))
    started = data(api.post("/v1/experiments/e/start"))

    assert started["registration"] == {
        "primaryMetric": "purchase",
        "direction": "increase",
        "windowHours": None,
        "metrics": ["purchase"],
        **{"plannedSampleSize": 500, "minimumEffect": None, "analysis": "sequential"},
        **{"minimumDays": 7, "lookbackDays": 28, "tuningSampleSize": 500},
    }
    assert data(api.patch("/v1/experiments/e", started)) == started
    changed = {"registration": {**started["registration"], "primaryMetric": "other"}}
    [detail] = error(api.patch("/v1/experiments/e", changed), 400, "validation_failed")["details"]
    assert (detail["field"], detail["code"]) == ("registration", "invalid_value")
