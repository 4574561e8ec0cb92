"""Numbers and definitions in the words of the pages that show results. Pure: it knows no page and no database."""

from __future__ import annotations

import math
from datetime import timedelta

from experiments.metrics.definition import Definition, Quantity

MINUS = "\N{MINUS SIGN}"
NO_FIGURE = "\N{EN DASH}"

_DAY = timedelta(days=1)
_HOUR = timedelta(hours=1)


def number(value: float) -> str:
    """A number to four digits or so: `12,346`, `312.50`, `1.234`, `0.001234`."""
    size = abs(value)
    if size >= 1e15:
        return _signed(f"{value:.3g}")
    if value == round(value) or size >= 10_000:
        return _signed(f"{value + 0.0:,.0f}")
    return _signed(f"{value:,.2f}" if size >= 10 else _digits(value, 4))


def percent(share: float) -> str:
    """A share or a ratio as percent, to hundredths: `33.33 %`; smaller ones to two digits: `0.0012 %`."""
    value = 100 * share
    if abs(value) >= 1_000:
        return f"{number(float(round(value)))} %"
    is_small = 0 < abs(value) < 0.01
    return _signed(_digits(value, 2) if is_small else f"{value + 0.0:.2f}") + " %"


def points(difference: float) -> str:
    """A difference of two shares in percentage points, with its sign."""
    return f"{plus(percent(difference).removesuffix(' %'))} points"


def plus(text: str) -> str:
    """A number as others here write it, with its sign whichever it is."""
    return text if text.startswith(MINUS) or not any(digit in text for digit in "123456789") else f"+{text}"


def p_value(value: float) -> str:
    """`0.031`, or `< 0.001`."""
    if value < 0.001:
        return "< 0.001"
    return f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def chance(value: float) -> str:
    """A probability in percent that does not claim to be sure."""
    if value < 0.001:
        return "< 0.1 %"
    return "> 99.9 %" if value > 0.999 else f"{100 * value:.1f} %"


def counted(count: int, noun: str) -> str:
    """`1 user`, `2,000 users`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def short_number(value: float) -> str:
    """A round number beside a chart."""
    return _signed(f"{value:,.6g}" if abs(value) < 1e6 else f"{value:.3g}")


def short_percent(share: float) -> str:
    return f"{plus(short_number(100 * share))} %"


def definition_in_words(definition: Definition, cap: float | None = None) -> str:
    """What a metric computes, in a sentence without its full stop. `cap` is the value that is in force."""
    return _what(definition) + _when(definition) + _capped(definition, cap)


def unit_in_words(definition: Definition) -> str:
    """What one value of the metric is, for the head of a column."""
    match definition.type:
        case "conversion" | "retention":
            return "Share of users"
        case "mean":
            return "Mean per user"
        case "ratio":
            return "Ratio"
        case "revenue":
            return f"{definition.quantity.currency} per user"
    return "Per user"


def _what(definition: Definition) -> str:
    quantity = definition.quantity
    match definition.type:
        case "conversion" | "retention":
            return f"Share of users with {quantity.event}"
        case "mean":
            return f"Mean {quantity.property} of {quantity.event} per user"
        case "ratio":
            assert definition.denominator is not None  # noqa: S101 (that is what a ratio is)
            return f"{_total(quantity)} divided by {_lower(_total(definition.denominator))}"
    return f"{_total(quantity)} per user"


def _total(quantity: Quantity) -> str:
    """What is summed, over one user's events or over all."""
    if not quantity.property:
        return f"Number of {quantity.event} events"
    if quantity.currency:
        return f"Revenue in {quantity.currency} of {quantity.event}"
    return f"Sum of {quantity.property} of {quantity.event}"


def _when(definition: Definition) -> str:
    """From when until when after a user's exposure events count."""
    delay, window = definition.delay, definition.window
    if definition.type == "retention" and window is not None:
        return f" from day {delay // _DAY} to day {(delay + window) // _DAY} after exposure"
    if window is None:
        return f" from {_span(delay)} after exposure on" if delay else " after exposure"
    if delay:
        return f" from {_span(delay)} to {_span(delay + window)} after exposure"
    return f" within {_span(window)} of exposure"


def _capped(definition: Definition, cap: float | None) -> str:
    if definition.cap_value is not None:
        return f", values above {number(definition.cap_value)} count as {number(definition.cap_value)}"
    if definition.cap_percentile is None:
        return ""
    percentile = f", values above the {_ordinal(definition.cap_percentile)} percentile count as "
    return percentile + ("it" if cap is None else number(cap))


def _span(length: timedelta) -> str:
    """`7 days`, `36 hours`, `1 hour`."""
    return counted(length // _DAY, "day") if length % _DAY == timedelta(0) else counted(length // _HOUR, "hour")


def _ordinal(value: float) -> str:
    text = f"{value:g}"
    if "." in text or text[-2:] in ("11", "12", "13"):
        return f"{text}th"
    return text + {"1": "st", "2": "nd", "3": "rd"}.get(text[-1], "th")


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]


def _digits(value: float, count: int) -> str:
    """So many digits that say something, and no exponent for what is not tiny."""
    if abs(value) < 1e-9:
        return f"{value:.{count - 1}e}"
    return f"{value:.{count - 1 - math.floor(math.log10(abs(value)))}f}"


def _signed(text: str) -> str:
    """With a minus as wide as a plus."""
    return MINUS + text[1:] if text.startswith("-") else text
