"""Metrics added to a started experiment: they are measured, marked as post hoc, and decide nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine

from config.models import Change, Environment
from experiments.exposures.recording import outcome_names
from experiments.lifecycle.changes import stop_experiment
from experiments.metrics.changes import create_metric
from experiments.metrics.definition import Definition, definitions_of
from experiments.models import Experiment
from experiments.results.archive import freeze
from experiments.results.check import check_sums
from tests.answers import data, error
from tests.conftest import ACTOR, NOON
from tests.experiments.calls import report
from tests.experiments.conftest import LATER
from tests.experiments.results.asking import ask
from tests.experiments.results.shop import METRICS, make_shoppers, open_shop
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db

PATH = "/v1/experiments/shop"


@pytest.fixture
def _shop(production: Environment) -> Any:
    with time_machine.travel(LATER, tick=False):
        create_metric(key="revenue", actor=ACTOR, now=NOON, **METRICS["revenue"])
        create_metric(key="complaints", actor=ACTOR, now=NOON, **METRICS["complaints"])
        open_shop(production, make_shoppers(), metrics=("bought",))
        yield


@pytest.mark.usefixtures("_shop")
def test_metrics__added_after_the_start__measure_what_they_would_have_and_are_marked(api):
    before = ask(api, f"{PATH}/results")
    data(api.patch(PATH, {"metrics": ["bought", "revenue", "look"]}))
    after = ask(api, f"{PATH}/results")
    assert [(metric["key"], metric["isPostHoc"], metric["isPrimary"]) for metric in after["metrics"]] == [
        ("bought", False, True),
        ("revenue", True, False),
        ("look", True, False),
    ]
    assert after["metrics"][0] == before["metrics"][0]
    spent = [sum(shopper.spent) for shopper in make_shoppers() if shopper.variant == "green"]
    assert after["metrics"][1]["variants"][1]["value"] == pytest.approx(sum(spent) / len(spent))
    assert [variant["value"] for variant in after["metrics"][2]["variants"]] == [1, 1]
    assert check_sums(Experiment.objects.get(), LATER) == []


@pytest.mark.usefixtures("_shop")
def test_metrics__added_after_the_start__change_neither_the_verdict_nor_the_p_values_of_others(api):
    before = ask(api, f"{PATH}/results")
    data(api.patch(PATH, {"metrics": ["bought", "complaints", "revenue"]}))
    after = ask(api, f"{PATH}/results")
    assert (after["verdict"], after["metrics"][0]) == (before["verdict"], before["metrics"][0])
    assert [metric["variants"][1]["comparison"]["familySize"] for metric in after["metrics"][1:]] == [None, None]


@pytest.mark.usefixtures("_shop")
def test_metrics__added_after_the_start__stand_in_the_change_log_and_not_in_what_was_registered(api):
    data(api.patch(PATH, {"metrics": ["bought", "revenue"]}))
    change = Change.objects.latest("revision")
    assert [definition.get("isPostHoc", False) for definition in change.after["definitions"]] == [False, True]
    assert change.after["registration"] == change.before["registration"]
    assert data(api.get(PATH))["metrics"] == ["bought", "revenue"]


def test_metrics__goal_added_where_there_was_none__decides_nothing(api, production):
    with time_machine.travel(LATER, tick=False):
        open_shop(production, make_shoppers(), metrics=("complaints",))
        data(api.patch(PATH, {"metrics": ["complaints", "look"]}))
        found = ask(api, f"{PATH}/results")
    assert found["verdict"]["metric"] is None
    assert [reason["code"] for reason in found["verdict"]["reasons"]] == ["no_goal"]


@pytest.mark.parametrize("metrics", [[], ["revenue", "bought"], ["revenue"], ["look", "bought"]])
@pytest.mark.usefixtures("_shop")
def test_metrics__of_a_started_experiment__neither_go_nor_move(api, metrics):
    assert (
        "Add new ones at the end" in error(api.patch(PATH, {"metrics": metrics}), 409, "experiment_locked")["message"]
    )
    assert data(api.get(PATH))["metrics"] == ["bought"]


@pytest.mark.usefixtures("_shop")
def test_metrics__twice_or_more_than_there_may_be__are_refused(api):
    assert error(api.patch(PATH, {"metrics": ["bought", "bought"]}), 400, "validation_failed")
    assert error(api.patch(PATH, {"metrics": ["bought", *map(str, range(50))]}), 400, "validation_failed")


@pytest.mark.usefixtures("_shop")
def test_metrics__of_frozen_results__are_locked_and_of_stopped_ones_not(api, production):
    stopped = stop_experiment(key="shop", environment=production, actor=ACTOR, now=LATER)
    data(api.patch(PATH, {"metrics": ["bought", "revenue"]}))
    freeze(stopped, LATER + timedelta(days=9))
    refused = error(api.patch(PATH, {"metrics": ["bought", "revenue", "look"]}), 409, "experiment_locked")
    assert "frozen" in refused["message"]
    assert data(api.patch(PATH, {"description": "Over."}))["metrics"] == ["bought", "revenue"]


@pytest.mark.usefixtures("_shop")
def test_metrics__together_with_what_is_locked__change_nothing(api):
    change = {"metrics": ["bought", "revenue"], "tuningSampleSize": 900}
    assert error(api.patch(PATH, change), 409, "experiment_locked")
    assert data(api.get(PATH))["metrics"] == ["bought"]


def test_metrics__added_by_the_name_of_what_exposes__expose_still(api):
    ExperimentFactory(key="e", running=True)
    report(api, "ann", "green")
    data(api.patch("/v1/experiments/e", {"metrics": ["purchase", "exposed"]}))
    report(api, "bob", "green")
    assert data(api.get("/v1/experiments/e"))["results"]["green"]["sampleSize"] == 2
    assert "exposed" not in outcome_names(Experiment.objects.get())


def test_definition__post_hoc__is_the_same_metric_and_says_so(production):
    experiment = ExperimentFactory(key="e", running=True)
    [definition] = definitions_of(experiment)
    marked = Definition.parse({**definition.as_json(), "isPostHoc": True})
    assert (marked, marked.is_post_hoc, definition.is_post_hoc) == (definition, True, False)
    assert Definition.parse(marked.as_json()).is_post_hoc
