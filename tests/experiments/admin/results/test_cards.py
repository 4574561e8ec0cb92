"""The card of a metric: its figures in words, and the reasons in place of those that there are not."""

from __future__ import annotations

import pytest

from experiments.admin.results.cards import Compared, VariantRow, build_card
from experiments.metrics.definition import Definition
from experiments.results.types import Breakdown, Slice
from tests.experiments.admin.results.made import (
    CONVERSION,
    REFUNDS,
    REVENUE,
    TOO_FEW,
    compared,
    cuped,
    days,
    estimate,
    metric,
    variant,
)

BETTER = compared(estimate(0.1, 0.05), estimate(0.012, 0.006))


def comparison_in(row: VariantRow) -> Compared:
    assert row.compared is not None
    return row.compared


def test_card__of_a_share__tells_it_in_percent_and_its_difference_in_points() -> None:
    card = build_card(metric(CONVERSION, variant("blue", 0.12), variant("green", 0.132, BETTER)))
    control, green = card.rows
    assert (control.value.estimate, control.value.interval) == ("12.00 %", "10.80 % to 13.20 %")
    assert (control.compared, control.bar) == (None, None)
    shown = comparison_in(green)
    assert (shown.lift.estimate, shown.lift.interval) == ("+10.00 %", "+5.00 % to +15.00 %")
    assert (shown.difference.estimate, shown.difference.interval) == ("+1.20 points", "+0.60 points to +1.80 points")
    assert (shown.chance_to_beat, shown.adjusted_p, shown.expected_loss) == ("97.3 %", "0.031", "0.12 points")
    assert (shown.fixed_horizon.interval, shown.fixed_horizon.p_value) == ("+7.50 % to +12.50 %", "0.020")
    assert green.bar is not None
    assert [tick.label for tick in card.plot.ticks] == ["0 %", "+10 %"]


def test_card__of_an_amount__tells_it_as_a_number() -> None:
    card = build_card(metric(REVENUE, variant("blue", 4.2), variant("green", 1_312.5, BETTER), cap=312.5))
    assert card.unit == "EUR per user"
    assert card.words.endswith("capped at the 99th percentile (312.50)")
    assert [row.value.estimate for row in card.rows] == ["4.200", "1,312.50"]
    assert comparison_in(card.rows[1]).difference.estimate == "+0.01200"


@pytest.mark.parametrize(
    ("definition", "difference", "standing", "tone"),
    [
        (CONVERSION, 0.1, "better", "good"),
        (CONVERSION, -0.1, "worse", "bad"),
        (CONVERSION, 0.01, "no difference shown", "open"),
        (REFUNDS, 0.1, "worse", "bad"),
        (REFUNDS, -0.1, "better", "good"),
    ],
)
def test_treatment__whose_difference_excludes_zero__is_better_or_worse_by_the_direction(
    definition: Definition, difference: float, standing: str, tone: str
) -> None:
    comparison = compared(estimate(difference, 1), estimate(difference, 0.05))
    shown = comparison_in(build_card(metric(definition, variant("green", 0.1, comparison))).rows[0])
    assert (shown.standing, shown.tone) == (standing, tone)


def test_treatment__with_too_few_users__has_the_reason_in_place_of_figures() -> None:
    nothing = compared(TOO_FEW, TOO_FEW, chance_to_beat=TOO_FEW, expected_loss=TOO_FEW, adjusted_p=None, cuped=TOO_FEW)
    [row] = build_card(metric(CONVERSION, variant("green", None, nothing, users=1))).rows
    shown = comparison_in(row)
    assert (row.value.estimate, row.value.reason, row.bar) == ("\u2013", TOO_FEW.message, None)
    assert (shown.lift.reason, shown.difference.reason) == (TOO_FEW.message, TOO_FEW.message)
    assert (shown.standing, shown.chance_to_beat, shown.expected_loss, shown.adjusted_p) == (
        "not known",
        *3 * ["\u2013"],
    )
    assert shown.cuped == TOO_FEW.message


