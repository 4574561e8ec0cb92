"""The /v1/experiments operations, as a client sees them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from config.models import Change
from experiments.models import Experiment, Exposure
from tests.answers import data, error, next_page
from tests.experiments.calls import assign, report
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.both_lanes

DRAFT_FIELDS = ["id", "key", "description", "status", "variants", "metrics", "results", "createdAt"]
STARTED_FIELDS = [*DRAFT_FIELDS, "startedAt"]
ENTRY_FIELDS = ["id", "key", "status", "variants", "createdAt"]
VARIANTS = [{"key": "control", "weight": 50}, {"key": "green", "weight": 50}]
NOTHING = {"conversion": 0, "sampleSize": 0}


# --- create, get, update, delete -------------------------------------------------------------------------------------


def test_create__key_and_variants__is_a_draft_with_the_defaults(api):
    response = api.post("/v1/experiments", {"key": "button", "variants": VARIANTS})
    experiment = data(response, 201)
    assert list(experiment) == DRAFT_FIELDS
    assert (experiment["status"], experiment["description"], experiment["metrics"]) == ("draft", "", [])
    assert experiment["variants"] == VARIANTS
    assert experiment["results"] == {"control": NOTHING, "green": NOTHING}
    assert UUID(experiment["id"]).version == 7
    assert response["Location"] == "http://testserver/v1/experiments/button"
    assert data(api.get(response["Location"])) == experiment


@pytest.mark.parametrize(
    "weights", [(1, 1), (0.5, 0.5), (0, 1), (1, 99), (1e-9, 1e9), (33.333, 66.667), (1e308, 5e-324), (2**53 + 1, 7)]
)
def test_create__weights_of_any_sum__are_kept_as_sent_and_can_be_started(api, weights):
    variants = [{"key": f"v{index}", "weight": weight} for index, weight in enumerate(weights)]
    assert data(api.post("/v1/experiments", {"key": "e", "variants": variants}), 201)["variants"] == variants
    assert data(api.post("/v1/experiments/e/start"))["variants"] == variants
    assert data(api.post("/v1/experiments/e/variant", {"userId": "u"}))["variant"] in ("v0", "v1")


def test_create__fields_of_the_wrong_type_or_name__are_all_named(api):
    body = {"key": 1, "description": 2, "variants": None, "metric": "buy"}
    found = error(api.post("/v1/experiments", body), 400, "validation_failed")
    assert {detail["field"]: detail["code"] for detail in found["details"]} == {
        "key": "invalid_type",
        "description": "invalid_type",
        "variants": "invalid_type",
        "metric": "unknown_field",
    }


def test_create__parts_that_are_not_acceptable__are_all_named(api):
    body = {"key": "a b", "variants": [{"key": "a", "weight": -1}, {"key": "a"}], "metrics": [1, ""]}
    found = error(api.post("/v1/experiments", body), 400, "validation_failed")
    assert {detail["field"]: detail["code"] for detail in found["details"]} == {
        "key": "invalid_value",
        "variants[0].weight": "out_of_range",
        "variants[1].key": "duplicate",
        "variants[1].weight": "required",
        "metrics[0]": "invalid_type",
        "metrics[1]": "out_of_range",
    }
    assert not Experiment.objects.exists()


def test_create__key_that_exists__is_refused_in_this_environment_only(api, staging_api):
    ExperimentFactory(key="button")
    error(api.post("/v1/experiments", {"key": "button", "variants": VARIANTS}), 409, "already_exists")
    data(staging_api.post("/v1/experiments", {"key": "button", "variants": VARIANTS}), 201)


def test_get__unknown_key__is_not_found(api):
    assert "'nope'" in error(api.get("/v1/experiments/nope"), 404, "experiment_not_found")["message"]


@pytest.mark.parametrize(
    "change",
    [
        {"description": "new"},
        {"metrics": ["signup", "purchase"]},
        {"variants": [{"key": "x", "weight": 1}, {"key": "y", "weight": 2}, {"key": "z", "weight": 0}]},
    ],
)
def test_update__draft__replaces_what_is_sent(api, change):
    ExperimentFactory(key="e", description="old")
    before = data(api.get("/v1/experiments/e"))
    after = data(api.patch("/v1/experiments/e", change))
    assert {**after, "results": None} == {**before, **change, "results": None}
    assert list(after["results"]) == [variant["key"] for variant in after["variants"]]


def test_update__what_was_read__can_be_edited_and_sent_back(api):
    ExperimentFactory(key="e", running=True)
    read = data(api.get("/v1/experiments/e"))
    assert data(api.patch("/v1/experiments/e", {**read, "description": "edited"}))["description"] == "edited"


def test_update__nothing_new__writes_no_change(api):
    ExperimentFactory(key="e")
    revision = Change.objects.latest_revision()
    data(api.patch("/v1/experiments/e", {"variants": VARIANTS, "metrics": ["purchase"]}))
    assert Change.objects.latest_revision() == revision


@pytest.mark.parametrize("state", ["running", "stopped"])
@pytest.mark.parametrize(
    "change", [{"metrics": []}, {"variants": [{"key": "control", "weight": 1}, {"key": "green", "weight": 9}]}]
)
def test_update__started__is_locked_but_for_its_description(api, state, change):
    ExperimentFactory(key="e", **{state: True})
    before = data(api.get("/v1/experiments/e"))
    error(api.patch("/v1/experiments/e", {"description": "not this either", **change}), 409, "experiment_locked")
    assert data(api.get("/v1/experiments/e")) == before
    assert data(api.patch("/v1/experiments/e", {"description": "new"}))["description"] == "new"


def test_delete__draft__is_gone_and_its_history_stays(api):
    experiment = ExperimentFactory(key="e")
    response = api.delete("/v1/experiments/e")
    assert (response.status_code, response.content) == (204, b"")
    error(api.get("/v1/experiments/e"), 404, "experiment_not_found")
    assert Change.objects.of("experiment", experiment.pk).count() == 2


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_delete__started__is_locked(api, state):
    ExperimentFactory(key="e", **{state: True})
    error(api.delete("/v1/experiments/e"), 409, "experiment_locked")
    assert data(api.get("/v1/experiments/e"))["status"] == state


# --- start and stop --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"data": b""},
        {"data": b"{}", "content_type": "application/json"},
        {"data": b"", "content_type": "text/plain"},
    ],
)
def test_start_and_stop__no_body_an_empty_one_and_an_empty_object__are_the_same(api, body):
    ExperimentFactory(key="e")
    started = data(api.generic("POST", "/v1/experiments/e/start", **body))
    assert list(started) == STARTED_FIELDS
    assert started["status"] == "running"
    stopped = data(api.generic("POST", "/v1/experiments/e/stop", **body))
    assert list(stopped) == [*STARTED_FIELDS, "stoppedAt"]
    assert (stopped["status"], stopped["startedAt"]) == ("stopped", started["startedAt"])
    assert stopped["stoppedAt"] >= stopped["startedAt"]
    assert data(api.get("/v1/experiments/e")) == stopped


@pytest.mark.parametrize(
    ("state", "operation"), [("draft", "stop"), ("running", "start"), ("stopped", "start"), ("stopped", "stop")]
)
def test_transition__out_of_order__is_refused_and_changes_nothing(api, state, operation):
    ExperimentFactory(key="e", **({} if state == "draft" else {state: True}))
    before = data(api.get("/v1/experiments/e"))
    assert state in error(api.post(f"/v1/experiments/e/{operation}"), 409, "invalid_transition")["message"]
    assert data(api.get("/v1/experiments/e")) == before


# --- list ------------------------------------------------------------------------------------------------------------


def keys(response: Any) -> list[str]:
    return [experiment["key"] for experiment in data(response)]


def test_list__entries__carry_exactly_what_is_documented(api):
    ExperimentFactory(key="e", running=True)
    whole = data(api.get("/v1/experiments/e"))
    [entry] = data(api.get("/v1/experiments"))
    assert list(entry) == ENTRY_FIELDS
    assert entry == {**{name: whole[name] for name in ENTRY_FIELDS}, "variants": ["control", "green"]}


def test_list__without_limit__is_all_of_them_newest_first(api):
    expected = [experiment.key for experiment in ExperimentFactory.create_batch(105)][::-1]
    response = api.get("/v1/experiments")
    assert keys(response) == expected
    assert "Link" not in response


def test_list__by_pages__gives_every_experiment_once_though_all_are_of_one_moment(api):
    expected = [experiment.key for experiment in ExperimentFactory.create_batch(5)][::-1]
    found, address = [], "/v1/experiments?limit=2"
    while address:
        response = api.get(address)
        found.append(keys(response))
        address = next_page(response)
    assert found == [expected[:2], expected[2:4], expected[4:]]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("status=draft", ["d"]),
        ("status=running", ["r"]),
        ("status=stopped", ["s"]),
        ("search=BUTTON", ["r"]),
        ("search=S&status=stopped", ["s"]),
        ("search=nothing", []),
    ],
)
def test_list__filters__narrow_it(api, query, found):
    ExperimentFactory(key="d")
    ExperimentFactory(key="r", running=True, description="A green button?")
    ExperimentFactory(key="s", stopped=True)
    assert keys(api.get(f"/v1/experiments?{query}")) == found


def test_list__other_environment__has_its_own(api, staging_api, staging):
    ExperimentFactory(key="e", running=True)
    assert keys(staging_api.get("/v1/experiments")) == []
    for response in (
        staging_api.get("/v1/experiments/e"),
        staging_api.post("/v1/experiments/e/stop"),
        staging_api.post("/v1/experiments/e/variant", {"userId": "u"}),
        staging_api.patch("/v1/experiments/e", {"description": "x"}),
        staging_api.delete("/v1/experiments/e"),
    ):
        error(response, 404, "experiment_not_found")
    assert data(api.get("/v1/experiments/e"))["status"] == "running"


@pytest.mark.parametrize("count", [1, 12])
def test_list__any_number_of_experiments__takes_one_query(api, django_assert_num_queries, count):
    ExperimentFactory.create_batch(count)
    api.get("/v1/experiments")
    with django_assert_num_queries(1):
        assert len(keys(api.get("/v1/experiments"))) == count


@pytest.mark.django_db(transaction=True)
def test_get__of_many_exposures__takes_few_queries(api, django_assert_max_num_queries):
    ExperimentFactory(key="e", running=True)
    for user in range(10):
        assign(api, f"user-{user}")
    data(api.get("/v1/experiments/e"))
    with django_assert_max_num_queries(6):
        data(api.get("/v1/experiments/e"))


# --- get variant -----------------------------------------------------------------------------------------------------


def test_variant__users__get_one_each_for_good_and_are_counted_once(api):
    experiment = ExperimentFactory(key="e", running=True)
    users = [f"user-{at}" for at in range(40)]
    first = [assign(api, user) for user in users]
    assert [assign(api, user) for user in users] == first
    assert {"control", "green"} == set(first)
    assert dict(Exposure.objects.values_list("user_id", "variant")) == dict(zip(users, first, strict=True))
    results = data(api.get("/v1/experiments/e"))["results"]
    assert {key: result["sampleSize"] for key, result in results.items()} == {
        "control": first.count("control"),
        "green": first.count("green"),
    }
    answer = data(api.post("/v1/experiments/e/variant", {"userId": "user-0"}))
    assert answer["experimentId"] == str(experiment.pk)


def test_variant__of_weight_0__is_given_to_nobody(api):
    ExperimentFactory(key="e", running=True, variants=[{"key": "a", "weight": 0}, {"key": "b", "weight": 0.1}])
    assert {assign(api, f"user-{at}") for at in range(20)} == {"b"}


@pytest.mark.parametrize("user", ["u" * 200, "🙂" * 200, " ", "a/b?c"])
def test_variant__user_id_of_1_to_200_characters__is_accepted(api, user):
    ExperimentFactory(key="e", running=True)
    assert assign(api, user) in ("control", "green")
    assert Exposure.objects.get().user_id == user


@pytest.mark.parametrize("state", ["draft", "stopped"])
def test_variant__not_running__is_refused_and_records_nothing(api, state):
    ExperimentFactory(key="e", **({} if state == "draft" else {state: True}))
    response = api.post("/v1/experiments/e/variant", {"userId": "u"})
    assert state in error(response, 409, "experiment_not_running")["message"]
    assert not Exposure.objects.exists()


def test_variant__as_soon_as_it_is_started_or_stopped__knows(api):
    ExperimentFactory(key="e")
    error(api.post("/v1/experiments/e/variant", {"userId": "u"}), 409, "experiment_not_running")
    data(api.post("/v1/experiments/e/start"))
    assign(api, "u")
    data(api.post("/v1/experiments/e/stop"))
    error(api.post("/v1/experiments/e/variant", {"userId": "u"}), 409, "experiment_not_running")


def test_variant__after_the_client_reported_its_own__is_what_was_reported(api):
    ExperimentFactory(key="e", running=True)
    natural = assign(api, "natural")
    other = "green" if natural == "control" else "control"
    reporting = ExperimentFactory(key="copy", running=True)
    report(api, "natural", other, experiment=str(reporting.pk))
    assert assign(api, "natural", "copy") == other


def test_variant__known_user__takes_one_query(api, django_assert_num_queries):
    ExperimentFactory(key="e", running=True)
    assign(api, "u")
    with django_assert_num_queries(1):
        assign(api, "u")


# --- how many users the always-valid intervals are tuned for ----------------------------------------------------------


def test_tuning_size__of_a_draft__can_be_set_and_changed_until_it_starts(api):
    variants = [{"key": "a", "weight": 1}, {"key": "b", "weight": 1}]
    draft = data(api.post("/v1/experiments", {"key": "e", "variants": variants, "tuningSampleSize": 800}), 201)
    assert draft["tuningSampleSize"] == 800
    assert data(api.patch("/v1/experiments/e", {"tuningSampleSize": 900}))["tuningSampleSize"] == 900
    data(api.post("/v1/experiments/e/start"))
    error(api.patch("/v1/experiments/e", {"tuningSampleSize": 800}), 409, "experiment_locked")
    assert data(api.patch("/v1/experiments/e", {"tuningSampleSize": 900}))["tuningSampleSize"] == 900


def test_tuning_size__of_the_default__is_left_out(api):
    ExperimentFactory(key="e", given_tuning_size=800)
    assert data(api.get("/v1/experiments/e"))["tuningSampleSize"] == 800
    assert "tuningSampleSize" not in data(api.patch("/v1/experiments/e", {"tuningSampleSize": 5000}))


@pytest.mark.parametrize(
    ("size", "code"),
    [(99, "out_of_range"), (10_000_001, "out_of_range"), ("800", "invalid_type"), (0.5, "invalid_type")],
)
def test_tuning_size__that_cannot_be__is_refused(api, size, code):
    ExperimentFactory(key="e")
    body = {"tuningSampleSize": size}
    [detail] = error(api.patch("/v1/experiments/e", body), 400, "validation_failed")["details"]
    assert (detail["field"], detail["code"]) == ("tuningSampleSize", code)
