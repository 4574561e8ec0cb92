"""The /v1/metrics operations, as a client sees them."""

from __future__ import annotations

from typing import Any

import pytest

from config.models import Change
from experiments.models import Metric
from tests.answers import data, error, next_page
from tests.factories import ExperimentFactory
from tests.openapi import validator

ENTRY_FIELDS = [
    *("id", "key", "description", "type", "event", "property", "currency", "denominator", "windowHours", "delayHours"),
    *("fromDay", "toDay", "capValue", "capPercentile", "direction", "role", "version", "createdAt", "updatedAt"),
]
FIELDS = [*ENTRY_FIELDS, "usedBy"]
CONVERSION = {"type": "conversion", "event": "purchase"}
REVENUE = {"type": "revenue", "event": "purchase", "currency": "EUR", "windowHours": 168, "capPercentile": 99.5}
RATIO = {"type": "ratio", "event": "click", "denominator": {"event": "view", "property": "n", "currency": ""}}


def create(api: Any, key: str = "spent", **values: Any) -> Any:
    return data(api.post("/v1/metrics", {"key": key, **(values or REVENUE)}), 201)


def keys(response: Any) -> list[str]:
    return [metric["key"] for metric in data(response)]


# --- create, get, update ----------------------------------------------------------------------------------------------


def test_create__what_is_required__has_the_defaults(api):
    metric = create(api, **CONVERSION)
    assert list(metric) == FIELDS
    assert metric == {
        **metric,
        **CONVERSION,
        **dict.fromkeys(["description", "property", "currency"], ""),
        **dict.fromkeys(["denominator", "windowHours", "fromDay", "toDay", "capValue", "capPercentile"]),
        **{"delayHours": 0, "direction": "increase", "role": "goal", "version": 1, "usedBy": []},
    }


@pytest.mark.parametrize(
    "sent",
    [
        {**REVENUE, "description": "Ünï"},
        {**CONVERSION, "delayHours": 24, "role": "guardrail", "direction": "decrease"},
        {"type": "sum", "event": "purchase", "property": "items", "capValue": 250.5},
        {"type": "mean", "event": "page view", "property": "seconds"},
        RATIO,
        {"type": "retention", "event": "visit", "fromDay": 7, "toDay": 14},
    ],
    ids=lambda each: each["type"],
)
def test_create__each_type__is_answered_as_sent_with_its_address_and_version(api, staging_api, sent):
    response = api.post("/v1/metrics", {"key": "m", **sent}, HTTP_X_CHANGE_REASON="Asked for")
    assert sent.items() <= data(response, 201).items()
    assert response["Location"] == "http://testserver/v1/metrics/m"
    read = staging_api.get("/v1/metrics/m")
    assert (data(read), read["ETag"]) == (response.json()["data"], response["ETag"])
    assert Change.objects.first().reason == "Asked for"


def test_create__key_that_exists__is_refused(api):
    create(api)
    error(api.post("/v1/metrics", {"key": "spent", **CONVERSION}), 409, "already_exists")


def test_create__twice_with_one_idempotency_key__creates_once(api):
    first, second = (api.post("/v1/metrics", {"key": "m", **CONVERSION}, HTTP_IDEMPOTENCY_KEY="once") for _ in range(2))
    assert data(second, 201) == data(first, 201)
    assert Metric.objects.count() == 1


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["type", "event"]),
        ({**CONVERSION, "key": "no key"}, ["key"]),
        ({**CONVERSION, "version": 1}, ["version"]),
        ({**CONVERSION, "usedBy": []}, ["usedBy"]),
    ],
)
def test_create__what_cannot_be__is_refused_with_its_fields(api, body, fields):
    details = error(api.post("/v1/metrics", {"key": "m", **body}), 400, "validation_failed")["details"]
    assert [detail["field"] for detail in details] == fields


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        ({"type": "median"}, "type", "invalid_value"),
        ({"type": None}, "type", "invalid_type"),
        ({"type": "ratio", "capPercentile": None}, "denominator", "required"),
        ({"type": "conversion"}, "currency", "invalid_value"),
        ({"event": ""}, "event", "out_of_range"),
        ({"event": "e" * 201}, "event", "too_long"),
        ({"event": 7}, "event", "invalid_type"),
        ({"property": "revenue"}, "property", "invalid_value"),
        ({"property": None}, "property", "invalid_type"),
        ({"currency": "euro"}, "currency", "invalid_value"),
        ({"currency": ""}, "currency", "required"),
        ({"denominator": {"event": "view"}}, "denominator", "invalid_value"),
        ({"denominator": 1}, "denominator", "invalid_value"),
        ({"windowHours": -1}, "windowHours", "out_of_range"),
        ({"windowHours": 8761}, "windowHours", "out_of_range"),
        ({"windowHours": "24"}, "windowHours", "invalid_type"),
        ({"windowHours": 1.5}, "windowHours", "invalid_type"),
        ({"windowHours": True}, "windowHours", "invalid_type"),
        ({"delayHours": -1}, "delayHours", "out_of_range"),
        ({"delayHours": None}, "delayHours", "invalid_type"),
        ({"fromDay": 1}, "fromDay", "invalid_value"),
        ({"toDay": 0}, "toDay", "out_of_range"),
        ({"capValue": 0, "capPercentile": None}, "capValue", "out_of_range"),
        ({"capValue": 10}, "capPercentile", "invalid_value"),
        ({"capPercentile": 100}, "capPercentile", "out_of_range"),
        ({"capPercentile": "99"}, "capPercentile", "invalid_type"),
        ({"direction": "up"}, "direction", "invalid_value"),
        ({"role": "hero"}, "role", "invalid_value"),
        ({"description": "x" * 2001}, "description", "too_long"),
        ({"key": "other"}, "key", "invalid_value"),
        ({"version": 2}, "version", "invalid_value"),
        ({"formula": "a / b"}, "formula", "unknown_field"),
    ],
)
def test_update__what_a_metric_cannot_be__is_refused_with_its_field(api, body, field, code):
    before = create(api)
    detail = error(api.patch("/v1/metrics/spent", body), 400, "validation_failed")["details"][0]
    assert (detail["field"], detail["code"]) == (field, code)
    assert data(api.get("/v1/metrics/spent")) == before