def test_treatment__whose_difference_is_shown_and_whose_lift_is_not__says_what_verdicts_rest_on() -> None:
    card = build_card(
        metric(CONVERSION, variant("blue", 0.1), variant("green", 0.4, compared(estimate(3, 6), estimate(0.3, 0.2))))
    )
    assert comparison_in(card.rows[1]).standing == "better"
    assert card.notes == [
        "The difference is significant although the interval of the lift includes zero. The lift also divides by the "
        "control's value, which is uncertain itself. The verdict rests on the difference."
    ]


def test_treatment__with_history__tells_what_cuped_makes_of_it() -> None:
    comparison = compared(estimate(0.1, 0.05), estimate(0.01, 0.005), cuped=cuped(estimate(0.09, 0.04)))
    [row] = build_card(metric(CONVERSION, variant("green", 0.1, comparison))).rows
    assert comparison_in(row).cuped == "+9.00 % (+5.00 % to +13.00 %), with 23 % less variance"


def test_card__with_open_windows_and_other_currencies__says_so() -> None:
    card = build_card(metric(REVENUE, variant("blue", 4.2, users=1_500, mature_users=1_200, other_currency_events=1)))
    assert [row.mature for row in card.rows] == ["1,200 mature"]
    assert card.notes == [
        "1 event in another currency or without one: not counted. Amounts are never converted.",
        "300 users not mature: the metric's window has not ended for them yet.",
    ]
    assert build_card(metric(REVENUE, variant("blue", 4.2))).notes == []


def test_card__with_a_series__draws_each_treatment_and_tells_each_day() -> None:
    series = days(3, 0.01, 0.005)
    card = build_card(
        metric(CONVERSION, variant("blue", 0.1, series=series), variant("green", 0.11, BETTER, series=series))
    )
    assert card.daily is not None
    assert card.daily.unit == "percentage points"
    [green] = card.daily.figures
    assert green.key == "green"
    assert [day.left for day in green.days] == [0, 33.3333, 66.6666]
    assert (green.days[0].users, green.days[0].value) == ("100", "10.00 %")
    assert green.days[0].difference.estimate == "+1.60 points"
    assert green.summary == (
        "green against the control by day; "
        "on the last day: +1.20 points, always-valid interval +0.70 points to +1.70 points"
    )


def test_card__without_a_series__draws_none() -> None:
    assert build_card(metric(CONVERSION, variant("green", 0.1, BETTER))).daily is None


@pytest.mark.parametrize(
    ("value", "label"),
    [
        (0.1234567, "0.1234567"),
        (20240115, "20240115"),
        (1, "1"),
        ("1", '"1"'),
        ("-2.5e3", '"-2.5e3"'),
        (False, "false"),
        ("false", '"false"'),
        ("null", '"null"'),
        ('"DE"', '"\\"DE\\""'),
        ("New York", "New York"),
        (" DE", '" DE"'),
        ("a  b", '"a  b"'),
        ("2024-01-15", "2024-01-15"),
        ("all others", '"all others"'),
        ("not recorded", '"not recorded"'),
    ],
)
def test_card__value_of_a_slice__is_told_exactly_and_as_no_other(value: str | bool | float, label: str) -> None:
    whole = metric(CONVERSION, variant("green", 0.11, BETTER))
    slices = build_card(whole, Breakdown("plan", [Slice(value, False, 9, [whole])])).slices
    assert slices is not None
    assert [group.label for group in slices.groups] == [label]


def test_card__broken_down__has_a_row_for_each_value_and_treatment() -> None:
    whole = metric(CONVERSION, variant("blue", 0.1), variant("green", 0.11, BETTER))
    parts = [("DE", False), (True, False), (2.5, False), ("", False), (None, False), (None, True)]
    breakdown = Breakdown("country", [Slice(value, is_rest, 1_200, [whole]) for value, is_rest in parts])
    slices = build_card(whole, breakdown).slices
    assert slices is not None
    assert [group.label for group in slices.groups] == ["DE", "true", "2.5", '""', "not recorded", "all others"]
    assert all([row.key for row in group.rows] == ["green"] and group.rows[0].bar for group in slices.groups)
