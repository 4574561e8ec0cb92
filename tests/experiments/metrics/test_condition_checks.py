"""The checks of conditions, steps, quantiles and margins, and which events meet conditions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from experiments.metrics.checks import check_meaning
from experiments.metrics.conditions import OPERATORS, count_steps_passed, meets
from experiments.metrics.definition import Condition, Quantity
from flags.engine.operators import OPERATORS as FLAG_OPERATORS
from tests.conftest import NOON
from tests.experiments.metrics.test_definition import BLANK, STEPS, WHERE

FUNNEL = {"type": "funnel", "event": "", "steps": STEPS}
QUANTILE = {"type": "quantile", "property": "seconds", "quantile": 0.5}
RATIO = {"type": "ratio", "denominator": {"event": "view"}}
GUARDRAIL = {"role": "guardrail"}
NUMBERS = ("greaterThan", "greaterThanOrEqual", "lessThan", "lessThanOrEqual")


def found(values: dict[str, Any]) -> list[tuple[str, str]]:
    return [(detail.field, str(detail.code)) for detail in check_meaning({**BLANK, **values})]


def condition(operator: Any, *value: Any, name: Any = "plan") -> dict[str, Any]:
    return {"property": name, "operator": operator, **({"value": value[0]} if value else {})}


@pytest.mark.parametrize("number", [0, 101])
@pytest.mark.parametrize("operator", ["in", "notIn"])
def test_check__a_list_of_no_or_too_many_values__names_the_limit_of_metrics(operator: str, number: int) -> None:
    [detail] = check_meaning({**BLANK, "where": [condition(operator, ["x"] * number)]})
    assert detail.message == "Must have 1 to 100 strings, numbers or booleans."


def test_check__what_a_metric_may_be__is_accepted(subtests: pytest.Subtests) -> None:
    for values in [
        {"where": WHERE},
        {"where": None, "steps": None},
        {"where": [condition("equals", value) for value in ("", "pro", 0, -1.5, 2**63, False)]},
        {"where": [condition("notIn", [""]), condition("in", list(range(100)))]},
        {"where": [condition(operator, 1e100) for operator in NUMBERS]},
        {"where": [condition("contains", "x" * 1000), condition("startsWith", "%")]},
        {"where": [condition("exists", name="p" * 200), condition("notExists")]},
        {"where": [condition("exists")] * 10},
        {**RATIO, "where": WHERE, "denominator": {"event": "view", "where": WHERE}},
        {"type": "retention", "fromDay": 1, "toDay": 2, "where": WHERE},
        {**FUNNEL, "windowHours": 24, "delayHours": 1},
        {**FUNNEL, "event": "view", "where": []},
        {**FUNNEL, "steps": [{"event": "view"}] * 10},
        {"type": "distinct", "property": "revenue"},
        {"type": "distinct", "windowHours": 24},
        {**QUANTILE, "quantile": 0.999, "windowHours": 1},
        {**QUANTILE, "property": "revenue", "currency": "eur"},
        {**GUARDRAIL, "margin": 1},
        {**GUARDRAIL, "margin": 0.0001},
        {**GUARDRAIL, "marginAbsolute": 0.99},
        {**GUARDRAIL, "type": "count", "marginAbsolute": 250},
    ]:
        with subtests.test(values=values):
            assert found(values) == []


def test_check__wrong_condition__is_named_wherever_it_stands(subtests: pytest.Subtests) -> None:
    for where, field, code in [
        ({}, "where", "invalid_type"),
        ("plan", "where", "invalid_type"),
        ([condition("exists")] * 11, "where", "out_of_range"),
        (["plan"], "where[0]", "invalid_type"),
        ([{"operator": "exists"}], "where[0].property", "required"),
        ([{"property": "plan"}], "where[0].operator", "required"),
        ([{**condition("exists"), "negate": True}], "where[0].negate", "unknown_field"),
        ([condition("exists", name="")], "where[0].property", "invalid_value"),
        ([condition("exists", name=1)], "where[0].property", "invalid_type"),
        ([condition("exists", name="p" * 201)], "where[0].property", "too_long"),
        ([condition("exists"), condition("is", 1)], "where[1].operator", "invalid_value"),
        ([condition("matches", "x")], "where[0].operator", "invalid_value"),
        ([condition(["equals"], 1)], "where[0].operator", "invalid_type"),
        ([condition(None)], "where[0].operator", "invalid_type"),
        ([condition("exists", True)], "where[0].value", "unknown_field"),
        ([condition("notExists", None)], "where[0].value", "unknown_field"),
        ([condition("equals")], "where[0].value", "required"),
        ([condition("equals", None)], "where[0].value", "invalid_type"),
        ([condition("equals", ["pro"])], "where[0].value", "invalid_type"),
        ([condition("notEquals", {})], "where[0].value", "invalid_type"),
        ([condition("equals", float("nan"))], "where[0].value", "invalid_value"),
        ([condition("equals", "x" * 1001)], "where[0].value", "too_long"),
        ([condition("in", "pro")], "where[0].value", "invalid_type"),
        ([condition("in", [])], "where[0].value", "out_of_range"),
        ([condition("notIn", ["x"] * 101)], "where[0].value", "out_of_range"),
        ([condition("in", ["x", None])], "where[0].value[1]", "invalid_type"),
        ([condition("in", ["x", ["y"]])], "where[0].value[1]", "invalid_type"),
        ([condition("in", ["x" * 1001])], "where[0].value[0]", "too_long"),
        ([condition("contains", "")], "where[0].value", "invalid_value"),
        ([condition("startsWith", 1)], "where[0].value", "invalid_type"),
        *(([condition(operator, "1")], "where[0].value", "invalid_type") for operator in NUMBERS),
        *(([condition(operator, True)], "where[0].value", "invalid_type") for operator in NUMBERS),
        ([condition("lessThan", float("inf"))], "where[0].value", "invalid_value"),
    ]:
        with subtests.test(where=where):
            assert found({"where": where}) == [(field, code)]
            assert found({**FUNNEL, "steps": [{"event": "view"}, {"event": "buy", "where": where}]}) == [
                (f"steps[1].{field}", code)
            ]
            denominator = {"event": "view", "where": where}
            assert found({"type": "ratio", "denominator": denominator}) == [(f"denominator.{field}", code)]


def test_check__what_a_metric_cannot_be__is_named(subtests: pytest.Subtests) -> None:
    for values, expected in [
        # funnels
        ({"type": "funnel"}, [("steps", "required")]),
        ({"type": "funnel", "steps": []}, [("steps", "required")]),
        ({**FUNNEL, "steps": [{"event": "view"}]}, [("steps", "out_of_range")]),
        ({**FUNNEL, "steps": [{"event": "view"}] * 11}, [("steps", "out_of_range")]),
        ({**FUNNEL, "steps": {"event": "view"}}, [("steps", "invalid_type")]),
        ({**FUNNEL, "steps": ["view", {"event": "buy"}]}, [("steps[0]", "invalid_type")]),
        ({**FUNNEL, "steps": [{"event": "view"}, {}]}, [("steps[1].event", "required")]),
        ({**FUNNEL, "steps": [{"event": "view"}, {"event": ""}]}, [("steps[1].event", "out_of_range")]),
        ({**FUNNEL, "steps": [{"event": "v" * 201}, {"event": "b"}]}, [("steps[0].event", "too_long")]),
        (
            {**FUNNEL, "steps": [{"event": 1}, {"event": None}]},
            [(f"steps[{at}].event", "invalid_type") for at in (0, 1)],
        ),
        (
            {**FUNNEL, "steps": [{"event": "v", "property": "p"}] * 2},
            [(f"steps[{at}].property", "unknown_field") for at in (0, 1)],
        ),
        ({**FUNNEL, "steps": [{"event": "v"}, {"event": "b", "where": None}]}, [("steps[1].where", "invalid_type")]),
        ({**FUNNEL, "where": WHERE}, [("where", "invalid_value")]),
        ({**FUNNEL, "property": "p"}, [("property", "invalid_value")]),
        ({**FUNNEL, "capValue": 1}, [("capValue", "invalid_value")]),
        ({**FUNNEL, "event": None}, [("event", "invalid_type")]),
        ({"type": "count", "steps": STEPS}, [("steps", "invalid_value")]),
        ({"type": "count", "event": ""}, [("event", "out_of_range")]),
        # quantiles and different values
        ({"type": "quantile"}, [("property", "required"), ("quantile", "required")]),
        *(
            ({**QUANTILE, "quantile": wrong}, [("quantile", "out_of_range")])
            for wrong in (0, 1, -0.5, 95, float("nan"))
        ),
        *(({**QUANTILE, "quantile": wrong}, [("quantile", "invalid_type")]) for wrong in (True, "0.5", [])),
        ({**QUANTILE, "property": "revenue"}, [("currency", "required")]),
        ({**QUANTILE, "currency": "EUR"}, [("currency", "invalid_value")]),
        ({**QUANTILE, "capPercentile": 99}, [("capPercentile", "invalid_value")]),
        ({"type": "mean", "property": "seconds", "quantile": 0.5}, [("quantile", "invalid_value")]),
        ({"type": "distinct", "property": "revenue", "currency": "EUR"}, [("currency", "invalid_value")]),
        ({"type": "distinct", "property": 1}, [("property", "invalid_type")]),
        ({"type": "distinct", "capValue": 1}, [("capValue", "invalid_value")]),
        # margins
        ({"margin": 0.1}, [("margin", "invalid_value")]),
        ({"marginAbsolute": 0.1}, [("marginAbsolute", "invalid_value")]),
        *(
            ({**GUARDRAIL, "margin": wrong}, [("margin", "out_of_range")])
            for wrong in (0, -0.1, 1.01, 10, float("nan"))
        ),
        *(({**GUARDRAIL, "margin": wrong}, [("margin", "invalid_type")]) for wrong in (True, "0.1", {})),
        *(
            ({**GUARDRAIL, "type": "count", "marginAbsolute": wrong}, [("marginAbsolute", "out_of_range")])
            for wrong in (0, -1, float("inf"), float("nan"))
        ),
        ({**GUARDRAIL, "marginAbsolute": True}, [("marginAbsolute", "invalid_type")]),
        *(({**GUARDRAIL, "marginAbsolute": wrong}, [("marginAbsolute", "out_of_range")]) for wrong in (1, 5)),
        ({**GUARDRAIL, "margin": 0.1, "marginAbsolute": 0.1}, [("marginAbsolute", "invalid_value")]),
    ]:
        with subtests.test(values=values):
            assert found(values) == expected


def test_operators__of_metrics__are_those_of_flags() -> None:
    assert all(FLAG_OPERATORS[name] is operator for name, operator in OPERATORS.items())


def test_meets__each_operator__means_what_it_means_in_a_flag(subtests: pytest.Subtests) -> None:
    for actual, operator, value, is_met in [
        ("pro", "equals", "pro", True),
        ("Pro", "equals", "pro", False),
        (1, "equals", 1.0, True),
        (True, "equals", 1, False),
        ("1", "equals", 1, False),
        (None, "equals", "pro", False),
        ("pro", "notEquals", "free", True),
        ("pro", "notEquals", "pro", False),
        (1, "notEquals", "pro", False),
        (None, "notEquals", "pro", False),
        (["pro"], "equals", "pro", False),
        ("pro", "in", ("pro", 1), True),
        (2, "in", ("pro", 1), False),
        (2, "notIn", ("pro", 1), True),
        (True, "notIn", ("pro", 1), False),
        ("a%b", "contains", "%", True),
        ("ab", "contains", "%", False),
        ("abc", "startsWith", "ab", True),
        (3, "greaterThan", 2.5, True),
        (3, "greaterThan", 3, False),
        (3, "greaterThanOrEqual", 3, True),
        ("3", "lessThan", 4, False),
        (3, "lessThanOrEqual", 2, False),
        ([], "exists", None, True),
        (None, "exists", None, False),
        (False, "exists", None, True),
        (None, "notExists", None, True),
        (0, "notExists", None, False),
    ]:
        with subtests.test(actual=actual):
            where = [Condition("plan", operator, value)]
            assert meets({"plan": actual, "other": "pro"}, where) is is_met
            assert meets({} if actual is None else {"plan": actual}, where) is is_met


def test_meets__several_conditions__needs_all() -> None:
    where = [Condition("plan", "equals", "pro"), Condition("seats", "greaterThan", 1)]
    assert meets({"plan": "pro", "seats": 2}, where)
    assert not meets({"plan": "pro"}, where)
    assert meets({}, [])


STEPS_PASSED = [
    ("", 0),
    ("1a 1b 1c", 3),
    ("1c 1b 1a", 3),
    ("1b 2a 2b 3c", 3),
    ("2a 1b", 1),
    ("1a", 1),
    # An event passes one step alone.
    ("1ab", 1),
    ("1ab 1ab", 2),
    ("1ab 1a 1c", 3),
    ("1b 1ab 1c", 3),
    # Those of the same moment count in the order of the steps that they meet.
    ("1ac 1b 1c", 3),
    ("1a 1ac 1b", 2),
]


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize(("events", "passed"), STEPS_PASSED)
def test_steps__passed_by_events__do_not_depend_on_their_order(events: str, passed: int, is_reversed: bool) -> None:
    steps = [Quantity("view", where=(Condition(letter, "exists"),)) for letter in "abc"]
    happened = [
        ("view", NOON + timedelta(seconds=int(event[0])), dict.fromkeys(event[1:], True)) for event in events.split()
    ]
    assert count_steps_passed(steps, reversed(happened) if is_reversed else happened) == passed
