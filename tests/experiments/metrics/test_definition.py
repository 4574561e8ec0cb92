"""Definitions of metrics: writing them as documents and parsing these."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from experiments.metrics.definition import Definition, Quantity, undefined

BLANK: dict[str, Any] = {
    "key": "m",
    "version": 1,
    "type": "conversion",
    "event": "buy",
    "property": "",
    "currency": "",
    "denominator": None,
    "windowHours": None,
    "delayHours": 0,
    "fromDay": None,
    "toDay": None,
    "capValue": None,
    "capPercentile": None,
    "direction": "increase",
    "role": "goal",
}
DOCUMENTS = [
    BLANK,
    {**BLANK, "type": "count", "capPercentile": 99.5, "windowHours": 1},
    {**BLANK, "type": "revenue", "currency": "EUR", "windowHours": 168, "delayHours": 24, "capValue": 250.0},
    {**BLANK, "type": "sum", "property": "items"},
    {**BLANK, "type": "mean", "property": "seconds", "direction": "decrease", "role": "guardrail"},
    {**BLANK, "type": "ratio", "denominator": {"event": "view", "property": "pages", "currency": ""}},
    {**BLANK, "type": "retention", "fromDay": 7, "toDay": 14},
    {**BLANK, "type": "retention", "fromDay": 0, "toDay": 1, "version": 3},
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda each: each["type"])
def test_document__of_each_type__says_what_was_parsed(document: dict[str, Any]) -> None:
    assert Definition.parse(document).document() == document


def test_parse__hours__are_counted_from_the_exposure() -> None:
    definition = Definition.parse({**BLANK, "windowHours": 168, "delayHours": 24})

    assert (definition.delay, definition.window) == (timedelta(days=1), timedelta(days=7))


def test_parse__retention__is_a_window_of_whole_days() -> None:
    definition = Definition.parse({**BLANK, "type": "retention", "fromDay": 7, "toDay": 14})

    assert (definition.delay, definition.window) == (timedelta(days=7), timedelta(days=7))


def test_parse__revenue__sums_that_property_in_its_currency() -> None:
    definition = Definition.parse({**BLANK, "type": "revenue", "currency": "EUR"})

    assert definition.quantity == Quantity("buy", "revenue", "EUR")


def test_parse__ratio__looks_at_two_events() -> None:
    denominator = {"event": "view", "property": "", "currency": ""}
    definition = Definition.parse({**BLANK, "type": "ratio", "denominator": denominator})

    assert definition.denominator == Quantity("view")
    assert definition.events == {"buy", "view"}


@pytest.mark.parametrize(
    ("kind", "is_share"),
    [("conversion", True), ("retention", True), ("count", False), ("revenue", False), ("ratio", False)],
)
def test_is_share__of_each_type__tells_whether_users_count_as_0_or_1(kind: str, is_share: bool) -> None:
    assert Definition("m", 1, kind, Quantity("buy")).is_share is is_share


def test_undefined__name__is_a_conversion_for_ever_of_version_0() -> None:
    assert undefined("sign up").document() == {**BLANK, "key": "sign up", "event": "sign up", "version": 0}
