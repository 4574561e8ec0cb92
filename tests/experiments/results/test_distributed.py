"""On Citus, workers compute the values of their users: none of these rows goes through the coordinator."""

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

from config.database.distribution import spread
from config.database.transactions import read_consistently
from config.models import Environment
from events.recording import NewEvent, new_id, record
from experiments.metrics.definition import Definition, Quantity
from experiments.models import AnalysisMethod, Experiment, Exposure, Origin
from experiments.planner import history
from experiments.results import caps
from experiments.results.analyse import analyse_experiment, explain_metric
from experiments.results.breakdown import read_breakdown
from experiments.results.check import check_sums
from experiments.results.fixed_reading import find_caps, find_instant
from experiments.results.quantiles import read_quantiles
from experiments.results.refresh import bring_series_up_to_date, refresh
from experiments.results.sums import read_caps
from experiments.results.values import as_if_stopped, stored_values
from tests.conftest import NOON
from tests.experiments.conftest import LATER
from tests.experiments.results.histories import DEFINITIONS, EUROS, History, make_experiment
from tests.experiments.results.shop import METRICS, make_shoppers, open_shop

pytestmark = [pytest.mark.django_db, pytest.mark.distributed]

PULLED = ("pull to coordinator", "Distributed Subplan", "WindowAgg\n  ->  Custom Scan", "recurring")
SHOPPERS = make_shoppers(60)
MOST_ROWS = 5
"""An explanation has some rows for each phase."""


@dataclass(frozen=True, slots=True)
class Executed:
    """The plan of a statement, the number of rows that it returned or wrote, and of those that workers sent for it."""

    plan: str
    rows: int
    sent: int


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
            # ANALYZE executes the statement, so that it says how many rows the workers send.
            how = "(ANALYZE)" if sql.split(None, 1)[0] in ("SELECT", "WITH") else ""
            cursor.execute(f"EXPLAIN {how} {sql}", params)
            plan = "\n".join(line for (line,) in cursor.fetchall())
        is_inside = False
        returned = execute(sql, params, many, context)
        sent = sum(map(int, re.findall(r"Custom Scan \(Citus.*\(actual .*rows=(\d+)", plan)))
        found[sql] = Executed(plan, context["cursor"].rowcount, sent)
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
        read_breakdown(measured, "plan", read_caps(measured), now=LATER, splits=[[1]])
    assert pulled(found) == []


def returned_columns(found: dict[str, Executed]) -> list[str]:
    """Return the columns of each statement. A count of users has the name of their column, but none of their ids."""
    columns = [re.split(r"\bFROM\b", sql, maxsplit=1)[0] for sql in found]
    return [re.sub(r'COUNT\("\w+"\."user_id"\)', "COUNT()", of_statement) for of_statement in columns]


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
        explain_metric(measured, metric, "green", now=LATER)
    assert pulled(found) == []
    of_values = [columns for columns in returned_columns(found) if "MIN(" in columns]
    assert of_values
    assert [columns for columns in of_values if "user_id" in columns] == []


@pytest.mark.parametrize("metric", [definition.key for definition in DEFINITIONS])
def test_explain_metric__of_any_kind__pulls_no_user(measured: Experiment, metric: str) -> None:
    with plans() as found:
        explain_metric(measured, metric, "green", now=LATER)
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
        explain_metric(experiment, metric, "green", now=LATER)
    assert [sql for sql, executed in found.items() if not 0 <= executed.rows <= MOST_ROWS] == []


BUYERS = 400
CAPPED = (
    Definition("spent", 1, "revenue", EUROS, cap_percentile=60),
    Definition("paid", 1, "revenue", EUROS, cap_percentile=95, window=timedelta(days=3)),
)


