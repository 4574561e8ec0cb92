"""Experiments, metrics and figures in words, as the pages of the admin show them.

Pure: no page, no database.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

from config.documents import Document
from experiments.metrics.definition import Definition, Quantity
from experiments.models import WHOLE, Experiment
from flags.words.rules import describe_condition

MINUS = "\N{MINUS SIGN}"
NO_FIGURE = "\N{EN DASH}"

_DAY = timedelta(days=1)
_HOUR = timedelta(hours=1)
_MOST_USERS = 5


# numbers


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


# metrics


def describe_definition(definition: Definition, cap: float | None = None) -> str:
    """Say what a metric computes, without a full stop.

    `cap` is the value that a percentile cap has at present.
    """
    return _describe_value(definition) + _describe_window(definition) + _describe_cap(definition, cap)


def describe_unit(definition: Definition) -> str:
    """Name one value of the metric, for the head of a column: `Share of users`, `EUR per user`."""
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


def _describe_value(definition: Definition) -> str:
    quantity = definition.quantity
    match definition.type:
        case "conversion" | "retention":
            return f"Share of users with {quantity.event}"
        case "mean":
            return f"Mean {quantity.property} of {quantity.event} per user"
        case "ratio":
            assert definition.denominator is not None  # noqa: S101 (that is what a ratio is)
            denominator = _describe_sum(definition.denominator)
            return f"{_describe_sum(quantity)} divided by {denominator[0].lower()}{denominator[1:]}"
    return f"{_describe_sum(quantity)} per user"


def _describe_sum(quantity: Quantity) -> str:
    """Say what is added up, for one user or for all."""
    if not quantity.property:
        return f"Number of {quantity.event} events"
    if quantity.currency:
        return f"Revenue in {quantity.currency} of {quantity.event}"
    return f"Sum of {quantity.property} of {quantity.event}"


def _describe_window(definition: Definition) -> str:
    """Say when, after a user's exposure, events count."""
    delay, window = definition.delay, definition.window
    if definition.type == "retention" and window is not None:
        return f" from day {delay // _DAY} to day {(delay + window) // _DAY} after exposure"
    if window is None:
        return f", starting {_describe_span(delay)} after exposure" if delay else " after exposure"
    if delay:
        return f" from {_describe_span(delay)} to {_describe_span(delay + window)} after exposure"
    return f" within {_describe_span(window)} of exposure"


def _describe_cap(definition: Definition, cap: float | None) -> str:
    if definition.cap_value is not None:
        return f", capped at {format_number(definition.cap_value)}"
    if definition.cap_percentile is None:
        return ""
    percentile = f", capped at the {_ordinal(definition.cap_percentile)} percentile"
    return percentile if cap is None else f"{percentile} ({format_number(cap)})"


