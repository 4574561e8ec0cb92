"""How the figures of a metric are written: values, differences, lifts, and their intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from experiments.metrics.definition import Definition
from experiments.stats.numbers import (
    NO_FIGURE,
    format_number,
    format_p_value,
    format_percent,
    format_points,
    format_short_number,
    with_sign,
)
from experiments.stats.types import Estimate, Interval, Reason, Test

_NEGLIGIBLE = 1e-6
"""A smaller loss is shown as about 0."""

Format = Callable[[float], str]
TestOf = Callable[[Estimate], Test]


@dataclass(frozen=True, slots=True)
class Figure:
    """An estimate with its interval and p-value, formatted; or the reason why there is none.

    `today` is today's estimate where the others are of an earlier reading.
    """

    estimate: str = NO_FIGURE
    interval: str = ""
    p_value: str = NO_FIGURE
    level: str = ""
    reason: str = ""
    today: str = ""


def figure_of(estimate: Estimate | Reason, format_value: Format, test_of: TestOf) -> Figure:
    if isinstance(estimate, Reason):
        return Figure(reason=estimate.message)
    figure = figure_of_test(test_of(estimate), format_value(estimate.estimate), format_value)
    return _with_today(figure, estimate, format_value)


def figure_of_test(test: Test | Reason, estimate: str, format_value: Format) -> Figure:
    if isinstance(test, Reason):
        return Figure(reason=test.message)
    interval = format_interval(test, format_value)
    return Figure(estimate, interval, format_p_value(test.p_value), format_level(test.level))


def lift_of(lift: Estimate | Reason, test_of: TestOf) -> Figure:
    if isinstance(lift, Reason):
        return Figure(reason=lift.message)
    return _with_today(lift_of_test(test_of(lift), format_lift(lift.estimate)), lift, format_lift)


def _with_today(figure: Figure, estimate: Estimate, format_value: Format) -> Figure:
    return figure if estimate.today is None else replace(figure, today=format_value(estimate.today))


def lift_of_test(test: Test | Reason, estimate: str) -> Figure:
    """Return a formatted lift with its test. An interval from -100 % without an end excludes nothing."""
    figure = figure_of_test(test, estimate, format_lift)
    if isinstance(test, Reason) or test.upper is not None or test.lower is None or test.lower > -1:
        return figure
    return replace(figure, interval="any lift is possible")


def format_interval(interval: Interval | Test, format_value: Format) -> str:
    """Return `1 to 2`; without a bound on one side, `1 or more` or `up to 2`."""
    lower, upper = interval.lower, interval.upper
    if lower is None:
        return "no bound on either side" if upper is None else f"up to {format_value(upper)}"
    return f"{format_value(lower)} or more" if upper is None else f"{format_value(lower)} to {format_value(upper)}"


def format_level(level: float) -> str:
    """Return a level of confidence: `95 %`, `97.5 %`, `99.58 %`."""
    return f"{format_short_number(round(100 * level, 2))} %"


def format_of_values(definition: Definition) -> Format:
    return format_percent if definition.is_share else format_number


def format_of_differences(definition: Definition) -> Format:
    return format_points if definition.is_share else lambda value: with_sign(format_number(value))


def format_of_losses(definition: Definition) -> Format:
    def format_loss(value: float) -> str:
        if 0 < value < _NEGLIGIBLE:
            return "about 0"
        return format_points(value).lstrip("+") if definition.is_share else format_number(value)

    return format_loss


def label_of_differences(definition: Definition) -> Format:
    """Return how a chart labels differences: those of shares in percentage points."""
    scale = 100 if definition.is_share else 1
    return lambda difference: with_sign(format_short_number(scale * difference))


def unit_of_differences(definition: Definition) -> str:
    return "percentage points" if definition.is_share else definition.quantity.currency


def format_lift(lift: float) -> str:
    return with_sign(format_percent(lift))


def always_valid(estimate: Estimate) -> Test:
    return estimate.always_valid


def describe_or_none(value: float | Reason, format_value: Format) -> str:
    return NO_FIGURE if isinstance(value, Reason) else format_value(value)
