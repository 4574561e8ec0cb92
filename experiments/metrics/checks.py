"""The checks of a metric: which properties each type has, and which values are valid. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from config.errors import Detail, DetailCode
from config.slugs import NAME_LENGTH
from experiments.metrics.conditions import check_where
from experiments.metrics.definition import REVENUE
from flags.validation.shapes import Check, check_list, check_object, is_number

TYPES = (
    *("conversion", "count", "revenue", "sum", "mean", "ratio", "retention"),
    *("distinct", "funnel", "quantile"),
)
DIRECTIONS = ("increase", "decrease")
ROLES = ("goal", "guardrail")
MAX_HOURS = 8760
MAX_DAYS = MAX_HOURS // 24
MIN_PERCENTILE = 50
MAX_PERCENTILE = 100
CURRENCY_PATTERN = "^[A-Za-z]{3}$"
MIN_STEPS = 2
MAX_STEPS = 10
QUANTITY = ("event", "property", "currency")
DENOMINATOR = (*QUANTITY, "where")

FUNNEL = "funnel"
_NOTHING: Mapping[str, Any] = {"property": "", "currency": "", "delayHours": 0, "where": [], "steps": []}
"""The value of a property that a metric does not have. It is null for properties that are not listed."""
_NOTHING_IN_WORDS = {"where": "an empty list", "steps": "an empty list", "delayHours": "0"}
_NOTHING_IN_WORDS |= dict.fromkeys(("property", "currency"), 'an empty text ("")')
_ALL_BUT_RETENTION = tuple(kind for kind in TYPES if kind != "retention")
_CAPPED = ("count", "revenue", "sum")
_TYPES_WITH: Mapping[str, tuple[str, ...]] = {
    "property": ("sum", "mean", "ratio", "distinct", "quantile"),
    "currency": ("revenue", "sum", "mean", "ratio", "quantile"),
    "denominator": ("ratio",),
    "where": tuple(kind for kind in TYPES if kind != "funnel"),
    "steps": ("funnel",),
    "quantile": ("quantile",),
    "windowHours": _ALL_BUT_RETENTION,
    "delayHours": _ALL_BUT_RETENTION,
    "fromDay": ("retention",),
    "toDay": ("retention",),
    "capValue": _CAPPED,
    "capPercentile": _CAPPED,
}
_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "sum": ("property",),
    "mean": ("property",),
    "ratio": ("denominator",),
    "retention": ("fromDay", "toDay"),
    "funnel": ("steps",),
    "quantile": ("property", "quantile"),
}
_SHARES = ("conversion", "retention", "funnel")
_currency = re.compile(CURRENCY_PATTERN[1:-1], re.ASCII)

Meaning = Mapping[str, Any]
"""What a metric computes, by JSON property."""


def types_with(name: str) -> tuple[str, ...]:
    """Return the types of metrics that may have this property."""
    return _TYPES_WITH.get(name, TYPES)


def check_meaning(meaning: Meaning) -> Iterator[Detail]:
    """Yield every problem of a metric.

    A property that does not belong to the type is reported as such, and not checked further.
    """
    yield from _check_choice("type", meaning["type"], TYPES)
    yield from _check_choice("direction", meaning["direction"], DIRECTIONS)
    yield from _check_choice("role", meaning["role"], ROLES)
    if meaning["type"] != FUNNEL or meaning["event"] != "":  # a funnel takes it from its first step
        yield from _check_name("event", meaning["event"])
    if not _is_one_of(meaning["type"], TYPES):
        return
    misplaced = {name for name in _TYPES_WITH if _is_misplaced(meaning, name)}
    yield from (_misplaced(name, meaning["type"]) for name in _TYPES_WITH if name in misplaced)
    for name in _REQUIRED.get(meaning["type"], ()):
        if _is_nothing(meaning, name):
            message = f"A metric of type {meaning['type']} requires this; add it."
            yield Detail(name, DetailCode.REQUIRED, message)
    for name, check in _CHECKS.items():
        if name not in misplaced and not _is_nothing(meaning, name):
            yield from check(name, meaning[name])
    yield from _check_together(meaning, misplaced)
    yield from _check_margins(meaning)


def _check_together(meaning: Meaning, misplaced: Collection[str]) -> Iterator[Detail]:
    """Check combinations of properties that are valid by themselves."""
    if "currency" not in misplaced and meaning["type"] in types_with("currency"):
        yield from _check_currency("", meaning, needs_one=meaning["type"] == REVENUE)
    if meaning["type"] == "ratio" and isinstance(meaning["denominator"], Mapping):
        yield from _check_one_currency(meaning, meaning["denominator"])
    first, end = meaning["fromDay"], meaning["toDay"]
    if meaning["type"] == "retention" and _is_whole(first) and _is_whole(end) and first >= end:
        yield Detail(
            "toDay", DetailCode.OUT_OF_RANGE, "Must be greater than fromDay; it is the first day after the period."
        )
    if meaning["type"] in _CAPPED and meaning["capValue"] is not None and meaning["capPercentile"] is not None:
        message = "Cannot be combined with capValue; set one of the two, and send null for the other."
        yield Detail("capPercentile", DetailCode.INVALID_VALUE, message)


def _is_nothing(meaning: Meaning, name: str) -> bool:
    nothing = _NOTHING.get(name)
    value = meaning.get(name, nothing)
    if value is None and isinstance(nothing, list):
        return True
    return value is nothing or (type(value) is type(nothing) and value == nothing)


def _is_misplaced(meaning: Meaning, name: str) -> bool:
    return meaning["type"] not in types_with(name) and not _is_nothing(meaning, name)


def _misplaced(name: str, kind: str) -> Detail:
    nothing = _NOTHING_IN_WORDS.get(name, "null")
    message = f"A metric of type {kind} does not have this; leave it out, or send {nothing} to remove it."
    if kind == FUNNEL and name == "where":
        message = "A funnel has conditions in each of its steps; send them as where of a step."
    if kind == REVENUE and name == "property":
        message = f"A metric of type {kind} always sums the property {REVENUE}; leave it out."
    return Detail(name, DetailCode.INVALID_VALUE, message)


def _check_choice(field: str, value: Any, choices: Collection[str]) -> Iterator[Detail]:
    if not isinstance(value, str):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be a string.")
    elif value not in choices:
        yield Detail(field, DetailCode.INVALID_VALUE, f"Must be one of: {', '.join(choices)}.")


def _is_one_of(value: Any, choices: Collection[str]) -> bool:
    return isinstance(value, str) and value in choices


def _check_name(field: str, name: Any) -> Iterator[Detail]:
    if not isinstance(name, str):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be a string.")
    elif not name:
        yield Detail(field, DetailCode.OUT_OF_RANGE, "Must not be empty.")
    elif len(name) > NAME_LENGTH:
        yield Detail(field, DetailCode.TOO_LONG, f"Must be at most {NAME_LENGTH} characters.")


def _check_currency(prefix: str, quantity: Meaning, *, needs_one: bool = False) -> Iterator[Detail]:
    """Check that there is a currency exactly where amounts of money are summed."""
    field, currency = f"{prefix}currency", quantity.get("currency", "")
    is_money = needs_one or quantity.get("property", "") == REVENUE
    if not isinstance(currency, str):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be a string.")
    elif is_money and not currency:
        message = "Is required for revenue, because only amounts in one currency can be added; send one such as EUR."
        yield Detail(field, DetailCode.REQUIRED, message)
    elif currency and not is_money:
        message = f"Requires the property {REVENUE}; leave it out."
        yield Detail(field, DetailCode.INVALID_VALUE, message)
    elif currency and _currency.fullmatch(currency) is None:
        yield Detail(field, DetailCode.INVALID_VALUE, "Must be three letters such as EUR.")


def _check_one_currency(numerator: Meaning, denominator: Meaning) -> Iterator[Detail]:
    currency, other = numerator["currency"], denominator.get("currency")
    if not isinstance(currency, str) or not isinstance(other, str):
        return
    if currency and other and currency.upper() != other.upper():
        message = f"Must be the currency of the numerator, {currency}: amounts in two currencies have no ratio."
        yield Detail("denominator.currency", DetailCode.INVALID_VALUE, message)


def _check_denominator(field: str, denominator: Any) -> Iterator[Detail]:
    if not isinstance(denominator, Mapping):
        message = "Must be an object with event and, optionally, property, currency and where."
        yield Detail(field, DetailCode.INVALID_TYPE, message)
        return
    for name in denominator:
        if name not in DENOMINATOR:
            message = f"Unknown field; use {', '.join(DENOMINATOR)}."
            yield Detail(f"{field}.{str(name)[:50]}", DetailCode.UNKNOWN_FIELD, message)
    if "event" not in denominator:
        yield Detail(f"{field}.event", DetailCode.REQUIRED, "Is missing; add it.")
    else:
        yield from _check_name(f"{field}.event", denominator["event"])
    if denominator.get("property", "") != "":
        yield from _check_name(f"{field}.property", denominator["property"])
    yield from _check_currency(f"{field}.", denominator)
    if "where" in denominator:
        yield from check_where(denominator["where"], f"{field}.where")


def _check_steps(field: str, steps: Any) -> Iterator[Detail]:
    return check_list(steps, field, min_length=MIN_STEPS, max_length=MAX_STEPS, noun="steps", check=_check_step)


def _check_step(step: object, field: str) -> Iterator[Detail]:
    return check_object(step, field, checks=_STEP, required=("event",), example='{"event": "add_to_cart"}')


def _check_margins(meaning: Meaning) -> Iterator[Detail]:
    """Check the margins. Only guardrails have one, and at most one."""
    margins = [name for name in ("margin", "marginAbsolute") if meaning.get(name) is not None]
    for name in margins:
        if meaning["role"] == "goal":
            message = "Only a guardrail has a margin; leave it out, or send null to remove it."
            yield Detail(name, DetailCode.INVALID_VALUE, message)
        else:
            yield from _check_margin(name, meaning[name], is_share=meaning["type"] in _SHARES)
    if len(margins) > 1 and meaning["role"] != "goal":
        message = "Cannot be combined with margin; set one of the two, and send null for the other."
        yield Detail("marginAbsolute", DetailCode.INVALID_VALUE, message)


def _check_margin(field: str, value: Any, *, is_share: bool) -> Iterator[Detail]:
    if not is_number(value):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be a number.")
    elif field == "margin" and not 0 < value <= 1:
        message = "Must be above 0 and at most 1: 0.1 allows the metric to be 10 % worse than in the control."
        yield Detail(field, DetailCode.OUT_OF_RANGE, message)
    elif not (value > 0 and math.isfinite(value)):
        yield Detail(field, DetailCode.OUT_OF_RANGE, "Must be greater than 0.")
    elif is_share and field == "marginAbsolute" and value >= 1:
        message = "Must be below 1, because the metric is a share of users: one percentage point is 0.01."
        yield Detail(field, DetailCode.OUT_OF_RANGE, message)


def _whole_number(least: int, most: int, unit: str) -> Callable[[str, Any], Iterable[Detail]]:
    def check(field: str, value: Any) -> Iterator[Detail]:
        if not _is_whole(value):
            yield Detail(field, DetailCode.INVALID_TYPE, "Must be a whole number.")
        elif not least <= value <= most:
            yield Detail(field, DetailCode.OUT_OF_RANGE, f"Must be {least} to {most:,} {unit}.")

    return check


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_quantile(field: str, value: Any) -> Iterator[Detail]:
    if not is_number(value):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be a number.")
    elif not 0 < value < 1:
        yield Detail(field, DetailCode.OUT_OF_RANGE, "Must be above 0 and below 1: 0.5 is the median.")


def _check_where(field: str, value: Any) -> Iterator[Detail]:
    return check_where(value, field)


def _check_cap(field: str, value: Any) -> Iterator[Detail]:
    if not is_number(value):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be a number.")
    elif field == "capValue" and not (value > 0 and math.isfinite(value)):
        yield Detail(field, DetailCode.OUT_OF_RANGE, "Must be greater than 0.")
    elif field == "capPercentile" and not MIN_PERCENTILE < value < MAX_PERCENTILE:
        message = f"Must be above {MIN_PERCENTILE} and below {MAX_PERCENTILE}, such as 99."
        yield Detail(field, DetailCode.OUT_OF_RANGE, message)


_CHECKS: Mapping[str, Callable[[str, Any], Iterable[Detail]]] = {
    "property": _check_name,
    "denominator": _check_denominator,
    "where": _check_where,
    "steps": _check_steps,
    "quantile": _check_quantile,
    "windowHours": _whole_number(1, MAX_HOURS, "hours"),
    "delayHours": _whole_number(0, MAX_HOURS, "hours"),
    "fromDay": _whole_number(0, MAX_DAYS - 1, "days"),
    "toDay": _whole_number(1, MAX_DAYS, "days"),
    "capValue": _check_cap,
    "capPercentile": _check_cap,
}
_STEP: Mapping[str, Check] = {"event": lambda value, field: _check_name(field, value), "where": check_where}
