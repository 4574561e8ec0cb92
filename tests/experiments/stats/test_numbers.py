"""Numbers in words: with the digits that matter, and no more."""

from __future__ import annotations

import pytest

from experiments.stats.numbers import (
    format_count,
    format_number,
    format_p_value,
    format_percent,
    format_points,
    format_probability,
    format_short_percent,
    with_sign,
)


def test_number__of_any_size__has_about_four_digits(subtests: pytest.Subtests) -> None:
    for value, words in [
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
    ]:
        with subtests.test(value=value):
            assert format_number(value) == words


def test_percent__of_a_share__has_hundredths_or_what_is_left_below(subtests: pytest.Subtests) -> None:
    for share, words in [
        (1 / 3, "33.33 %"),
        (0, "0.00 %"),
        (-0.0, "0.00 %"),
        (-0.05, "\u22125.00 %"),
        (0.0000123, "0.0012 %"),
        (123.456, "12,346 %"),
    ]:
        with subtests.test(share=share):
            assert format_percent(share) == words


def test_plus__of_what_is_not_zero__stands_before_it() -> None:
    assert [with_sign(format_percent(share)) for share in (0.1, 0, -0.1)] == ["+10.00 %", "0.00 %", "\u221210.00 %"]


def test_points__of_a_difference__are_no_percent() -> None:
    assert format_points(-0.0123) == "\u22121.23 points"


@pytest.mark.parametrize(("p", "words"), [(0.0009, "< 0.001"), (0.0312, "0.031"), (0.5, "0.50"), (1, "1.00")])
def test_p_value__has_the_digits_that_matter(p: float, words: str) -> None:
    assert format_p_value(p) == words


@pytest.mark.parametrize(("share", "words"), [(0, "< 0.1 %"), (0.9734, "97.3 %"), (0.99999, "> 99.9 %")])
def test_chance__is_never_a_certainty(share: float, words: str) -> None:
    assert format_probability(share) == words


def test_counted__one__is_singular() -> None:
    assert [format_count(count, "user") for count in (0, 1, 2_000)] == ["0 users", "1 user", "2,000 users"]


def test_short_percent__beside_a_chart__has_no_digits_to_spare() -> None:
    assert [format_short_percent(share) for share in (-0.05, 0.0, 0.1 + 0.2)] == ["\u22125 %", "0 %", "+30 %"]
