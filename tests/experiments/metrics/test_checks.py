"""The checks of metrics: every invalid property is reported, independently of the others."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.metrics.checks import check_meaning
from experiments.metrics.definition import Definition
from experiments.models import Direction, MetricType, Role
from tests.experiments.metrics.test_definition import BLANK, DOCUMENTS

SUM = {"type": "sum", "property": "items"}
REVENUE = {"type": "revenue", "currency": "EUR"}
RATIO = {"type": "ratio", "denominator": {"event": "view"}}
RETENTION = {"type": "retention", "fromDay": 7, "toDay": 14}
EUROS = {"event": "view", "property": "revenue", "currency": "EUR"}


def found(values: dict[str, Any]) -> list[tuple[str, str]]:
    return [(detail.field, str(detail.code)) for detail in check_meaning({**BLANK, **values})]


def test_check__what_a_metric_may_be__is_accepted(subtests: pytest.Subtests) -> None:
    for values in [
        *DOCUMENTS,
        {"windowHours": 8760, "delayHours": 8760},
        {"type": "count", "capValue": 0.001},
        {"type": "count", "capPercentile": 50.1},
        {"type": "sum", "property": "revenue", "currency": "EUR"},
        {"type": "mean", "property": "revenue", "currency": "CHF"},
        RATIO,
        {**RATIO, "property": "revenue", "currency": "EUR"},
        {**RATIO, "denominator": EUROS},
        {**RATIO, "denominator": EUROS, "property": "revenue", "currency": "EUR"},
        {"type": "retention", "fromDay": 364, "toDay": 365},
        {"event": "e" * 200},
        {**REVENUE, "currency": "eur"},
        {**RATIO, "denominator": {**EUROS, "currency": "Eur"}, "property": "revenue", "currency": "eUR"},
    ]:
        with subtests.test(values=values):
            assert found(values) == []


def test_check__what_a_metric_cannot_be__is_named(subtests: pytest.Subtests) -> None:
    for values, expected in [
        ({"type": "median"}, [("type", "invalid_value")]),
        ({"type": ""}, [("type", "invalid_value")]),
        ({"type": None}, [("type", "invalid_type")]),
        ({"type": []}, [("type", "invalid_type")]),
        ({"event": ""}, [("event", "out_of_range")]),
        ({"event": "e" * 201}, [("event", "too_long")]),
        ({"event": 1}, [("event", "invalid_type")]),
        ({"direction": "up"}, [("direction", "invalid_value")]),
        ({"direction": True}, [("direction", "invalid_type")]),
        ({"role": "guard"}, [("role", "invalid_value")]),
        ({"role": {}}, [("role", "invalid_type")]),
        # properties that go with other types
        ({"property": "items"}, [("property", "invalid_value")]),
        ({"type": "count", "property": "items"}, [("property", "invalid_value")]),
        ({**REVENUE, "property": "revenue"}, [("property", "invalid_value")]),
        ({**RETENTION, "property": "items"}, [("property", "invalid_value")]),
        ({"currency": "EUR"}, [("currency", "invalid_value")]),
        ({"type": "count", "currency": "EUR"}, [("currency", "invalid_value")]),
        ({"denominator": {"event": "view"}}, [("denominator", "invalid_value")]),
        ({**REVENUE, "denominator": {"event": "view"}}, [("denominator", "invalid_value")]),
        ({"fromDay": 0}, [("fromDay", "invalid_value")]),
        ({"type": "count", "toDay": 7}, [("toDay", "invalid_value")]),
        ({**RETENTION, "windowHours": 24}, [("windowHours", "invalid_value")]),
        ({**RETENTION, "delayHours": 24}, [("delayHours", "invalid_value")]),
        ({"capValue": 1.0}, [("capValue", "invalid_value")]),
        ({**RETENTION, "capPercentile": 99}, [("capPercentile", "invalid_value")]),
        ({"type": "mean", "property": "seconds", "capValue": 1.0}, [("capValue", "invalid_value")]),
        ({**RATIO, "capPercentile": 99}, [("capPercentile", "invalid_value")]),
        # what a type needs
        ({"type": "sum"}, [("property", "required")]),
        ({"type": "mean"}, [("property", "required")]),
        ({"type": "revenue"}, [("currency", "required")]),
        ({"type": "ratio"}, [("denominator", "required")]),
        ({"type": "retention"}, [("fromDay", "required"), ("toDay", "required")]),
        ({"type": "retention", "toDay": 7}, [("fromDay", "required")]),
        # names and currencies
        ({**SUM, "property": "p" * 201}, [("property", "too_long")]),
        ({**SUM, "property": 7}, [("property", "invalid_type")]),
        ({**SUM, "property": "revenue"}, [("currency", "required")]),
        ({**SUM, "currency": "EUR"}, [("currency", "invalid_value")]),
        ({**RATIO, "currency": "EUR"}, [("currency", "invalid_value")]),
        ({**RATIO, "property": "revenue"}, [("currency", "required")]),
        ({**REVENUE, "currency": "eu"}, [("currency", "invalid_value")]),
        ({**REVENUE, "currency": "€UR"}, [("currency", "invalid_value")]),
        ({**REVENUE, "currency": "EURO"}, [("currency", "invalid_value")]),
        ({**REVENUE, "currency": "EUR\n"}, [("currency", "invalid_value")]),
        ({**REVENUE, "currency": 978}, [("currency", "invalid_type")]),
        # windows
        ({"windowHours": 0}, [("windowHours", "out_of_range")]),
        ({"windowHours": -24}, [("windowHours", "out_of_range")]),
        ({"windowHours": 8761}, [("windowHours", "out_of_range")]),
        ({"windowHours": 1.5}, [("windowHours", "invalid_type")]),
        ({"windowHours": True}, [("windowHours", "invalid_type")]),
        ({"windowHours": "24"}, [("windowHours", "invalid_type")]),
        ({"delayHours": -1}, [("delayHours", "out_of_range")]),
        ({"delayHours": 8761}, [("delayHours", "out_of_range")]),
        ({"delayHours": None}, [("delayHours", "invalid_type")]),
        ({"delayHours": False}, [("delayHours", "invalid_type")]),
        ({**RETENTION, "fromDay": -1}, [("fromDay", "out_of_range")]),
        ({**RETENTION, "toDay": 366}, [("toDay", "out_of_range")]),
        ({**RETENTION, "fromDay": 14}, [("toDay", "out_of_range")]),
        ({**RETENTION, "fromDay": 20}, [("toDay", "out_of_range")]),
        ({**RETENTION, "fromDay": "7"}, [("fromDay", "invalid_type")]),
        # caps
        ({"type": "count", "capValue": 0}, [("capValue", "out_of_range")]),
        ({"type": "count", "capValue": -1.5}, [("capValue", "out_of_range")]),
        ({"type": "count", "capValue": float("inf")}, [("capValue", "out_of_range")]),
        ({"type": "count", "capValue": float("nan")}, [("capValue", "out_of_range")]),
        ({"type": "count", "capValue": True}, [("capValue", "invalid_type")]),
        ({"type": "count", "capPercentile": 50}, [("capPercentile", "out_of_range")]),
        ({"type": "count", "capPercentile": 100}, [("capPercentile", "out_of_range")]),
        ({"type": "count", "capPercentile": "99"}, [("capPercentile", "invalid_type")]),
        ({**REVENUE, "capValue": 100, "capPercentile": 99}, [("capPercentile", "invalid_value")]),
        # denominators
        ({"type": "ratio", "denominator": "view"}, [("denominator", "invalid_type")]),
        ({"type": "ratio", "denominator": []}, [("denominator", "invalid_type")]),
        ({"type": "ratio", "denominator": {}}, [("denominator.event", "required")]),
        ({"type": "ratio", "denominator": {"event": ""}}, [("denominator.event", "out_of_range")]),
        ({"type": "ratio", "denominator": {"event": None}}, [("denominator.event", "invalid_type")]),
        ({**RATIO, "denominator": {"event": "v", "window": 1}}, [("denominator.window", "unknown_field")]),
        ({**RATIO, "denominator": {"event": "v", "property": 1}}, [("denominator.property", "invalid_type")]),
        ({**RATIO, "denominator": {"event": "v", "property": None}}, [("denominator.property", "invalid_type")]),
        ({**RATIO, "denominator": {"event": "v", "currency": 1}}, [("denominator.currency", "invalid_type")]),
        ({**RATIO, "denominator": {"event": "v", "currency": "EUR"}}, [("denominator.currency", "invalid_value")]),
        ({**RATIO, "denominator": {"event": "v", "property": "revenue"}}, [("denominator.currency", "required")]),
        ({**RATIO, "denominator": {**EUROS, "currency": "euros"}}, [("denominator.currency", "invalid_value")]),
        (
            {**RATIO, "denominator": EUROS, "property": "revenue", "currency": "CHF"},
            [("denominator.currency", "invalid_value")],
        ),
        # several at once
        (
            {"type": "count", "event": "", "property": "items", "windowHours": 0, "role": "x"},
            [
                ("role", "invalid_value"),
                ("event", "out_of_range"),
                ("property", "invalid_value"),
                ("windowHours", "out_of_range"),
            ],
        ),
    ]:
        with subtests.test(values=values):
            assert found(values) == expected


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 9000),
    st.floats(),
    st.sampled_from(["", "EUR", "revenue", "items", "decrease", "guardrail", *MetricType.values]),
    st.fixed_dictionaries({"event": st.just("view")}, optional={"property": st.just("revenue"), "currency": st.text()}),
)


@given(st.sampled_from(DOCUMENTS), st.dictionaries(st.sampled_from(sorted(BLANK)), VALUES, max_size=3))
def test_check__of_anything__finds_what_is_wrong_or_what_can_be_parsed(
    document: dict[str, Any], edits: dict[str, Any]
) -> None:
    """Every accepted metric has a definition that keeps all of its properties."""
    edited = {**document, **edits, "key": "m", "version": 1}
    if not list(check_meaning(edited)):
        said = {**edited}
        if edited["denominator"]:
            said["denominator"] = {"property": "", "currency": "", **edited["denominator"]}
        assert Definition.parse(said).as_json() == said


def test_check__types_directions_and_roles__are_those_of_the_database() -> None:
    for name, choices in {"type": MetricType, "direction": Direction, "role": Role}.items():
        [(_, message)] = [(detail.field, detail.message) for detail in check_meaning({**BLANK, name: "other"})]
        assert message == f"Must be one of: {', '.join(choices.values)}."
