"""A treatment compared with the control: what its row says, all of one test."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.admin.results.comparisons import Compared, compare
from experiments.metrics.definition import Definition
from experiments.stats.types import Comparison, Label
from tests.experiments.admin.results.made import (
    CONVERSION,
    REFUNDS,
    REVENUE,
    TOO_FEW,
    compared,
    estimate,
    judged,
    variant,
    with_bounds,
)


def shown(comparison: Comparison, definition: Definition = CONVERSION, **others: Any) -> Compared:
    return compare(definition, variant("green", 0.1, comparison, **others), comparison)


def test_comparison__of_a_share__is_in_percent_and_its_difference_in_points() -> None:
    row = shown(compared(estimate(0.1, 0.05), estimate(0.012, 0.006)))
    assert (row.lift.estimate, row.lift.interval) == ("+10.00 %", "+5.00 % to +15.00 %")
    assert (row.difference.estimate, row.difference.interval) == ("+1.20 points", "+0.60 points to +1.80 points")
    assert (row.difference.p_value, row.difference.level, row.unadjusted_p) == ("0.040", "95 %", "0.015")
    assert (row.standing, row.tone, row.main) == ("better", "good", row.lift)


def test_comparison__of_an_amount__is_a_number() -> None:
    assert shown(compared(estimate(0.1, 0.05), estimate(0.012, 0.006)), REVENUE).difference.estimate == "+0.01200"


@pytest.mark.parametrize(
    ("lower", "upper", "words"),
    [
        (-0.12, None, "\u221212.00 % or more"),
        (None, 0.3, "up to +30.00 %"),
        (None, None, "no bound on either side"),
        (-1.0, None, "any lift is possible"),
        (-1.0, 0.5, "\u2212100.00 % to +50.00 %"),
    ],
)
def test_lift__with_open_sides__is_put_in_words(lower: float | None, upper: float | None, words: str) -> None:
    row = shown(compared(with_bounds(0.2, lower, upper), estimate(0.01, 0.02)))
    assert (row.lift.interval, row.one_look.lift.interval) == (words, words)


def test_comparison__of_a_fixed_analysis__shows_the_test_that_decides() -> None:
    row = shown(compared(estimate(0.1, 0.05), estimate(0.012, 0.006), is_fixed=True))
    assert (row.lift.interval, row.difference.p_value) == ("+7.50 % to +12.50 %", "0.020")


@pytest.mark.parametrize(
    ("label", "words", "tone"),
    [
        ("better", "better", "good"),
        ("worse", "worse", "bad"),
        ("unclear", "unclear", "open"),
        ("unread", "not read yet", "open"),
    ],
)
def test_goal__of_each_label__has_a_tone(label: Label, words: str, tone: str) -> None:
    row = shown(compared(estimate(0.1, 1), estimate(0.1, 1), label=label))
    assert (row.standing, row.tone, row.needed) == (words, tone, "")


def test_guardrail__of_each_status__says_what_it_still_needs(subtests: pytest.Subtests) -> None:
    for status, label, needed, words, tone, more in [
        ("safe", "unclear", None, "safe", "good", ""),
        ("safe", "worse", None, "safe, but worse", "good", ""),
        ("safe", "better", None, "safe, better", "good", ""),
        ("safe", "unread", None, "safe", "good", ""),
        ("harmed", "worse", None, "harmed", "bad", ""),
        ("silent", "unclear", None, "no events", "open", ""),
        ("undecided", "unclear", 5_913, "undecided", "warning", "needs 5,913 more users"),
        ("undecided", "unclear", 1, "undecided", "warning", "needs 1 more user"),
        ("undecided", "unclear", 0, "undecided", "warning", "enough users, yet not shown safe"),
        ("undecided", "unclear", None, "undecided", "warning", ""),
    ]:
        with subtests.test(status=status):
            comparison = compared(estimate(0.1, 1), estimate(0.1, 1), label=label, guardrail=judged(status, needed))
            row = shown(comparison, REFUNDS)
            assert (row.standing, row.tone, row.needed) == (words, tone, more)


def test_comparison__with_too_few_users__has_the_reason_in_place_of_figures() -> None:
    nothing = compared(
        TOO_FEW, TOO_FEW, chance_to_beat=TOO_FEW, expected_loss=TOO_FEW, family=None, unadjusted_p=None, cuped=TOO_FEW
    )
    row = shown(nothing, before=TOO_FEW)
    assert row.is_nothing
    assert (row.lift.reason, row.difference.reason, row.before.reason) == (3 * (TOO_FEW.message,))
    assert (row.standing, row.unadjusted_p, row.difference.p_value) == ("not known", "", "\u2013")
    assert (row.one_look.chance_to_beat, row.one_look.expected_loss) == ("\u2013", "\u2013")
    assert row.one_look.lift.reason == TOO_FEW.message


def test_comparison__without_a_lift__leads_with_the_difference() -> None:
    row = shown(compared(TOO_FEW, estimate(0.01, 0.02)))
    assert not row.is_nothing
    assert row.main == row.difference


def test_comparison__of_the_users_before_exposure__has_its_difference() -> None:
    row = shown(compared(estimate(0.1, 1), estimate(0.1, 1)), before=estimate(0.01, 0.02, 0.5))
    assert (row.before.estimate, row.before.p_value) == ("+1.00 points", "0.50")


def test_comparison__for_one_look__keeps_apart_what_is_not_safe_to_repeat() -> None:
    look = shown(compared(estimate(0.1, 0.05), estimate(0.012, 0.006))).one_look
    assert (look.chance_to_beat, look.expected_loss) == ("97.3 %", "0.12 points")
    assert (look.lift.interval, look.difference.p_value) == ("+7.50 % to +12.50 %", "0.020")


@pytest.mark.parametrize(
    ("loss", "words"), [(0.0, "0"), (1e-9, "about 0"), (5.679e-62, "about 0"), (0.0123, "0.01230")]
)
def test_expected_loss__too_small_to_matter__has_no_digits(loss: float, words: str) -> None:
    comparison = compared(estimate(0.1, 0.05), estimate(0.012, 0.006), expected_loss=loss)
    assert shown(comparison, REVENUE).one_look.expected_loss == words
