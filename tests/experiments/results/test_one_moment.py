"""Answers that need several statements show one moment, even while others record and refresh."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.db import connection

from config.models import Environment
from events.models import Event
from events.recording import NewEvent, new_id, record
from experiments.models import Experiment, UserValue, VariantSums
from experiments.planner import calibration, history
from experiments.planner.calibration import calibrate
from experiments.planner.plan import plan
from experiments.planner.question import Question
from experiments.results.analyse import analyse_experiment
from experiments.results.refresh import refresh
from experiments.results.types import Results
from tests.admin import sign_in, text_of
from tests.answers import data
from tests.conftest import NOON
from tests.experiments.admin.results.test_pages import address
from tests.experiments.conftest import LATER
from tests.experiments.results.shop import METRICS, make_shoppers, open_shop
from tests.threads import SECONDS, Threads

pytestmark = pytest.mark.django_db(transaction=True)

SHOPPERS = make_shoppers(90)
EXPOSED, LATER_USERS = SHOPPERS[:60], SHOPPERS[60:]
HOUR = timedelta(hours=1)
BEGINS_ON_WORKERS = "SELECT 1 FROM"
"""Of a statement before which no reader on Citus has begun."""


@pytest.fixture
def production(threads: Threads) -> Environment:
    return Environment.objects.get(key="production")


@pytest.fixture
def shop(production: Environment) -> Iterator[Experiment]:
    """The shop with the totals of its first users. `add_users` adds the others."""
    with time_machine.travel(LATER, tick=False):
        experiment = open_shop(production, EXPOSED)
        refresh(experiment, LATER)
        yield experiment


def add_users(experiment: Experiment) -> None:
    record([event for shopper in LATER_USERS for event in shopper.events()], experiment.environment)
    refresh(experiment, LATER)


@contextmanager
def meanwhile(threads: Threads, model: Any, work: Callable[..., Any], *arguments: Any) -> Iterator[None]:
    """Run `work` on another connection once, after the first query of a model. There must be such a query."""
    done = []

    def work_once(execute: Any, sql: str, *rest: Any) -> Any:
        result = execute(sql, *rest)
        is_query = sql.lstrip().startswith(("SELECT", "WITH")) and not sql.startswith(BEGINS_ON_WORKERS)
        if not done and is_query and model._meta.db_table in sql:
            done.append(sql)
            threads.start(work, *arguments).result(SECONDS)
        return result

    with connection.execute_wrapper(work_once):
        yield
    assert done


def analyse(experiment: Experiment) -> Results:
    return analyse_experiment(experiment, LATER, daily=list(METRICS), breakdown="country", has_assignment_audit=True)


@pytest.fixture
def interrupted(threads: Threads, shop: Experiment) -> Results:
    """Results during whose statements more users were recorded and counted."""
    with meanwhile(threads, VariantSums, add_users, shop):
        return analyse(shop)


def test_series__more_users_meanwhile__end_with_the_whole(interrupted: Results) -> None:
    for metric in interrupted.metrics:
        for variant in metric.variants:
            last = variant.series[-1]
            assert (last.users, last.value) == (variant.users, pytest.approx(variant.estimate.value))


def test_slices__more_users_meanwhile__add_up(interrupted: Results) -> None:
    assert interrupted.breakdown is not None
    slices = interrupted.breakdown.values
    assert sum(part.users for part in slices) == interrupted.users == len(EXPOSED)
    for index, metric in enumerate(interrupted.metrics):
        of_slices = [variant.events for part in slices for variant in part.metrics[index].variants]
        assert sum(of_slices) == sum(variant.events for variant in metric.variants)


def test_results__more_users_meanwhile__are_those_of_before_and_the_next_ones_have_all(
    threads: Threads, shop: Experiment
) -> None:
    before = analyse(shop)
    with meanwhile(threads, VariantSums, add_users, shop):
        assert analyse(shop) == before
    assert analyse(shop).users == len(SHOPPERS)


# --- explanations ----------------------------------------------------------------------------------------------------


@pytest.fixture
def explained(shop: Experiment, api: Any) -> Callable[[], Any]:
    path, asked_for = "/v1/experiments/shop/results/explain", {"metric": "per-look", "variant": "green"}
    return lambda: data(api.get(path, asked_for))


def test_explanation__more_users_meanwhile__is_of_those_before(
    threads: Threads, shop: Experiment, explained: Callable[[], Any]
) -> None:
    before = explained()
    with meanwhile(threads, Event, add_users, shop):
        assert explained() == before
    assert explained()["users"] > before["users"]


def test_explanation_page__more_users_meanwhile__is_of_those_before(threads: Threads, shop: Experiment) -> None:
    client, page = sign_in(), address(shop, "explanation", 2)
    before = text_of(client.get(page))
    with meanwhile(threads, Event, add_users, shop):
        assert text_of(client.get(page)) == before
    assert text_of(client.get(page)) != before


# --- the planner and calibrations ------------------------------------------------------------------------------------


def test_plan__more_users_meanwhile__has_one_number_of_users(
    threads: Threads, shop: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "MIN_USERS", 10)
    with meanwhile(threads, VariantSums, add_users, shop):
        planned = plan(Question(mde=0.1, experiment=shop.key), shop.environment, LATER)
    assert planned.history is not None
    assert planned.detectable is not None
    today = next(point for point in planned.detectable if point.day == LATER.date())
    pace = planned.assumptions.users_per_day
    assert [planned.history.users, today.users, pace] == [len(EXPOSED), len(EXPOSED), pytest.approx(len(EXPOSED) / 6)]


def test_plan__counted_from_events_and_more_happens_meanwhile__is_of_those_before(
    threads: Threads, shop: Experiment
) -> None:
    def complain() -> None:
        late = [NewEvent(new_id(), shopper.name, "complaint", NOON + HOUR, NOON + HOUR, {}) for shopper in EXPOSED[::2]]
        record(late, shop.environment)

    def ask() -> Any:
        return plan(Question(mde=0.1, metric="complaint"), shop.environment, LATER).history

    before = ask()
    with meanwhile(threads, Event, complain):
        assert ask() == before
    assert ask().baseline > before.baseline


def test_calibrate__more_users_meanwhile__measures_the_same_users_by_each_metric(
    threads: Threads, shop: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "MIN_USERS", 10)
    before = calibrate(shop, now=LATER, rounds=2, looks=2)
    with meanwhile(threads, UserValue, add_users, shop):
        assert calibrate(shop, now=LATER, rounds=2, looks=2) == before
    assert before.users == len(EXPOSED)
