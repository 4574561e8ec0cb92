"""How PostgreSQL executes statements on values and exposures.

It expects one row of an experiment that has grown since it last gathered statistics. A plan that reads all of them for
each new event then seems to cost nothing, and takes minutes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection

from config.database.commit_order import take_watermark
from config.database.planning import planned
from config.models import Environment
from events.models import Event
from events.recording import NewEvent, new_id, record
from events.removal import erase_user
from experiments.exposures.recording import assign
from experiments.metrics.definition import Definition, Quantity
from experiments.models import Experiment, Exposure, ResultState, UserValue
from experiments.results.changed_users import find_changed_users, has_changes
from experiments.results.forced_exposures import remove_forced_exposures
from experiments.results.refresh import refresh
from experiments.results.update import Update
from tests.conftest import NOON
from tests.experiments.results.histories import make_experiment
from tests.plans import analyze

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite plans without statistics"),
]

SPENT = Definition("spent", 1, "sum", Quantity("buy", "amount"))
KINDS = Definition("kinds", 1, "distinct", Quantity("look", "kind"))
USERS = 400
_SCAN = re.compile(
    r"Scan (?:(?:\w+ )?using \w+ on experiments_(?:uservalue|exposure)|on experiments_\w+_pkey).*\n *Index Cond: (.*)"
)


def grow(experiment: Experiment, users: int) -> None:
    for number in range(users):
        assign(experiment.pk, f"{experiment.key}-{number}", "green", NOON)
    events = [
        NewEvent(new_id(), f"{experiment.key}-{number}", "buy", NOON, NOON, {"amount": 1}) for number in range(users)
    ]
    record(events, experiment.environment)
    refresh(experiment, NOON)


@pytest.fixture
def grown(production: Environment) -> Experiment:
    """An experiment that no statistics know."""
    old = make_experiment(production, SPENT, KINDS)
    Experiment.objects.filter(pk=old.pk).update(key="old")
    old.key = "old"
    grow(old, 20)
    analyze(Event, Exposure, UserValue)
    experiment = make_experiment(production, SPENT, KINDS)
    grow(experiment, USERS)
    return experiment


@contextmanager
def lookups() -> Iterator[list[str]]:
    """The conditions by which statements on events read the indexes of values and exposures."""
    found: list[str] = []

    def explain(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if re.search(r"\bevents_event\b", sql) and "experiments_" in sql:
            execute(f"EXPLAIN {sql}", params, many, context)
            plan = "\n".join(line for (line,) in context["cursor"].fetchall())
            assert not re.search(r"Seq Scan on experiments_(uservalue|exposure)", plan), plan
            found.extend(_SCAN.findall(plan))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(explain):
        yield found


def test_compute__with_statistics__looks_each_user_up(grown: Experiment) -> None:
    analyze(Event, Exposure, UserValue)
    update = Update(ResultState.objects.get(experiment=grown), grown)
    with lookups() as found:
        update.compute({"e-7", "e-8"})

    assert found
    assert [condition for condition in found if "user_id" not in condition] == []


def test_changes__without_statistics__look_each_user_up(grown: Experiment) -> None:
    watermark = take_watermark()
    with planned(enable_seqscan="off"), lookups() as found:
        has_changes(grown, watermark)
        find_changed_users(grown, watermark)

    assert found
    assert [condition for condition in found if "user_id" not in condition] == []


@pytest.mark.one_server("by a constant array, Citus would leave out servers")
def test_compute__some_users__compares_with_a_constant_array(grown: Experiment) -> None:
    """PostgreSQL hashes only constant arrays. It compares each user of an experiment that it does not know."""
    found: list[str] = []

    def explain(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if '"user_id" = ANY' in sql:
            execute(f"EXPLAIN {sql}", params, many, context)
            found.append("\n".join(line for (line,) in context["cursor"].fetchall()))
        return execute(sql, params, many, context)

    users = {f"e-{number}" for number in range(0, USERS, 2)}
    updater = Update(ResultState.objects.get(experiment=grown), grown)
    with connection.execute_wrapper(explain):
        updater.compute(users)

    assert len(found) > 3
    assert [plan for plan in found if not re.search(r"user_id\)?(::text)? = ANY \('\{", plan)] == []


@contextmanager
def compilation() -> Iterator[list[str]]:
    """Whether PostgreSQL may compile the statements that sum up values: "on" or "off" for each."""
    found: list[str] = []

    def note(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if 'FROM "experiments_uservalue"' in sql and "COUNT(" in sql:
            execute("SELECT current_setting('jit')", [], many, context)
            found.append(context["cursor"].fetchone()[0])
        return execute(sql, params, many, context)

    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL jit = 'on'")
    with connection.execute_wrapper(note):
        yield found


@pytest.mark.parametrize("is_erased", [False, True])
def test_removal__of_a_user__compiles_no_sum(production: Environment, is_erased: bool) -> None:
    experiment = make_experiment(production, SPENT)
    grow(experiment, 2)
    user = f"{experiment.key}-0"
    with compilation() as found:
        if is_erased:
            erase_user(user, production)
        else:
            experiment.forced_variants = {user: "green"}
            assert remove_forced_exposures(experiment) == 1

    assert found
    assert {*found} == {"off"}
