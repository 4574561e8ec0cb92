"""Definitions of metrics: writing them as documents and parsing these."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from experiments.metrics.definition import Condition, Definition, Quantity, undefined

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
WHERE = [
    {"property": "plan", "operator": "in", "value": ["pro", 1, True]},
    {"property": "seconds", "operator": "lessThan", "value": 2.5},
    {"property": "coupon", "operator": "notExists"},
]
STEPS = [{"event": "view"}, {"event": "buy", "where": WHERE}, {"event": "view"}]
DOCUMENTS = [
    BLANK,
    {**BLANK, "type": "count", "capPercentile": 99.5, "windowHours": 1},
    {**BLANK, "type": "revenue", "currency": "EUR", "windowHours": 168, "delayHours": 24, "capValue": 250.0},
    {**BLANK, "type": "sum", "property": "items"},
    {**BLANK, "type": "mean", "property": "seconds", "direction": "decrease", "role": "guardrail"},
    {**BLANK, "type": "ratio", "denominator": {"event": "view", "property": "pages", "currency": ""}},
    {**BLANK, "type": "retention", "fromDay": 7, "toDay": 14},
    {**BLANK, "type": "retention", "fromDay": 0, "toDay": 1, "version": 3},
    {**BLANK, "where": WHERE},
    {**BLANK, "type": "ratio", "denominator": {"event": "view", "property": "", "currency": "", "where": WHERE}},
    {**BLANK, "type": "distinct", "property": "page"},
    {**BLANK, "type": "distinct", "windowHours": 24, "where": WHERE},
    {**BLANK, "type": "funnel", "event": "view", "steps": STEPS, "windowHours": 24},
    {**BLANK, "type": "quantile", "property": "revenue", "currency": "EUR", "quantile": 0.95},
    {**BLANK, "role": "guardrail", "margin": 0.05},
    {**BLANK, "role": "guardrail", "marginAbsolute": 0.01, "direction": "decrease"},
]


def test_document__of_each_type__says_what_was_parsed(subtests: pytest.Subtests) -> None:
    for document in DOCUMENTS:
        with subtests.test(document=document):
            assert Definition.parse(document).as_json() == document


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
    [
        *(("conversion", True), ("retention", True), ("funnel", True)),
        *(("count", False), ("revenue", False), ("ratio", False), ("distinct", False), ("quantile", False)),
    ],
)
def test_is_share__of_each_type__tells_whether_users_count_as_0_or_1(kind: str, is_share: bool) -> None:
    assert Definition("m", 1, kind, Quantity("buy")).is_share is is_share


def test_undefined__name__is_a_conversion_for_ever_of_version_0() -> None:
    assert undefined("sign up").as_json() == {**BLANK, "key": "sign up", "event": "sign up", "version": 0}


NOT_NEGATIVE = Condition("amount", "greaterThanOrEqual", 0)
AMOUNT = Quantity("buy", "amount")
BOUNDED = Quantity("buy", "amount", where=(NOT_NEGATIVE,))


def test_definition__that_excludes_values_below_0__says_so(subtests: pytest.Subtests) -> None:
    for kind, quantity, denominator, expected in [
        ("retention", Quantity("buy"), None, True),
        ("count", Quantity("buy"), None, True),
        ("distinct", AMOUNT, None, True),
        ("ratio", Quantity("buy"), Quantity("view"), True),
        ("sum", AMOUNT, None, False),
        ("sum", BOUNDED, None, True),
        ("quantile", BOUNDED, None, True),
        ("quantile", AMOUNT, None, False),
        ("ratio", BOUNDED, Quantity("view"), True),
        ("ratio", AMOUNT, Quantity("view"), False),
        ("ratio", Quantity("buy"), AMOUNT, False),
        ("sum", Quantity("buy", "amount", where=(Condition("other", "greaterThan", 0),)), None, False),
        ("sum", Quantity("buy", "amount", where=(Condition("amount", "greaterThan", -1),)), None, False),
        ("sum", Quantity("buy", "amount", where=(Condition("amount", "lessThan", 5),)), None, False),
    ]:
        with subtests.test(kind=kind):
            definition = Definition("m", 1, kind, quantity, denominator)
            assert definition.is_non_negative == expected


def test_parse__funnel__measures_its_first_step_and_reads_all_events() -> None:
    definition = Definition.parse({**BLANK, "type": "funnel", "event": "view", "steps": STEPS})

    assert definition.quantity == definition.steps[0] == Quantity("view")
    assert definition.steps[1].where[0] == Condition("plan", "in", ("pro", 1, True))
    assert definition.events == definition.outcomes == {"view", "buy"}


def test_outcomes__ratio__are_without_the_denominator() -> None:
    denominator = {"event": "view", "property": "", "currency": ""}
    definition = Definition.parse({**BLANK, "type": "ratio", "denominator": denominator})

    assert definition.outcomes == {"buy"}


def test_parse__currency_in_lower_case__is_compared_in_upper_case() -> None:
    denominator = {"event": "view", "property": "revenue", "currency": "chf"}
    definition = Definition.parse({**BLANK, "type": "ratio", "currency": "eur", "denominator": denominator})

    assert definition.quantity.currency == "EUR"
    assert definition.denominator is not None
    assert definition.denominator.currency == "CHF"


@pytest.mark.parametrize(
    ("values", "relative"),
    [
        ({}, None),
        ({"role": "guardrail"}, 0.1),
        ({"role": "guardrail", "margin": 0.02}, 0.02),
        ({"role": "guardrail", "marginAbsolute": 0.01}, None),
    ],
)
def test_relative_margin__by_role_and_margins__is_the_one_in_force(
    values: dict[str, Any], relative: float | None
) -> None:
    assert Definition.parse({**BLANK, **values}).relative_margin == relative


@pytest.mark.parametrize(
    ("values", "is_mature_only"),
    [({}, False), ({"windowHours": 1}, True), ({"delayHours": 1}, False), ({**BLANK, **DOCUMENTS[6]}, True)],
)
def test_counts_mature_users__with_a_window__is_true(values: dict[str, Any], is_mature_only: bool) -> None:
    assert Definition.parse({**BLANK, **values}).counts_mature_users is is_mature_only


def test_hash__of_a_definition_with_lists__exists() -> None:
    definitions = {Definition.parse(document) for document in DOCUMENTS}
    assert len(definitions) == len(DOCUMENTS)
