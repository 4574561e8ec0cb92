"""The definitions that an experiment uses: current ones for a draft, those of the start otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from config.models import Change, Environment
from experiments.lifecycle.changes import start_experiment
from experiments.metrics.changes import create_metric, delete_metric, update_metric
from experiments.metrics.definition import Definition, definition_of, definitions_of, undefined
from experiments.models import Experiment, Metric
from tests.conftest import ACTOR, NOON
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db

WRITE = {"actor": ACTOR, "now": NOON}


@pytest.fixture
def metric(db: None) -> Metric:
    return create_metric(key="views", type="count", event="page view", cap_percentile=99.0, **WRITE)


@pytest.fixture
def draft(metric: Metric) -> Experiment:
    return ExperimentFactory(key="e", metrics=["purchase", "views"])


def start(environment: Environment) -> Experiment:
    return start_experiment(key="e", environment=environment, **WRITE)


def test_definitions__of_a_draft__are_those_of_now(draft: Experiment) -> None:
    changed = update_metric(key="views", changes={"event": "screen view"}, **WRITE)

    assert definitions_of(draft) == [undefined("purchase"), definition_of(changed)]
    assert definitions_of(draft)[1].quantity.event == "screen view"


def test_definitions__of_a_started_experiment__are_those_of_its_start(
    draft: Experiment, metric: Metric, production: Environment
) -> None:
    running = start(production)
    update_metric(key="views", changes={"event": "screen view"}, **WRITE)
    create_metric(key="purchase", type="count", event="order", **WRITE)

    running.refresh_from_db()
    assert definitions_of(running) == [undefined("purchase"), definition_of(metric)]


def test_definitions__of_a_stopped_experiment__outlive_the_metric(metric: Metric) -> None:
    stopped = ExperimentFactory(key="s", metrics=["views"], stopped=True)
    delete_metric(key="views", **WRITE)

    stopped.refresh_from_db()
    assert definitions_of(stopped) == [definition_of(metric)]


def test_definitions__of_one_that_was_started_before_metrics__are_conversions(draft: Experiment) -> None:
    Experiment.objects.filter(pk=draft.pk).update(status="running", started_at=NOON)
    draft.refresh_from_db()

    assert definitions_of(draft) == [undefined("purchase"), undefined("views")]


@pytest.mark.parametrize("metrics", [[], ["views"], ["views", *(f"event {number}" for number in range(40))]])
def test_definitions__of_any_number_of_metrics__take_one_query_at_most(
    metric: Metric, django_assert_max_num_queries: Any, metrics: list[str]
) -> None:
    draft = ExperimentFactory(metrics=metrics)
    with django_assert_max_num_queries(1):
        assert [definition.key for definition in definitions_of(draft)] == metrics


def test_definitions__of_a_started_experiment__take_no_query(
    draft: Experiment, production: Environment, django_assert_num_queries: Any
) -> None:
    running = start(production)
    with django_assert_num_queries(0):
        assert len(definitions_of(running)) == 2


def test_start__change_log__holds_the_definitions(draft: Experiment, production: Environment) -> None:
    running = start(production)
    change = Change.objects.latest("revision")

    assert change.before is not None
    assert change.after is not None
    assert change.before["definitions"] is None
    assert change.after["definitions"] == running.definitions
    assert [Definition.parse(definition) for definition in change.after["definitions"]] == definitions_of(running)


def test_start__no_metrics__has_no_definitions(production: Environment) -> None:
    ExperimentFactory(key="e", metrics=[])

    assert definitions_of(start(production)) == []
