"""The card of a metric: its rows, its plot, and the notes below it."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.template.loader import render_to_string

from experiments.admin.results.metric_card import MetricCard, build_card
from experiments.metrics.definition import Quantity
from experiments.models import Experiment
from experiments.results.types import (
    Breakdown,
    DifferentBefore,
    FunnelStep,
    Guards,
    MetricFigures,
    Slice,
    VariantFigures,
    Waiting,
)
from tests.conftest import NOON
from tests.experiments.admin.results.made import (
    CONVERSION,
    EVEN,
    EXPERIMENT,
    NO_HISTORY,
    OPEN,
    REFUNDS,
    REVENUE,
    TOO_FEW,
    compared,
    cuped,
    estimate,
    judged,
    metric,
    results,
    variant,
    with_bounds,
)

BETTER = compared(estimate(0.1, 0.05), estimate(0.012, 0.006), family=1)


def card_of(figures: MetricFigures, experiment: Experiment = EXPERIMENT, **others: Any) -> MetricCard:
    return build_card(results(experiment, [figures], **others), figures)


def test_card__of_a_share__has_a_row_for_each_variant_on_one_scale() -> None:
    card = card_of(metric(CONVERSION, variant("blue", 0.12), variant("green", 0.132, BETTER)))
    control, green = card.rows
    assert (control.value.estimate, control.value.interval) == ("12.00 %", "10.80 % to 13.20 %")
    assert (control.compared, control.bar, control.raw) == (None, None, None)
    assert green.bar is not None
    assert [tick.label for tick in card.plot.ticks] == ["0 %", "+10 %"]
    assert card.treatments == [green]
    assert (card.notes, card.margin, card.is_adjusted, card.is_corrected) == ([], "", False, False)


def test_card__of_an_amount__has_its_unit_and_cap() -> None:
    card = card_of(metric(REVENUE, variant("blue", 4.2), variant("green", 1_312.5, BETTER), cap=312.5))
    assert card.unit == "EUR per user"
    assert card.words.endswith("capped at the 99th percentile (312.50)")
    assert [row.value.estimate for row in card.rows] == ["4.200", "1,312.50"]


def test_card__without_any_lift__draws_the_differences() -> None:
    card = card_of(
        metric(CONVERSION, variant("blue", 0.0), variant("green", 0.1, compared(TOO_FEW, estimate(0.1, 0.2))))
    )
    assert card.rows[1].bar is not None
    assert [tick.label for tick in card.plot.ticks] == ["0", "+20"]


def test_card__with_nothing_known__draws_nothing() -> None:
    card = card_of(metric(CONVERSION, variant("blue", None), variant("green", None, compared(TOO_FEW, TOO_FEW))))
    assert not card.plot.is_drawn
    assert card.rows[0].has_reason_alone
    assert card.rows[0].value.reason == TOO_FEW.message


@pytest.mark.parametrize("is_decrease_good", [True, False], ids=["decrease", "increase"])
def test_card__of_a_guardrail__marks_its_margin_on_the_bad_side(is_decrease_good: bool) -> None:
    comparison = compared(estimate(0.0, 0.1), estimate(0.0, 0.1), guardrail=judged("undecided", 10), family=None)
    definition = replace(REFUNDS, is_decrease_good=is_decrease_good)
    card = card_of(metric(definition, variant("blue", 1), variant("green", 1, comparison)))
    bar = card.rows[1].bar
    assert bar is not None
    assert bar.mark == (bar.end if is_decrease_good else bar.start)
    assert card.margin == "at most 10 % worse"
    assert card.notes == [
        "The dashed line is the margin. The guardrail is safe if the whole interval is on its better side."
    ]


def waiting(users: int, days: float) -> Waiting:
    return Waiting(users, NOON + timedelta(days=14 + days))


def test_card__with_waiting_users__says_when_half_of_them_will_count() -> None:
    figures = metric(
        CONVERSION,
        variant("blue", 0.1, counted=700, mature_users=700, waiting=waiting(300, 2)),
        variant("green", 0.1, BETTER, counted=900, mature_users=900, waiting=waiting(100, 3)),
    )
    card = card_of(figures)
    assert [(row.users, row.others) for row in card.rows] == [("700", "300 waiting"), ("900", "100 waiting")]
    assert card.notes == [
        "400 users must wait until the 7 days after their exposure are over. Half of them will count by 17 Feb 2026."
    ]
    assert card_of(figures, maturity="all").notes == [
        "The figures include 400 users for whom the 7 days after their exposure are not over, "
        "so they are still too low."
    ]


def test_card__with_users_who_will_count_today__says_the_hour() -> None:
    figures = metric(CONVERSION, variant("blue", 0.1, counted=999, mature_users=999, waiting=waiting(1, 0.25)))
    assert card_of(figures).notes == [
        "1 user must wait until the 7 days after their exposure are over. "
        "Half of them will count by 14 Feb 2026, 18:00 UTC."
    ]


@pytest.mark.parametrize(
    ("others", "note"),
    [
        ({}, "The stop cut off 300 users: the 7 days after their exposure were not over. They do not count."),
        (
            {"maturity": "all"},
            "The figures include 300 users for whom the stop cut off the 7 days after their exposure, "
            "so they are too low.",
        ),
        (
            {"read_at": NOON},
            "The reading left out 300 users: the 7 days after their exposure were not over. They do not count.",
        ),
    ],
)
def test_card__with_users_cut_off__says_why_they_do_not_count(others: dict[str, Any], note: str) -> None:
    figures = metric(CONVERSION, variant("blue", 0.1, counted=700, mature_users=700, cut_off_users=300))
    experiment = Experiment(environment=EXPERIMENT.environment, stopped_at=NOON)
    card = card_of(figures, experiment, **others)
    assert card.rows[0].others == "300 cut off"
    assert card.notes == [note]


def test_card__with_other_currencies__says_that_they_are_not_counted() -> None:
    assert card_of(metric(REVENUE, variant("blue", 4.2, other_currency_events=1))).notes == [
        "The metric leaves out 1 event in another currency, or in none. Amounts are never converted."
    ]


def test_card__with_texts_for_numbers__names_the_property() -> None:
    assert card_of(metric(REVENUE, variant("blue", 4.2, events_without_number=548))).notes == [
        "548 events have no number in `revenue`, but a text or another value. Such events add nothing."
    ]


def test_card__with_a_user_who_makes_up_much__says_so() -> None:
    assert card_of(metric(REVENUE, variant("blue", 4.2, least_share=0.1))).notes == []
    assert card_of(metric(REVENUE, variant("blue", 4.2, least_share=0.987))).notes == [
        "One user makes up 98 % of the sum in blue, or more, so the figures say little about the others. The audit "
        "names the user. A cap limits such values."
    ]


def test_card__corrected_for_several_tests__names_the_correction() -> None:
    figures = metric(
        CONVERSION, variant("blue", 0.1), variant("green", 0.1, compared(estimate(0.1, 1), estimate(0.1, 1), family=4))
    )
    assert card_of(figures).notes == ["Intervals and p-values are corrected for 4 tests (Holm)."]
    [note] = card_of(figures, correction="benjamini-hochberg").notes
    assert note.endswith("(Benjamini-Hochberg).")


def test_card__with_open_sides__gives_the_reason_once() -> None:
    comparison = compared(with_bounds(0.2, -0.5, None), estimate(0.01, 0.02), family=1)
    card = card_of(metric(CONVERSION, *(variant(key, 0.1, comparison) for key in ("green", "red"))))
    assert card.notes == [OPEN.message]
    assert all(row.bar and row.bar.is_open_above and not row.bar.is_open_below for row in card.rows)


def test_card__of_users_who_differed_before__warns() -> None:
    guards = Guards(
        EVEN,
        0,
        0,
        different_before=[DifferentBefore(key, "green", estimate(1, 0.1, 0.0004)) for key in ("purchase", "other")],
    )
    card = card_of(metric(CONVERSION, variant("green", 0.1, BETTER)), guards=guards)
    assert card.warnings == [
        "green differed from blue before the exposure already, p < 0.001. "
        "Look for the cause before you trust this metric."
    ]
    assert card_of(metric(CONVERSION, variant("green", 0.1, BETTER))).warnings == []


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ((), ""),
        (("purchas",), "Production has never received the event purchas."),
        (
            ("cart", "pay"),
            "Production has never received the events cart and pay.",
        ),
    ],
)
def test_card__with_events_never_received__says_what_to_do(names: tuple[str, ...], words: str) -> None:
    card = card_of(metric(CONVERSION, variant("blue", 0.0), never_received=names))
    assert card.never_received == (
        f"{words} Check the spelling in the metric, and that the application sends it." if words else ""
    )


def adjusted() -> VariantFigures:
    raw = variant("green", 0.12, compared(estimate(0.2, 0.3), estimate(0.02, 0.03))).estimate
    return variant("green", 0.11, replace(BETTER, cuped=cuped()), raw=raw, before=estimate(0.01, 0.02))


def test_card__that_is_adjusted__has_raw_figures_beside_and_the_reduction() -> None:
    experiment = Experiment(key="button", environment=EXPERIMENT.environment, registration={"lookbackDays": 28})
    card = card_of(metric(CONVERSION, adjusted()), experiment)
    [row] = card.rows
    assert card.is_adjusted
    assert row.raw is not None
    assert row.raw.lift is not None
    assert (row.value.estimate, row.raw.value.estimate) == ("11.00 %", "12.00 %")
    assert (row.raw.lift.estimate, row.raw.lift.interval) == ("+20.00 %", "\u221210.00 % to +50.00 %")
    assert card.adjustment == (
        "The figures are adjusted for what users did in the 28 days before their exposure (CUPED). "
        "This removes 23.00 % of the variance."
    )
    assert card.before == [row]


@pytest.mark.parametrize("is_brief", [True, False])
def test_table__row_that_is_adjusted__says_so(is_brief: bool) -> None:
    card = card_of(metric(CONVERSION, variant("blue", 0.1), adjusted()))
    table = render_to_string("admin/experiments/experiment/variants.html", {"card": card, "is_brief": is_brief})
    assert re.findall(r"<strong>(.*?)</strong>.*?<small>(adjusted by CUPED)</small>", table) == [
        ("11.00 %", "adjusted by CUPED")
    ]


def test_card__treatments_of_other_phases__says_how_each_is_adjusted() -> None:
    later = variant("red", 0.11, replace(BETTER, cuped=NO_HISTORY))
    card = card_of(metric(CONVERSION, adjusted(), later))
    assert card.adjustment.startswith("green: The figures are adjusted for")
    assert card.adjustment.endswith(f"red: {NO_HISTORY.message}")


def test_card__that_is_not_adjusted__says_why() -> None:
    card = card_of(metric(CONVERSION, variant("blue", 0.1), variant("green", 0.1, BETTER, before=NO_HISTORY)))
    assert (card.adjustment, card.before) == (NO_HISTORY.message, [])
    assert card_of(metric(CONVERSION, variant("blue", 0.1))).adjustment == ""


def test_card__of_a_funnel__has_the_share_of_each_step() -> None:
    steps = [FunnelStep("cart", 400, 0.4), FunnelStep("pay", 100, 0.1)]
    funnel = replace(CONVERSION, type="funnel", steps=(Quantity("cart"), Quantity("pay")))
    none = [replace(step, users=0, share=None) for step in steps]
    card = card_of(metric(funnel, variant("blue", 0.1, steps=steps), variant("green", None, BETTER, steps=none)))
    assert [(step.event, step.passed) for step in card.steps] == [
        ("cart", [("400", "40.00 %"), ("0", "")]),
        ("pay", [("100", "10.00 %"), ("0", "")]),
    ]


def test_card__broken_down__has_slices() -> None:
    whole = metric(CONVERSION, variant("blue", 0.1), variant("green", 0.11, BETTER))
    card = card_of(whole, breakdown=Breakdown("country", [Slice("DE", False, 9, [whole])]))
    assert card.slices is not None
    assert card.slices.attribute == "country"
    assert card_of(whole).slices is None
