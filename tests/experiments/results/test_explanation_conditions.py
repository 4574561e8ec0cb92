"""Explanations, compared with the functions that say what conditions, funnels and distinct values mean."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.models import Environment
from events.recording import NewEvent, new_id, record
from experiments.metrics.conditions import MAX_CONDITIONS, count_steps_passed, is_of, meets
from experiments.metrics.definition import Condition, Definition, Quantity
from experiments.models import Experiment
from experiments.results.explain import explain
from experiments.results.metrics import is_of as is_of_quantity
from experiments.results.values import source_of
from tests.conftest import NOON
from tests.experiments.results.condition_cases import CONDITIONS, VALUES, conditions, names, scalars
from tests.experiments.results.histories import ODD_NAME, make_experiment
from tests.selection import histories
from tests.transactions import undone

pytestmark = pytest.mark.django_db

LATER = NOON + timedelta(days=9)
Properties = dict[str, Any]


def expose(environment: Environment, *users: str) -> None:
    report = {"experimentId": "e", "variant": "green"}
    record([NewEvent(new_id(), user, "exposed", NOON, NOON, report) for user in users], environment)


def record_for_each(environment: Environment, properties: list[Properties]) -> None:
    """Record an event with each of these properties, by a user of its own."""
    expose(environment, *map(str, range(len(properties))))
    record(
        [NewEvent(new_id(), str(user), "buy", NOON, NOON, values) for user, values in enumerate(properties)],
        environment,
    )


def found_by(experiment: Experiment, where: tuple[Condition, ...]) -> set[int]:
    """Return the numbers of the users whose event meets the conditions."""
    rows = source_of(experiment).joined(["buy"]).filter(is_of_quantity(Quantity("buy", where=where)))
    return set(map(int, rows.values_list("user_id", flat=True)))


def expected_by(properties: list[Properties], where: tuple[Condition, ...]) -> set[int]:
    return {user for user, values in enumerate(properties) if meets(values, where)}


def test_conditions__of_every_operator_and_type__are_what_they_mean(production: Environment) -> None:
    experiment = make_experiment(production)
    properties = [*({ODD_NAME: value, "other": "a"} for value in VALUES), {}, {"other": "a", "a": 1}]
    record_for_each(production, properties)

    wheres = [(condition,) for condition in CONDITIONS]
    assert [where for where in wheres if found_by(experiment, where) != expected_by(properties, where)] == []


@histories(40)
@given(
    properties=st.lists(st.dictionaries(names, st.one_of(scalars, st.none())), min_size=1, max_size=5),
    where=st.lists(conditions, min_size=1, max_size=3).map(tuple),
)
def test_conditions__of_any_kind__are_what_they_mean(
    production: Environment, properties: list[Properties], where: tuple[Condition, ...]
) -> None:
    with undone():
        experiment = make_experiment(production)
        record_for_each(production, properties)
        assert found_by(experiment, where) == expected_by(properties, where)


@pytest.mark.parametrize("kind", ["funnel", "count"])
def test_explanation__as_many_conditions_as_there_may_be__is_computed(production: Environment, kind: str) -> None:
    where = tuple(Condition(ODD_NAME, "in", tuple(range(n, n + 100))) for n in range(MAX_CONDITIONS))
    steps = tuple(Quantity("buy", where=where) for _ in range(10)) if kind == "funnel" else ()
    experiment = make_experiment(production, Definition("m", 1, kind, Quantity("buy", where=where), steps=steps))
    record_for_each(production, [{ODD_NAME: 9}, {ODD_NAME: 8}, {ODD_NAME: 99}])
    [*_, counted] = explain(experiment, 0, "green", now=LATER)["steps"]
    assert counted["rows"] == (0 if kind == "funnel" else 2)


# funnels

small = st.integers(0, 3)
met = st.one_of(
    st.builds(Condition, st.just("a"), st.sampled_from(["equals", "notEquals", "lessThan", "greaterThan"]), small),
    st.builds(Condition, st.just("a"), st.just("exists")),
)
steps_of_funnels = st.builds(Quantity, st.sampled_from(["look", "buy"]), where=st.lists(met, max_size=1).map(tuple))
moments = st.integers(0, 3).map(lambda half_hours: NOON + half_hours * timedelta(minutes=30))
events = st.tuples(
    st.sampled_from(["u", "v"]), st.sampled_from(["look", "buy"]), moments, st.dictionaries(st.just("a"), small)
)


@histories(60)
@given(
    steps=st.lists(steps_of_funnels, min_size=2, max_size=10).map(tuple),
    history=st.lists(events, min_size=1, max_size=30),
)
def test_explanation__of_any_funnel__counts_what_passes_each_step(
    production: Environment, steps: tuple[Quantity, ...], history: list[Any]
) -> None:
    with undone():
        experiment = make_experiment(production, Definition("m", 1, "funnel", steps[0], steps=steps))
        expose(production, "u", "v")
        record([NewEvent(new_id(), user, name, at, at, values) for user, name, at, values in history], production)
        explained = explain(experiment, 0, "green", now=LATER)

    left = [event for event in history if any(is_of(step, event[1], event[3]) for step in steps)]
    passed = {user: count_steps_passed(steps, [event[1:] for event in left if event[0] == user]) for user in "uv"}
    by_step = [
        (sum(passed[user] >= step for user, *_ in left), sum(number >= step for number in passed.values()))
        for step in range(1, len(steps) + 1)
    ]
    shown = [(step["rows"], step["users"]) for step in explained["steps"] if step["name"] == "passed_the_step"]
    assert shown == by_step
    assert explained["sum"] == by_step[-1][1]


def test_explanation__of_a_funnel__has_no_event_pass_two_steps(production: Environment) -> None:
    steps = tuple(Quantity("look") for _ in range(10))
    experiment = make_experiment(production, Definition("m", 1, "funnel", steps[0], steps=steps))
    expose(production, "u")
    record([NewEvent(new_id(), "u", "look", NOON, NOON, {}) for _ in range(7)], production)

    steps_shown = explain(experiment, 0, "green", now=LATER)["steps"]
    assert [step["users"] for step in steps_shown if step["name"] == "passed_the_step"] == [1] * 7 + [0] * 3


# distinct values


@histories(40)
@given(
    values=st.lists(st.one_of(scalars, st.sampled_from([0, 1, 1.0, True, "1", "true", None, [1], -0.0])), max_size=8)
)
def test_explanation__of_distinct_values__counts_those_that_differ(production: Environment, values: list[Any]) -> None:
    with undone():
        experiment = make_experiment(production, Definition("m", 1, "distinct", Quantity("look", ODD_NAME)))
        expose(production, "u")
        record([NewEvent(new_id(), "u", "look", NOON, NOON, {ODD_NAME: value}) for value in values], production)
        explained = explain(experiment, 0, "green", now=LATER)

    counted = [value for value in values if isinstance(value, str | int | float)]
    assert explained["steps"][-1]["rows"] == len(counted)
    assert explained["sum"] == len({(isinstance(value, bool), value) for value in counted})


def test_explanation__of_distinct_values__takes_values_of_all_kinds(production: Environment) -> None:
    experiment = make_experiment(production, Definition("m", 1, "distinct", Quantity("buy", ODD_NAME)))
    expose(production, "u")
    record([NewEvent(new_id(), "u", "buy", NOON, NOON, {ODD_NAME: value}) for value in VALUES], production)

    counted = [value for value in VALUES if isinstance(value, str | int | float)]
    explained = explain(experiment, 0, "green", now=LATER)
    assert (
        explained["sum"] == len({(isinstance(value, bool), value) for value in counted}) == len(counted) - 1
    )  # 1 is 1.0


def test_explanation__of_distinct_days__counts_days_in_utc(production: Environment) -> None:
    experiment = make_experiment(production, Definition("m", 1, "distinct", Quantity("look")))
    expose(production, "u")
    midnight = NOON.astimezone(UTC) + timedelta(hours=12)
    offsets = (timedelta(0), -timedelta(microseconds=1), timedelta(hours=3), timedelta(hours=23, minutes=59))
    record([NewEvent(new_id(), "u", "look", at, at, {}) for at in map(midnight.__add__, offsets)], production)

    assert explain(experiment, 0, "green", now=LATER)["sum"] == 2
