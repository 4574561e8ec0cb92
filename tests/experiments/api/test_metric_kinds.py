"""Conditions, funnels, distinct values, quantiles and margins of metrics, as a client of /v1/metrics sends them."""

from __future__ import annotations

from typing import Any

import pytest

from config.models import Change
from tests.answers import data, error
from tests.experiments.metrics.test_definition import STEPS, WHERE
from tests.openapi import validator

FUNNEL = {"type": "funnel", "steps": STEPS, "windowHours": 24}
QUANTILE = {"type": "quantile", "event": "view", "property": "seconds", "quantile": 0.95}
CONVERSION = {"type": "conversion", "event": "buy"}
GUARDRAIL = {**CONVERSION, "role": "guardrail"}
LATER = ("where", "steps", "quantile", "margin", "marginAbsolute")
SENT = [
    {**CONVERSION, "where": WHERE},
    {**FUNNEL, "event": "view"},
    FUNNEL,
    QUANTILE,
    {"type": "distinct", "event": "view", "property": "page"},
    {"type": "distinct", "event": "view"},
    {**GUARDRAIL, "margin": 0.05},
    {**GUARDRAIL, "marginAbsolute": 0.01},
    {"type": "ratio", "event": "a", "denominator": {"event": "b", "property": "", "currency": "", "where": WHERE}},
]


def create(api: Any, body: dict[str, Any]) -> Any:
    return data(api.post("/v1/metrics", {"key": "m", **body}), 201)


@pytest.mark.parametrize("sent", SENT)
def test_create__each_kind__is_answered_as_sent_without_what_it_does_not_have(api, sent):
    metric = create(api, sent)
    assert sent.items() <= metric.items()
    assert [name for name in metric if name in LATER] == [name for name in LATER if name in sent]
    assert data(api.get("/v1/metrics")) == [{name: value for name, value in metric.items() if name != "usedBy"}]
    validator({"$ref": "#/components/schemas/Metric"}).validate(metric)
    assert validator({"$ref": "#/components/schemas/MetricRequest"}).is_valid({"key": "m", **sent})


@pytest.mark.parametrize("sent", SENT)
def test_update__what_was_read__can_be_sent_back_and_changes_nothing(api, sent):
    create(api, sent)
    read, revision = api.get("/v1/metrics/m"), Change.objects.latest_revision()
    after = api.patch("/v1/metrics/m", data(read), HTTP_IF_MATCH=read["ETag"])
    assert (data(after), after["ETag"]) == (data(read), read["ETag"])
    assert Change.objects.latest_revision() == revision


def test_create__currencies_in_lower_case__are_answered_in_upper_case(api):
    money = {"event": "refund", "property": "revenue", "currency": "eur"}
    metric = create(api, {"type": "ratio", **money, "denominator": money})
    assert (metric["currency"], metric["denominator"]["currency"]) == ("EUR", "EUR")


@pytest.mark.parametrize("nothing", [None, []])
def test_update__where_that_is_nothing__removes_it(api, nothing):
    create(api, {**CONVERSION, "where": WHERE})
    assert "where" not in data(api.patch("/v1/metrics/m", {"where": nothing}))


def test_update__from_a_funnel__needs_its_steps_taken_away(api):
    create(api, FUNNEL)
    [detail] = error(api.patch("/v1/metrics/m", {"type": "count"}), 400, "validation_failed")["details"]
    assert (detail["field"], detail["message"]) == (
        "steps",
        "A metric of type count does not have this; leave it out, or send an empty list to remove it.",
    )
    metric = data(api.patch("/v1/metrics/m", {"type": "count", "steps": None}))
    assert (metric["type"], metric["event"], "steps" in metric) == ("count", "view", False)


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        ({"type": "funnel", "event": "view"}, "steps", "required"),
        ({"type": "funnel"}, "steps", "required"),
        ({"type": "funnel", "steps": []}, "steps", "required"),
        ({"type": "funnel", "steps": None}, "steps", "required"),
        ({"type": "count", "steps": []}, "event", "required"),
        ({**FUNNEL, "steps": STEPS[:1]}, "steps", "out_of_range"),
        ({**FUNNEL, "steps": [{"event": "view"}] * 11}, "steps", "out_of_range"),
        ({**FUNNEL, "steps": "view"}, "steps", "invalid_type"),
        ({**FUNNEL, "steps": [STEPS[0], {"where": []}]}, "steps[1].event", "required"),
        ({**FUNNEL, "event": "buy"}, "event", "invalid_value"),
        ({**FUNNEL, "where": WHERE}, "where", "invalid_value"),
        ({**CONVERSION, "where": {}}, "where", "invalid_type"),
        ({**CONVERSION, "where": [{"property": "p", "operator": "is"}]}, "where[0].operator", "invalid_value"),
        ({**FUNNEL, "steps": [STEPS[0], {"event": "b", "where": [1]}]}, "steps[1].where[0]", "invalid_type"),
        (
            {"type": "ratio", "event": "a", "denominator": {"event": "b", "where": [{**WHERE[1], "value": "2"}]}},
            "denominator.where[0].value",
            "invalid_type",
        ),
        ({**QUANTILE, "quantile": 0}, "quantile", "out_of_range"),
        ({**QUANTILE, "quantile": 1}, "quantile", "out_of_range"),
        ({**QUANTILE, "quantile": "0.5"}, "quantile", "invalid_type"),
        ({**QUANTILE, "quantile": None}, "quantile", "required"),
        ({**QUANTILE, "property": ""}, "property", "required"),
        ({**GUARDRAIL, "margin": 0}, "margin", "out_of_range"),
        ({**GUARDRAIL, "margin": 1.01}, "margin", "out_of_range"),
        ({**GUARDRAIL, "margin": True}, "margin", "invalid_type"),
        ({**GUARDRAIL, "marginAbsolute": 0}, "marginAbsolute", "out_of_range"),
        ({**GUARDRAIL, "margin": 0.1, "marginAbsolute": 1}, "marginAbsolute", "out_of_range"),
        ({**GUARDRAIL, "margin": 0.1, "marginAbsolute": 0.1}, "marginAbsolute", "invalid_value"),
        ({**CONVERSION, "margin": 0.1}, "margin", "invalid_value"),
        ({"type": "revenue", "event": "buy", "currency": "EURO"}, "currency", "invalid_value"),
        ({"type": "revenue", "event": "buy", "currency": "E1R"}, "currency", "invalid_value"),
    ],
)
def test_create__what_a_metric_cannot_be__is_refused_with_its_field(api, body, field, code):
    detail = error(api.post("/v1/metrics", {"key": "m", **body}), 400, "validation_failed")["details"][0]
    assert (detail["field"], detail["code"]) == (field, code)


def test_update__condition_that_a_running_experiment_measures__makes_a_version(api):
    create(api, CONVERSION)
    data(
        api.post(
            "/v1/experiments", {"key": "e", "variants": [{"key": key, "weight": 1} for key in "ab"], "metrics": ["m"]}
        ),
        201,
    )
    data(api.post("/v1/experiments/e/start"))
    assert data(api.patch("/v1/metrics/m", {"where": WHERE}))["version"] == 2
    [newest, *_] = data(api.get("/v1/audit?object=metric/m"))
    assert sorted(change["field"] for change in newest["changes"]) == ["version", "where"]
    results = data(api.get("/v1/experiments/e/results"))
    assert "where" not in results["metrics"][0]