def _describe_span(length: timedelta) -> str:
    """Return `7 days`, `36 hours`, `1 hour`."""
    if length % _DAY == timedelta(0):
        return format_count(length // _DAY, "day")
    return format_count(length // _HOUR, "hour")


def _ordinal(value: float) -> str:
    text = f"{value:g}"
    if "." in text or text[-2:] in ("11", "12", "13"):
        return f"{text}th"
    return text + {"1": "st", "2": "nd", "3": "rd"}.get(text[-1], "th")


# experiments


def describe_split(variants: Iterable[Mapping[str, Any]]) -> str:
    """Return the shares of the variants: `blue 25 % · green 75 %`."""
    weights = [(variant["key"], variant["weight"]) for variant in variants]
    total = sum(weight for _, weight in weights)
    return " · ".join(f"{key} {100 * weight / total:.3g} %" for key, weight in weights)


def describe_audience(experiment: Experiment) -> str:
    """Return `50 % of users whose plan equals pro, within 0 to 50 % of the group checkout`."""
    is_whole = experiment.percentage == WHOLE
    share = "" if is_whole else f"{experiment.percentage:g} % of "
    if experiment.conditions:
        audience = f"{share}users whose {' and '.join(map(describe_condition, experiment.conditions))}"
    else:
        audience = "everyone" if is_whole else f"{share}users"
    if not experiment.group:
        return audience
    group = experiment.group
    return f"{audience}, within {group['from']:g} to {group['to']:g} % of the group {group['key']}"


def describe_forced_variants(experiment: Experiment) -> str:
    """Return the first few users with their variants: `qa-1 sees green`."""
    forced = [f"{user_id} sees {variant}" for user_id, variant in sorted(experiment.forced_variants.items())]
    more = len(forced) - _MOST_USERS
    return ", ".join(forced[:_MOST_USERS]) + (f" and {more:,} more" if more > 0 else "") or "none"


def describe_flag(experiment: Experiment) -> str:
    """Return what the flag serves for each variant: `checkout: control off · green on`."""
    if not experiment.flag:
        return "none"
    served = (f"{key} {describe_served(experiment, key)}" for key in experiment.variant_keys)
    return f"{experiment.flag['key']}: {' · '.join(served)}"


def describe_served(experiment: Experiment, variant: str) -> str:
    """Return what the flag serves for a variant: a key, on or off; `""` without a flag."""
    served = experiment.flag["serves"].get(variant) if experiment.flag else None
    return "" if served is None else _key_or_switch(served)


def describe_decision(experiment: Experiment) -> str:
    """Return `green wins, with a holdback of 5 %, despite objections: We like it.`"""
    decision = experiment.decision or {}
    if not experiment.winner:
        return "no winner"
    holdback = f", with a holdback of {experiment.holdback:g} %" if experiment.holdback else ""
    objections = ", despite objections" if decision.get("overridden") else ""
    reason = f": {decision['reason']}" if decision.get("reason") else ""
    return f"{experiment.winner} wins{holdback}{objections}{reason}"


def _key_or_switch(served: str | bool) -> str:
    if isinstance(served, bool):
        return "on" if served else "off"
    return served


# the history of an experiment

_index = re.compile(r"\[\d+\]$")
_DIRECTIONS = {"increase": "more is better", "decrease": "less is better"}


def describe_experiment_value(path: str, value: Any) -> str | None:
    """Describe the value of a property, or of one element of a list; None where JSON reads as well.

    `path` is a path in the document of the experiment, such as `variants` or `variants[0]`.
    """
    describe = _ELEMENTS.get(_index.sub("", path)) if _index.search(path) else _PROPERTIES.get(path)
    return describe(value) if describe else None


def _join(describe: Callable[[Any], str], separator: str) -> Callable[[Any], str]:
    return lambda values: separator.join(map(describe, values)) or "none"


def _variant(variant: Document) -> str:
    return f"{variant['key']} with weight {variant['weight']:g}"


def _definition(document: Document) -> str:
    text = f"{document['key']}: {describe_definition(Definition.parse(document))}"
    return f"{text}, post hoc" if document.get("isPostHoc") else text


def _phase(phase: Document) -> str:
    conditions = "".join(f", {describe_condition(condition)}" for condition in phase["conditions"])
    share = "everyone" if phase["percentage"] == WHOLE else f"{phase['percentage']:g} % of the audience"
    return f"{describe_split(phase['variants'])}, {share}{conditions}"


def _group(group: Document) -> str:
    return f"{group['from']:g} to {group['to']:g} % of {group['key']}"


def _flag(flag: Document) -> str:
    served = (f"{key} {_key_or_switch(value)}" for key, value in flag["serves"].items())
    return f"{flag['key']}: {' · '.join(served)}"


def _forced_variants(forced: Mapping[str, str]) -> str:
    return ", ".join(f"{user_id} sees {variant}" for user_id, variant in forced.items())


def _registration(registration: Document) -> str:
    primary, planned = registration["primaryMetric"], registration["plannedSampleSize"]
    direction = _DIRECTIONS[registration["direction"]] if primary else ""
    text = f"primary metric {primary}, {direction}" if primary else "no primary metric"
    return f"{text}, {planned:,} users planned" if planned else text


def _decision(decision: Document) -> str:
    if "winner" not in decision:
        return "no winner"
    holdback = f", with a holdback of {decision['holdback']:g} %" if decision.get("holdback") else ""
    overridden = ", ".join(decision["overridden"]).replace("_", " ")
    return f"{decision['winner']} wins{holdback}" + (f", despite objections: {overridden}" if overridden else "")


# How one element of a list reads, by the name of the list.
_ELEMENTS: Mapping[str, Callable[[Any], str]] = {
    "variants": _variant,
    "conditions": describe_condition,
    "definitions": _definition,
    "phases": _phase,
}
# How a whole property reads.
_PROPERTIES: Mapping[str, Callable[[Any], str]] = {
    "status": str,
    "variants": describe_split,
    "conditions": _join(describe_condition, " and "),
    "definitions": _join(_definition, "; "),
    "phases": _join(_phase, "; "),
    "group": _group,
    "flag": _flag,
    "forcedVariants": _forced_variants,
    "registration": _registration,
    "decision": _decision,
}
