"""Numbers in words, as the admin shows them. Pure."""

from __future__ import annotations

import math

MINUS = "\N{MINUS SIGN}"
NO_FIGURE = "\N{EN DASH}"


def format_number(value: float) -> str:
    """Return a number with about four digits: `12,346`, `312.50`, `1.234`, `0.001234`."""
    size = abs(value)
    if size >= 1e15:
        return _with_minus_sign(f"{value:.3g}")
    if value == round(value) or size >= 10_000:
        # Adding zero turns a negative zero into a positive one.
        return _with_minus_sign(f"{value + 0.0:,.0f}")
    return _with_minus_sign(f"{value:,.2f}" if size >= 10 else _significant(value, 4))


def format_percent(share: float) -> str:
    """Return a share in percent: with two decimals, `33.33 %`, or two digits, `0.0012 %`."""
    value = 100 * share
    if abs(value) >= 1_000:
        return f"{format_number(float(round(value)))} %"
    is_small = 0 < abs(value) < 0.01
    return _with_minus_sign(_significant(value, 2) if is_small else f"{value + 0.0:.2f}") + " %"


def format_points(difference: float) -> str:
    """Return a difference of two shares in percentage points, with its sign: `+1.20 points`."""
    return f"{with_sign(format_percent(difference).removesuffix(' %'))} points"


def with_sign(text: str) -> str:
    """Put a plus before a formatted number that is greater than zero."""
    is_positive = not text.startswith(MINUS) and any(digit in text for digit in "123456789")
    return f"+{text}" if is_positive else text


def format_p_value(p: float) -> str:
    """Return a p-value with the digits that matter: `0.031`, or `< 0.001`."""
    if p < 0.001:
        return "< 0.001"
    return f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def equate_p_value(p: float) -> str:
    """Return `p = 0.031`, or `p < 0.001`."""
    shown = format_p_value(p)
    return f"p {shown}" if shown.startswith("<") else f"p = {shown}"


def format_probability(probability: float) -> str:
    """Return a probability in percent that is never shown as certain: `97.3 %`, `> 99.9 %`."""
    if probability < 0.001:
        return "< 0.1 %"
    return "> 99.9 %" if probability > 0.999 else f"{100 * probability:.1f} %"


def format_count(count: int, noun: str) -> str:
    """Return `1 user`, `2,000 users`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def format_short_number(value: float) -> str:
    """Return a round number for the axis of a chart."""
    return _with_minus_sign(f"{value:,.6g}" if abs(value) < 1e6 else f"{value:.3g}")


def format_short_percent(share: float) -> str:
    """Return a round percentage with its sign for the axis of a chart."""
    return f"{with_sign(format_short_number(100 * share))} %"


def _significant(value: float, digits: int) -> str:
    """Return this many significant digits, with an exponent only for tiny numbers."""
    if abs(value) < 1e-9:
        return f"{value:.{digits - 1}e}"
    return f"{value:.{digits - 1 - math.floor(math.log10(abs(value)))}f}"


def _with_minus_sign(text: str) -> str:
    """Replace a leading hyphen by a minus sign, which is as wide as a plus."""
    return MINUS + text[1:] if text.startswith("-") else text
