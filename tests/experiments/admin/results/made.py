"""Results made by hand, for pages: the figures need not follow from one another."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from config.models import Environment
from experiments.metrics.definition import Definition, Quantity
from experiments.models import Experiment
from experiments.results.types import (
    AgeFigures,
    DayFigures,
    Guards,
    MetricFigures,
    Results,
    VariantFigures,
    VariantUsers,
)
from experiments.stats.outcomes import Decision, SampleRatio, Verdict
from experiments.stats.types import (
    Basis,
    Comparison,
    Cuped,
    Estimate,
    Guardrail,
    GuardrailStatus,
    Interval,
    Margin,
    Reason,
    ReasonCode,
    SingleLook,
    Test,
    VariantEstimate,
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
OPEN = Reason(ReasonCode.OPEN_INTERVAL, "The lift has no bound on this side.")
NO_HISTORY = Reason(ReasonCode.NO_HISTORY, "Nobody did this before the exposure.")
EXPERIMENT = Experiment(key="button", environment=Environment(key="production", name="Production"))
BASIS = Basis([0], [1], 1000, VariantEstimate("blue", 1000, 0.1, Interval(0.09, 0.11), None, None))
EVEN = SampleRatio({"blue": 1000.0, "green": 1000.0}, chi_square_p=0.6, always_valid_p=1.0, is_mismatch=False)


def estimate(value: float, reach: float, p: float = 0.04) -> Estimate:
    """With an always-valid interval that reaches so far to both sides, and a fixed one half as far."""
    always = Test(value - reach, value + reach, p)
    return Estimate(value, reach / 3, always, Test(value - reach / 2, value + reach / 2, p / 2))


def with_bounds(value: float, lower: float | None, upper: float | None) -> Estimate:
    """A lift with the same interval in both of its tests; an open side has a reason."""
    test = Test(lower, upper, 0.4, open=None if None not in (lower, upper) else OPEN)
    return Estimate(value, None, test, test)


def compared(lift: Estimate | Reason, difference: Estimate | Reason, **others: Any) -> Comparison:
    """With the label that the test of the difference gives where an increase is good."""
    sign = difference.always_valid.sign if isinstance(difference, Estimate) else 0
    chances = {name: others.pop(name, value) for name, value in (("chance_to_beat", 0.973), ("expected_loss", 0.0012))}
    usual = {
        "label": {1: "better", -1: "worse"}.get(sign, "unclear"),
        "unadjusted_p": 0.015,
        "family": 2,
        "single_look": SingleLook(**chances, difference=_alone(difference), lift=_alone(lift)),
        "cuped": NO_HISTORY,
    }
    return Comparison(others.pop("basis", BASIS), difference, lift, **{**usual, **others})


def _alone(estimate: Estimate | Reason) -> Test | Reason:
    return estimate if isinstance(estimate, Reason) else estimate.fixed_horizon


def judged(status: GuardrailStatus, needed: int | None = None, **margin: float) -> Guardrail:
    """By default with a margin of 10 %."""
    return Guardrail(status, Margin(**(margin or {"relative": 0.1})), needed)


def variant(key: str, value: float | None, comparison: Comparison | None = None, **others: Any) -> VariantFigures:
    users = others.get("users", 1_000)
    interval = None if value is None else Interval(0.9 * value, 1.1 * value)
    reason = TOO_FEW if value is None else None
    raw = others.pop("raw", None)
    figures = VariantEstimate(key, others.pop("counted", users), value, interval, reason, comparison, raw)
    counts = {"users": users, "mature_users": users, "events": users, "other_currency_events": 0, **others}
    return VariantFigures(figures, **counts)


def days(count: int, value: float, reach: float) -> list[DayFigures]:
    """A difference that gets known better and better."""
    return [
        DayFigures(
            day=(NOON + timedelta(days=number)).date(),
            users=100 * (number + 1),
            counted_users=100 * (number + 1),
            value=0.1,
            interval=Interval(0.09, 0.11),
            difference=estimate(value * (1 + 0.6 / (number + 1)), reach * (count / (number + 1)) ** 0.5),
            lift=estimate(value * (1 + 0.6 / (number + 1)), reach * (count / (number + 1)) ** 0.5),
        )
        for number in range(count)
    ]


def ages(count: int, value: float) -> list[AgeFigures]:
    """An effect that fades."""
    return [
        AgeFigures(
            day=day,
            users=1_000 - 100 * day,
            value=0.1,
            interval=Interval(0.09, 0.11),
            difference=estimate(value / (day + 1), 0.01),
            lift=estimate(10 * value / (day + 1), 0.1),
        )
        for day in range(count)
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


def cuped() -> Cuped:
    return Cuped(theta=0.4, variance_reduction=0.23)