@pytest.mark.parametrize(
    ("other", "code"),
    [
        ({"event": "view", "property": "revenue", "currency": "CHF"}, "invalid_value"),
        ({"event": "view", "property": "revenue"}, "required"),
        ({"event": "view", "property": "revenue", "currency": None}, "invalid_type"),
    ],
)
def test_create__ratio_without_one_currency__is_refused_at_the_denominator(api, other, code):
    body = {"key": "m", "type": "ratio", "event": "buy", "property": "revenue", "currency": "EUR", "denominator": other}
    [detail] = error(api.post("/v1/metrics", body), 400, "validation_failed")["details"]
    assert (detail["field"], detail["code"]) == ("denominator.currency", code)


@pytest.mark.parametrize(
    "change", [{"description": "new"}, {"windowHours": None}, {"capPercentile": None, "capValue": 9.0}, {"event": "x"}]
)
def test_update__some_properties__replaces_them_and_keeps_the_others(api, change):
    before = create(api)
    after = data(api.patch("/v1/metrics/spent", change))
    assert after == {**before, **change, "updatedAt": after["updatedAt"]}
    assert data(api.get("/v1/metrics/spent")) == after


def test_update__to_another_type__wants_what_does_not_go_with_it_taken_away(api):
    create(api)
    details = error(api.patch("/v1/metrics/spent", {"type": "retention"}), 400, "validation_failed")["details"]
    assert {detail["field"] for detail in details} == {"currency", "windowHours", "capPercentile", "fromDay", "toDay"}
    away = {"currency": "", "windowHours": None, "capPercentile": None}
    after = data(api.patch("/v1/metrics/spent", {"type": "retention", "fromDay": 1, "toDay": 2, **away}))
    assert after["toDay"] == 2


def test_update__what_was_read__can_be_sent_back_and_changes_nothing(api):
    create(api)
    ExperimentFactory(key="e", metrics=["spent"])
    read, revision = api.get("/v1/metrics/spent"), Change.objects.latest_revision()
    after = api.patch("/v1/metrics/spent", data(read), HTTP_IF_MATCH=read["ETag"])
    assert (data(after), after["ETag"]) == (data(read), read["ETag"])
    assert Change.objects.latest_revision() == revision


@pytest.mark.parametrize("method", ["patch", "delete"])
def test_update_and_delete__stale_version__are_refused(api, method):
    create(api)
    stale = api.get("/v1/metrics/spent")["ETag"]
    current = api.patch("/v1/metrics/spent", {"windowHours": 24})["ETag"]
    body = {"description": "x"} if method == "patch" else None
    error(getattr(api, method)("/v1/metrics/spent", body, HTTP_IF_MATCH=stale), 412, "precondition_failed")
    assert getattr(api, method)("/v1/metrics/spent", body, HTTP_IF_MATCH=current).status_code < 300


@pytest.mark.parametrize("key", ["nope", "SPENT", "a%00b"])
def test_get_update_and_delete__unknown_key__is_not_found(api, key):
    create(api)
    error(api.get(f"/v1/metrics/{key}"), 404, "not_found")
    error(api.patch(f"/v1/metrics/{key}", {}), 404, "not_found")
    error(api.delete(f"/v1/metrics/{key}"), 404, "not_found")


# --- versions and use -------------------------------------------------------------------------------------------------


