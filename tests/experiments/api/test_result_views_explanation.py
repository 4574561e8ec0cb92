"""GET /v1/experiments/<key>/results/explain: what it takes, and that it arrives at the value of the results."""

from __future__ import annotations

import pytest

from tests.experiments.results.asking import PATH, ask, refused
from tests.experiments.results.shop import METRICS
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("key", METRICS)
def test_explanation__of_each_metric__arrives_at_the_value_of_the_results(api, shop, key):
    [metric] = ask(api, metric=key)["metrics"]
    for figures in metric["variants"]:
        explained = ask(api, f"{PATH}/explain", metric=key, variant=figures["key"])
        assert (explained["metric"], explained["variant"]) == (key, figures["key"])
        assert explained["definition"] == {name: metric[name] for name in explained["definition"]}
        assert explained["value"] == pytest.approx(figures["value"])
        assert explained["users"] == figures["users"]
        assert [entry["name"] for entry in explained["steps"]][-1] == "counted"


def test_explanation__of_a_draft__counts_nobody(api):
    ExperimentFactory(key="draft")
    answer = ask(api, "/v1/experiments/draft/results/explain", metric="purchase", variant="green")
    assert (answer["users"], answer["value"], answer["steps"][-1]["rows"]) == (0, None, 0)


@pytest.mark.parametrize(
    ("parameters", "field", "code"),
    [
        ({"metric": "bought"}, "variant", "required"),
        ({"variant": "green"}, "metric", "required"),
        ({"metric": "", "variant": "green"}, "metric", "required"),
        ({"metric": "sales", "variant": "green"}, "metric", "unknown_reference"),
        ({"metric": "bought", "variant": "blue"}, "variant", "unknown_reference"),
        ({"metric": "bought", "variant": "green", "day": "1"}, "day", "unknown_field"),
    ],
)
def test_explanation__parameters_that_are_not_acceptable__are_named(api, shop, parameters, field, code):
    refused(api.get(f"{PATH}/explain", parameters), field, code)