@pytest.fixture
def capped(production: Environment, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """An experiment with caps at percentiles, and with so many users, of whom the first has the smallest value."""
    monkeypatch.setattr(caps, "MAX_FETCHED", 10)
    monkeypatch.setattr(caps, "PARTS", 8)
    experiment = make_experiment(production, *CAPPED)
    exposures = [
        Exposure(experiment=experiment, user_id=f"u{number}", variant="green", exposed_at=NOON, origin=Origin.ASSIGNED)
        for number in range(BUYERS)
    ]
    Exposure.objects.bulk_create(exposures)
    chance = Random(3)
    amounts = sorted(round(chance.lognormvariate(3, 1), 2) for _ in range(BUYERS))
    record([buy(number, amount) for number, amount in enumerate(amounts)], production)
    return experiment


def buy(number: int, amount: float) -> NewEvent:
    return NewEvent(new_id(), f"u{number}", "buy", NOON, NOON, {"revenue": amount, "currency": "EUR"})


def sending_users(found: dict[str, Executed]) -> list[str]:
    """Return the statements for which the workers sent more than some rows from each part of a table."""
    shards = 4
    return [f"{sql}\n{executed.plan}" for sql, executed in found.items() if executed.sent > shards * (caps.PARTS + 1)]


@pytest.mark.django_db(transaction=True)  # or else all users would be new again each time
def test_refresh__caps_that_move__are_found_without_sending_users(capped: Experiment) -> None:
    with plans() as found:
        refresh(capped, LATER)
    assert pulled(found) == sending_users(found) == []
    bring_series_up_to_date(capped, LATER)
    for number in range(3):
        before = read_caps(capped)
        record([buy(number, 500 + number)], capped.environment)
        with plans() as found:
            refresh(capped, LATER)
        assert pulled(found) == sending_users(found) == []
        assert read_caps(capped) != before
    assert check_sums(capped, LATER) == []
    values = sorted(spent(capped), reverse=True)
    assert read_caps(capped) == {0: values[BUYERS * 2 // 5], 1: values[BUYERS // 20]}


def spent(experiment: Experiment) -> list[float]:
    return [*stored_values(experiment).filter(metric=0, value__isnull=False).values_list("value", flat=True)]


def test_find_caps__as_of_a_moment__sends_no_users(capped: Experiment) -> None:
    refresh(capped, LATER)
    with plans() as found, read_consistently():
        assert find_caps(as_if_stopped(capped, LATER)) == read_caps(capped)
    assert pulled(found) == sending_users(found) == []


def test_find_instant__of_a_fixed_plan__sends_no_users(capped: Experiment) -> None:
    exposures = [*Exposure.objects.filter(experiment=capped).order_by("user_id")]
    for number, exposure in enumerate(exposures, start=1):
        exposure.exposed_at = NOON + timedelta(milliseconds=number)
    Exposure.objects.bulk_update(exposures, ["exposed_at"])
    capped.analysis, capped.registration = AnalysisMethod.FIXED, {"plannedSampleSize": BUYERS - 50, "minimumDays": 0}
    capped.variants, capped.phases = [{"key": "green", "weight": 1}], []
    capped.definitions = [Definition("bought", 1, "conversion", Quantity("buy")).as_json()]
    capped.save()
    refresh(capped, LATER)
    with plans() as found:
        assert find_instant(capped, LATER) == NOON + timedelta(milliseconds=BUYERS - 50)
    assert pulled(found) == sending_users(found) == []


def test_sample_events__more_users_than_are_looked_at__sends_no_others(
    capped: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "MAX_SAMPLED_USERS", 5)
    with plans() as found:
        drawn = history.sample_events(CAPPED[0], capped.environment, LATER)
    assert pulled(found) == sending_users(found) == []
    assert drawn is not None
    assert (drawn.users, drawn.sums.n) == (BUYERS, 5)


@pytest.mark.parametrize("metric", [definition.key for definition in CAPPED])
def test_explain_metric__with_a_cap__sends_no_users(capped: Experiment, metric: str) -> None:
    with plans() as found:
        explain_metric(capped, metric, "green", now=LATER)
    assert pulled(found) == sending_users(found) == []
