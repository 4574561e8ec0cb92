"""A variant by one metric as people look at it: its value and its comparison with the control, in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from experiments.admin.words import NO_FIGURE, chance, number, p_value, percent, plus, points
from experiments.metrics.definition import Definition
from experiments.results.types import VariantFigures
from experiments.stats.charts import Bar, Range
from experiments.stats.types import Comparison, Cuped, Estimate, Interval, Reason, Test

_TONES = {"better": "good", "worse": "bad"}


@dataclass(frozen=True, slots=True)
class Figure:
    """An estimate, its interval and its p-value in words; or the reason why there are none."""

    estimate: str = NO_FIGURE
    interval: str = ""
    p_value: str = NO_FIGURE
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Compared:
    """A treatment against the control. `standing` says what the difference shows: better, worse or nothing yet.

    `is_lift_open`: the difference is shown and the lift is not, for it also divides by a value that is uncertain.
    """

    lift: Figure
    difference: Figure
    fixed_horizon: Figure
    standing: str
    chance_to_beat: str
    expected_loss: str
    adjusted_p: str
    cuped: str
    is_lift_open: bool

    @property
    def tone(self) -> str:
        return _TONES.get(self.standing, "open")


@dataclass(frozen=True, slots=True)
class VariantRow:
    """A variant by one metric. `compared` and `bar` are None for the control."""

    key: str
    users: str
    mature: str
    value: Figure
    compared: Compared | None
    bar: Bar | None


def lift_range(figures: VariantFigures) -> Range | None:
    compared = figures.comparison
    return range_of(compared.lift) if compared else None


def range_of(estimate: Estimate | Reason | None) -> Range | None:
    if not isinstance(estimate, Estimate):
        return None
    return Range(estimate.always_valid.lower, estimate.estimate, estimate.always_valid.upper)


def variant_row(definition: Definition, figures: VariantFigures, bar: Bar | None) -> VariantRow:
    comparison = figures.comparison
    return VariantRow(
        key=figures.key,
        users=f"{figures.users:,}",
        mature=f"{figures.mature_users:,} mature" if figures.immature_users else "",
        value=_value(definition, figures),
        compared=_compared(definition, comparison) if comparison else None,
        bar=bar,
    )


def _value(definition: Definition, figures: VariantFigures) -> Figure:
    estimate, write = figures.estimate, writer_of_values(definition)
    interval = _between(estimate.interval, write) if estimate.interval else ""
    value = NO_FIGURE if estimate.value is None else write(estimate.value)
    return Figure(value, interval, reason=estimate.reason.message if estimate.reason else "")


def _compared(definition: Definition, comparison: Comparison) -> Compared:
    loss = comparison.expected_loss
    return Compared(
        lift=figure(comparison.lift, _signed_percent),
        difference=figure(comparison.difference, writer_of_differences(definition)),
        fixed_horizon=figure(comparison.lift, _signed_percent, lambda estimate: estimate.fixed_horizon),
        standing=_standing(definition, comparison.difference),
        chance_to_beat=_or_none(comparison.chance_to_beat, chance),
        expected_loss=_or_none(loss, _writer_of_losses(definition)),
        adjusted_p=NO_FIGURE if comparison.adjusted_p is None else p_value(comparison.adjusted_p),
        cuped=_cuped(comparison.cuped),
        is_lift_open=_is_open(comparison.lift) and not _is_open(comparison.difference),
    )


def _standing(definition: Definition, estimate: Estimate | Reason) -> str:
    """What the always-valid interval shows. Of the difference it is what verdicts rest on."""
    if isinstance(estimate, Reason):
        return "not known"
    if _is_open(estimate):
        return "no difference shown"
    return "better" if (estimate.always_valid.upper < 0) == definition.is_decrease_good else "worse"


def _is_open(estimate: Estimate | Reason) -> bool:
    """Whether the always-valid interval includes zero."""
    return isinstance(estimate, Estimate) and estimate.always_valid.lower <= 0 <= estimate.always_valid.upper


def figure(
    estimate: Estimate | Reason,
    write: Callable[[float], str],
    test_of: Callable[[Estimate], Test] = lambda estimate: estimate.always_valid,
) -> Figure:
    if isinstance(estimate, Reason):
        return Figure(reason=estimate.message)
    test = test_of(estimate)
    return Figure(write(estimate.estimate), _between(test, write), p_value(test.p_value))


def _between(interval: Interval | Test, write: Callable[[float], str]) -> str:
    return f"{write(interval.lower)} to {write(interval.upper)}"


def _or_none(value: float | Reason, write: Callable[[float], str]) -> str:
    return NO_FIGURE if isinstance(value, Reason) else write(value)


def _cuped(cuped: Cuped | Reason) -> str:
    """What history adds, or why there is none."""
    if isinstance(cuped, Reason):
        return cuped.message
    lift = figure(cuped.lift, _signed_percent)
    told = lift.reason or f"{lift.estimate} ({lift.interval})"
    return f"{told}, with {100 * cuped.variance_reduction:.0f} % less variance"


def writer_of_values(definition: Definition) -> Callable[[float], str]:
    return percent if definition.is_share else number


def writer_of_differences(definition: Definition) -> Callable[[float], str]:
    return points if definition.is_share else lambda value: plus(number(value))


def _writer_of_losses(definition: Definition) -> Callable[[float], str]:
    return (lambda value: points(value).lstrip("+")) if definition.is_share else number


def _signed_percent(share: float) -> str:
    return plus(percent(share))
