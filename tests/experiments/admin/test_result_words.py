"""Numbers and definitions in words."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from experiments.admin.words import (
    chance,
    counted,
    definition_in_words,
    number,
    p_value,
    percent,
    plus,
    points,
    short_percent,
)
from experiments.metrics.definition import Definition, Quantity

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
PURCHASES = Definition("purchases", 1, "count", Quantity("purchase"))
REVENUE = Definition("revenue", 1, "revenue", Quantity("purchase", "revenue", "EUR"))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "0"),
        (-0.0, "0"),
        (312.5, "312.50"),
        (12345.678, "12,346"),
        (1234.5, "1,234.50"),
        (2_000_000, "2,000,000"),
        (1.23456, "1.235"),
        (-0.0012345, "\u22120.001234"),
        (1e-12, "1.000e-12"),
        (1.5e100, "1.5e+100"),
    ],
)
def test_number__of_any_size__has_about_four_digits(value: float, words: str) -> None:
    assert number(value) == words


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (1 / 3, "33.33 %"),
        (0, "0.00 %"),
        (-0.0, "0.00 %"),
        (-0.05, "\u22125.00 %"),
        (0.0000123, "0.0012 %"),
        (123.456, "12,346 %"),
    ],
)
def test_percent__of_a_share__has_hundredths_or_what_is_left_below(share: float, words: str) -> None:
    assert percent(share) == words


def test_plus__of_what_is_not_zero__stands_before_it() -> None:
    assert [plus(percent(share)) for share in (0.1, 0, -0.1)] == ["+10.00 %", "0.00 %", "\u221210.00 %"]


def test_points__of_a_difference__are_no_percent() -> None:
    assert points(-0.0123) == "\u22121.23 points"


@pytest.mark.parametrize(("p", "words"), [(0.0009, "< 0.001"), (0.0312, "0.031"), (0.5, "0.50"), (1, "1.00")])
def test_p_value__has_the_digits_that_matter(p: float, words: str) -> None:
    assert p_value(p) == words


@pytest.mark.parametrize(("share", "words"), [(0, "< 0.1 %"), (0.9734, "97.3 %"), (0.99999, "> 99.9 %")])
def test_chance__is_never_a_certainty(share: float, words: str) -> None:
    assert chance(share) == words


def test_counted__one__is_singular() -> None:
    assert [counted(count, "user") for count in (0, 1, 2_000)] == ["0 users", "1 user", "2,000 users"]


def test_short_percent__beside_a_chart__has_no_digits_to_spare() -> None:
    assert [short_percent(share) for share in (-0.05, 0.0, 0.1 + 0.2)] == ["\u22125 %", "0 %", "+30 %"]


@pytest.mark.parametrize(
    ("definition", "words"),
    [
        (replace(PURCHASES, type="conversion"), "Share of users with purchase after exposure"),
        (PURCHASES, "Number of purchase events per user after exposure"),
        (replace(PURCHASES, window=7 * DAY), "Number of purchase events per user within 7 days of exposure"),
        (replace(PURCHASES, delay=HOUR), "Number of purchase events per user from 1 hour after exposure on"),
        (
            replace(PURCHASES, delay=DAY, window=36 * HOUR),
            "Number of purchase events per user from 1 day to 60 hours after exposure",
        ),
        (
            replace(PURCHASES, type="retention", delay=7 * DAY, window=7 * DAY),
            "Share of users with purchase from day 7 to day 14 after exposure",
        ),
        (
            replace(PURCHASES, type="mean", quantity=Quantity("review", "stars")),
            "Mean stars of review per user after exposure",
        ),
        (
            replace(PURCHASES, type="sum", quantity=Quantity("purchase", "items"), cap_value=50.0),
            "Sum of items of purchase per user after exposure, values above 50 count as 50",
        ),
        (REVENUE, "Revenue in EUR of purchase per user after exposure"),
        (
            replace(REVENUE, type="ratio", denominator=Quantity("visit")),
            "Revenue in EUR of purchase divided by number of visit events after exposure",
        ),
    ],
)
def test_definition__of_each_type__is_a_sentence(definition: Definition, words: str) -> None:
    assert definition_in_words(definition) == words


@pytest.mark.parametrize(("percentile", "ordinal"), [(99, "99th"), (99.5, "99.5th"), (91, "91st"), (52, "52nd")])
def test_definition__with_a_cap_by_percentile__names_the_value_in_force(percentile: float, ordinal: str) -> None:
    capped = replace(REVENUE, window=7 * DAY, cap_percentile=percentile)
    start = "Revenue in EUR of purchase per user within 7 days of exposure, values above the"
    assert definition_in_words(capped, 312.5) == f"{start} {ordinal} percentile count as 312.50"
    assert definition_in_words(capped) == f"{start} {ordinal} percentile count as it"
