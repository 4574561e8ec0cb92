"""Results made by hand, for pages: the figures need not follow from one another."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from experiments.metrics.definition import Definition, Quantity
from experiments.models import Experiment
from experiments.results.types import DayFigures, Guards, MetricFigures, Results, VariantFigures, VariantUsers
from experiments.stats.types import (
    Comparison,
    Cuped,
    Decision,
    Estimate,
    Interval,
    Reason,
    ReasonCode,
    SampleRatio,
    Test,
    VariantEstimate,
    Verdict,
)
from tests.conftest import NOON

CONVERSION = Definition("purchase", 1, "conversion", Quantity("purchase"), window=timedelta(days=7))
REVENUE = Definition(
    "revenue",
    2,
    "revenue",
    Quantity("purchase", "revenue", "EUR"),
    window=timedelta(days=7),
    cap_percentile=99.0,
)
REFUNDS = Definition("refunds", 1, "count", Quantity("refund"), is_decrease_good=True, is_guardrail=True)
TOO_FEW = Reason(ReasonCode.TOO_FEW_USERS, "Fewer than 2 users.")
NO_HISTORY = Reason(ReasonCode.NO_HISTORY, "Nobody did this before the exposure.")
EVEN = SampleRatio({"blue": 1000.0, "green": 1000.0}, chi_square_p=0.6, always_valid_p=1.0, is_mismatch=False)


def estimate(value: float, reach: float, p: float = 0.04) -> Estimate:
    """With an always-valid interval that reaches so far to both sides, and a fixed one half as far."""
    always = Test(value - reach, value + reach, p)
    return Estimate(value, reach / 3, always, Test(value - reach / 2, value + reach / 2, p / 2))


def compared(lift: Estimate | Reason, difference: Estimate | Reason, **others: Any) -> Comparison:
    usual = {"chance_to_beat": 0.973, "expected_loss": 0.0012, "cuped": NO_HISTORY, "adjusted_p": 0.031}
    return Comparison(difference, lift, **{**usual, **others})


def variant(key: str, value: float | None, comparison: Comparison | None = None, **others: Any) -> VariantFigures:
    users = others.get("users", 1_000)
    interval = None if value is None else Interval(0.9 * value, 1.1 * value)
    reason = TOO_FEW if value is None else None
    figures = VariantEstimate(key, users, value, interval, reason, comparison)
    counts = {"users": users, "mature_users": users, "events": users, "other_currency_events": 0, **others}
    return VariantFigures(figures, **counts)


def days(count: int, value: float, reach: float) -> list[DayFigures]:
    """A difference that gets known better and better."""
    return [
        DayFigures(
            day=(NOON + timedelta(days=number)).date(),
            users=100 * (number + 1),
            value=0.1,
            interval=Interval(0.09, 0.11),
            difference=estimate(value * (1 + 0.6 / (number + 1)), reach * (count / (number + 1)) ** 0.5),
        )
        for number in range(count)
    ]


def metric(definition: Definition, *variants: VariantFigures, **others: Any) -> MetricFigures:
    usual = {"metric_index": 0, "is_primary": not definition.is_guardrail, "cap": None}
    return MetricFigures(definition, variants=variants, **{**usual, **others})


def results(experiment: Experiment, metrics: Sequence[MetricFigures] = (), **others: Any) -> Results:
    verdict = Verdict(Decision.SHIP, "green", [Reason(ReasonCode.BETTER, "green is better than blue.")])
    usual = {
        "as_of": NOON + timedelta(days=14),
        "control": "blue",
        "correction": "holm",
        "variants": [VariantUsers("blue", 1, 1_000, 1_000.0), VariantUsers("green", 1, 1_000, 1_000.0)],
        "guards": Guards(EVEN, 0, 0),
        "verdict": verdict,
        "harmed": {},
        "primary": next((figures.definition.key for figures in metrics if figures.is_primary), None),
    }
    return Results(experiment=experiment, metrics=metrics, **{**usual, **others})


def cuped(lift: Estimate) -> Cuped:
    return Cuped(theta=0.4, variance_reduction=0.23, value=0.11, difference=lift, lift=lift)
