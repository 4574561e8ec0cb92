"""On Citus, workers compute the figures of their users: none of these rows goes through the coordinator."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
import time_machine
from django.db import connection

from config.distribution.tables import spread
from config.models import Environment
from events.recording.ingest import record
from experiments.aggregates.breakdowns import read_breakdown
from experiments.aggregates.checking import check_sums
from experiments.aggregates.quantiles import read_quantiles
from experiments.aggregates.refresh import refresh
from experiments.aggregates.variant_sums import read_caps
from experiments.models import Experiment, Exposure
from experiments.results.computing import analyse_experiment, explain_metric
from tests.conftest import NOON
from tests.experiments.aggregates.histories import DEFINITIONS, History, make_experiment
from tests.experiments.conftest import LATER
from tests.experiments.results.shop import METRICS, make_shoppers, open_shop

pytestmark = [pytest.mark.django_db, pytest.mark.distributed]

PULLED = ("pull to coordinator", "Distributed Subplan", "WindowAgg\n  ->  Custom Scan", "recurring")
SHOPPERS = make_shoppers(60)
MOST_ROWS = 5
"""An explanation has some rows for each phase."""


@dataclass(frozen=True, slots=True)
class Executed:
    """The plan of a statement, and the number of rows that it returned or wrote."""

    plan: str
    rows: int


@contextmanager
def plans() -> Iterator[dict[str, Executed]]:
    """The plan of each statement on a table that is spread, by the statement."""
    found: dict[str, Executed] = {}
    is_inside = False

    def explain(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        nonlocal is_inside
        uses = any(re.search(rf"\b{table.name}\b", sql) for table in spread)
        if not uses or many or is_inside or sql.split(None, 1)[0] not in ("SELECT", "WITH", "INSERT", "UPDATE"):
            return execute(sql, params, many, context)
        is_inside = True
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN {sql}", params)
            plan = "\n".join(line for (line,) in cursor.fetchall())
        is_inside = False
        returned = execute(sql, params, many, context)
        found[sql] = Executed(plan, context["cursor"].rowcount)
        return returned

    with connection.execute_wrapper(explain):
        yield found


@pytest.fixture
def shop(production: Environment) -> Iterator[Experiment]:
    with time_machine.travel(LATER, tick=False):
        yield open_shop(production, SHOPPERS[:40])


def pulled(found: dict[str, Executed]) -> list[str]:
    assert found
    assert [sql for sql, executed in found.items() if "Custom Scan (Citus" not in executed.plan] == []
    plans_of = {sql: executed.plan for sql, executed in found.items()}
    return [f"{sql}\n{plan}" for sql, plan in plans_of.items() if any(words in plan for words in PULLED)]


def test_refresh__from_scratch__pulls_no_user(shop: Experiment) -> None:
    with plans() as found:
        refresh(shop, LATER)
    assert pulled(found) == []


def test_refresh__new_events__pulls_no_user(shop: Experiment) -> None:
    refresh(shop, LATER)
    record([event for shopper in SHOPPERS[40:] for event in shopper.events()], shop.environment)
    with plans() as found:
        refresh(shop, LATER)
    assert pulled(found) == []
    assert check_sums(shop, LATER) == []


def test_results__of_all_kinds__pull_no_user(shop: Experiment) -> None:
    refresh(shop, LATER)
    with plans() as found:
        analyse_experiment(shop, LATER, daily=list(METRICS))
    assert pulled(found) == []


@pytest.fixture
def measured(production: Environment) -> Experiment:
    """An experiment with metrics of all kinds."""
    experiment = make_experiment(production)
    history = History(experiment, Random(1))
    for _ in range(20):
        history.record()
        history.assign()
    return experiment


def test_breakdown__of_metrics_of_all_kinds__pulls_no_user(measured: Experiment) -> None:
    refresh(measured, LATER)
    with plans() as found:
        read_breakdown(measured, "plan", read_caps(measured), at=LATER, splits=[[1]])
    assert pulled(found) == []


def returned_columns(found: dict[str, Executed]) -> list[str]:
    return [re.split(r"\bFROM\b", sql, maxsplit=1)[0] for sql in found]


def test_quantiles__of_events__are_counted_by_the_workers(measured: Experiment) -> None:
    """Neither a user id nor the value of a single event is among the columns that a statement returns."""
    refresh(measured, LATER)
    with plans() as found:
        assert read_quantiles(measured, LATER, [1], "all")
    assert pulled(found) == []
    assert [columns for columns in returned_columns(found) if "(" not in columns or "user_id" in columns] == []


@pytest.mark.parametrize("metric", [definition.key for definition in DEFINITIONS if definition.quantile is not None])
def test_explain_metric__of_a_quantile__counts_on_the_workers(measured: Experiment, metric: str) -> None:
    with plans() as found:
        explain_metric(measured, metric, "green", at=LATER)
    assert pulled(found) == []
    of_values = [columns for columns in returned_columns(found) if "MIN(" in columns]
    assert of_values
    assert [columns for columns in of_values if "user_id" in columns] == []


@pytest.mark.parametrize("metric", [definition.key for definition in DEFINITIONS])
def test_explain_metric__of_any_kind__pulls_no_user(measured: Experiment, metric: str) -> None:
    with plans() as found:
        explain_metric(measured, metric, "green", at=LATER)
    assert pulled(found) == []


class Crowd(History):
    """A history of more users than an explanation has rows, with events after their exposures."""

    def user(self) -> str:
        return f"user-{self.chance.randrange(60)}"

    def moment(self, earliest: int) -> datetime:
        hours = self.chance.randrange(4) if earliest == 0 else self.chance.randrange(10, 90)
        return NOON + timedelta(hours=hours)


# The parts of the values of a quantile are as many as the different values, if there are few of these.
@pytest.mark.parametrize("metric", [definition.key for definition in DEFINITIONS if definition.quantile is None])
def test_explain_metric__of_many_users__returns_no_row_for_each(production: Environment, metric: str) -> None:
    experiment = make_experiment(production)
    crowd = Crowd(experiment, Random(2))
    for _ in range(80):
        crowd.assign()
    record([crowd.event() for _ in range(400)], production)
    assert Exposure.objects.filter(experiment=experiment, variant="green").count() > 3 * MOST_ROWS
    with plans() as found:
        explain_metric(experiment, metric, "green", at=LATER)
    assert [sql for sql, executed in found.items() if not 0 <= executed.rows <= MOST_ROWS] == []