def test_get__used__tells_the_experiments_of_the_environment_with_the_versions_that_they_measure(api, staging_api):
    ExperimentFactory(key="early", metrics=["spent"], running=True)
    create(api)
    ExperimentFactory(key="running", metrics=["buy", "spent"], running=True)
    data(api.patch("/v1/metrics/spent", {"windowHours": 24}))
    ExperimentFactory(key="draft", metrics=["spent"])
    ExperimentFactory(key="other", metrics=["spent-more"])
    assert data(api.get("/v1/metrics/spent"))["usedBy"] == [
        {"experiment": "draft", "status": "draft", "version": 2},
        {"experiment": "running", "status": "running", "version": 1},
        {"experiment": "early", "status": "running", "version": 0},
    ]
    assert data(staging_api.get("/v1/metrics/spent"))["usedBy"] == []


def test_update__meaning_that_a_running_experiment_measures__is_answered_with_its_new_version(api):
    create(api)
    ExperimentFactory(metrics=["spent"], running=True)
    assert data(api.patch("/v1/metrics/spent", {"windowHours": 24}))["version"] == 2
    [newest, *_] = data(api.get("/v1/audit?object=metric/spent"))
    assert sorted(newest["changes"], key=lambda each: each["field"]) == [
        {"field": "version", "before": 1, "after": 2},
        {"field": "windowHours", "before": 168, "after": 24},
    ]


def test_experiment__start__tells_its_definitions_in_the_audit(api):
    create(api)
    ExperimentFactory(key="e", metrics=["spent"])
    data(api.post("/v1/experiments/e/start"))
    [newest, *_] = data(api.get("/v1/audit?object=experiment/e"))
    [definition] = next(each["after"] for each in newest["changes"] if each["field"] == "definitions")
    assert (definition["key"], definition["version"], definition["windowHours"]) == ("spent", 1, 168)


# --- delete -----------------------------------------------------------------------------------------------------------


def test_delete__metric__is_gone_and_its_history_stays(api):
    create(api)
    response = api.delete("/v1/metrics/spent")
    assert (response.status_code, response.content) == (204, b"")
    assert not Metric.objects.exists()
    assert [entry["action"] for entry in data(api.get("/v1/audit?object=metric/spent"))] == ["deleted", "created"]


def test_delete__used_by_a_draft__is_refused_with_its_name(api):
    create(api)
    ExperimentFactory(key="e", metrics=["spent"])
    message = error(api.delete("/v1/metrics/spent"), 409, "in_use")["message"]
    assert "e (production)" in message


# --- list -------------------------------------------------------------------------------------------------------------


def test_list__entries__carry_all_but_who_uses_them(api):
    whole = create(api, **RATIO, description="d")
    [entry] = data(api.get("/v1/metrics"))
    assert list(entry) == ENTRY_FIELDS
    assert entry == {name: whole[name] for name in ENTRY_FIELDS}


def test_list__by_pages_and_search__gives_every_metric_once_by_key(api):
    for key in ("pear", "apple", "fig"):
        create(api, key, **CONVERSION, description="fruit")
    create(api, "nut", **CONVERSION)
    assert keys(api.get("/v1/metrics")) == ["apple", "fig", "nut", "pear"]
    first = api.get("/v1/metrics?search=FRUIT&limit=2")
    assert keys(first) == ["apple", "fig"]
    assert keys(api.get(next_page(first))) == ["pear"]


@pytest.mark.parametrize("count", [1, 12])
def test_list__any_number_of_metrics__takes_one_query(api, django_assert_num_queries, count):
    for at in range(count):
        create(api, f"m{at}", **CONVERSION)
    api.get("/v1/metrics")
    with django_assert_num_queries(1):
        assert len(data(api.get("/v1/metrics"))) == count


# --- the OpenAPI document --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "is_valid"),
    [
        ({"type": "count", "capValue": 0.5}, True),
        ({"type": "count", "capValue": None}, True),
        ({"type": "count", "capValue": 0}, False),
        ({"type": "count", "capPercentile": 50.1}, True),
        ({"type": "count", "capPercentile": 50}, False),
        ({"type": "count", "capPercentile": 99.9}, True),
        ({"type": "count", "capPercentile": 100}, False),
        ({"type": "count", "capPercentile": None}, True),
        ({"type": "revenue", "currency": "EUR"}, True),
        ({"type": "revenue", "currency": "eur"}, True),
        ({"type": "revenue", "currency": "euro"}, False),
        ({"type": "count", "currency": ""}, True),
    ],
)
def test_metric_request__in_the_document__allows_what_the_service_does(api, sent, is_valid):
    body = {"key": "m", "event": "purchase", **sent}
    assert validator({"$ref": "#/components/schemas/MetricRequest"}).is_valid(body) is is_valid
    assert api.post("/v1/metrics", body).status_code == (201 if is_valid else 400)
