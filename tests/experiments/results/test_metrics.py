"""Conditions on event properties as `Q`s, compared with the function that says what they mean."""

from __future__ import annotations

from typing import Any

import pytest
from django.db.models import F
from hypothesis import given
from hypothesis import strategies as st

from config.database.selects import rows_of, select_of
from config.models import Environment
from events.models import Event
from events.recording import NewEvent, new_id, record
from experiments.metrics.conditions import OPERATORS, check_where, meets
from experiments.metrics.definition import Condition, Quantity
from experiments.results.metrics import is_of
from tests.conftest import NOON
from tests.experiments.results.condition_cases import CONDITIONS, VALUES, conditions, names, scalars
from tests.experiments.results.histories import ODD_NAME
from tests.selection import histories
from tests.transactions import undone

pytestmark = pytest.mark.django_db


def record_values(environment: Environment, values: list[Any]) -> None:
    properties = [*({ODD_NAME: value, "other": "a"} for value in values), {}, {"other": "a", "a": 1}]
    record([NewEvent(new_id(), "u", "buy", NOON, NOON, each) for each in properties], environment)


def found_by(where: tuple[Condition, ...]) -> set[str]:
    events = rows_of(Event, select_of(Event.objects.values("id", "properties").annotate(event_name=F("name"))))
    found = events.filter(is_of(Quantity("buy", where=where)))
    return {event_id.hex for event_id in found.values_list("id", flat=True)}


def expected_by(where: tuple[Condition, ...]) -> set[str]:
    return {event.id.hex for event in Event.objects.all() if meets(event.properties, where)}


def test_is_of__every_operator_and_type__is_what_the_conditions_mean(production: Environment) -> None:
    record_values(production, VALUES)

    assert {condition.operator for condition in CONDITIONS} == OPERATORS.keys()
    differing = [condition for condition in CONDITIONS if found_by((condition,)) != expected_by((condition,))]
    assert differing == []
    assert 0 < len(found_by((Condition(ODD_NAME, "equals", 1),))) < len(found_by((Condition(ODD_NAME, "exists"),)))


@pytest.mark.parametrize(
    ("where", "values"),
    [
        ((Condition(ODD_NAME, "equals", 1),), [1, 1.0]),
        ((Condition(ODD_NAME, "notEquals", True),), [False, "FALSE"]),
        ((Condition(ODD_NAME, "equals", True),), [True, "true", "True"]),
        ((Condition(ODD_NAME, "equals", "TRUE"),), [True, "true", "True"]),
        ((Condition(ODD_NAME, "in", (True, False)),), [True, "true", "True", False, "FALSE"]),
        ((Condition(ODD_NAME, "notEquals", "a"), Condition(ODD_NAME, "startsWith", "a")), ["abc", "a_c", "a*c"]),
        ((Condition(ODD_NAME, "greaterThan", 2**53),), [2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 1e300]),
        ((Condition(ODD_NAME, "contains", "%"),), ['it\'s "%s"\\', "100%"]),
        ((Condition(ODD_NAME, "in", (False, "1")),), ["1", False, "FALSE"]),
    ],
)
def test_is_of__conditions__find_these_values(
    production: Environment, where: tuple[Condition, ...], values: list[Any]
) -> None:
    record_values(production, VALUES)

    found = [event.properties[ODD_NAME] for event in Event.objects.all() if event.id.hex in found_by(where)]
    assert sorted(map(repr, found)) == sorted(map(repr, values))


@histories(40)
@given(
    properties=st.lists(st.dictionaries(names, st.one_of(scalars, st.none())), min_size=1, max_size=5),
    where=st.lists(conditions, min_size=1, max_size=3).map(tuple),
)
def test_is_of__any_conditions__are_what_they_mean(
    production: Environment, properties: list[dict[str, Any]], where: tuple[Condition, ...]
) -> None:
    assert list(check_where([condition.as_json() for condition in where], "where")) == []
    with undone():
        record([NewEvent(new_id(), "u", "buy", NOON, NOON, each) for each in properties], production)
        assert found_by(where) == expected_by(where)
