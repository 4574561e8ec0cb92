"""What an experiment is made of, in words, for the pages that show it.

Numbers and definitions in the words of the pages that show results. Pure: it knows no page and no database.

How the values of experiments read in their histories, where JSON would say less. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

from config.documents import Document
from experiments.metrics.definition import Definition, Quantity
from experiments.models import WHOLE, Experiment
from flags.words.rules import summarise_condition

_SHOWN_TESTERS = 5


def shares_in_words(variants: Iterable[Mapping[str, Any]]) -> str:
    """Such as `blue 25 % · green 75 %`."""
    weights = [(each["key"], each["weight"]) for each in variants]
    total = sum(weight for _, weight in weights)
    return " · ".join(f"{key} {100 * weight / total:.3g} %" for key, weight in weights)


def audience_in_words(experiment: Experiment) -> str:
    """Such as `50 % of users whose plan equals pro, within 0 to 50 % of the group checkout`."""
    share = "everyone" if experiment.percentage == WHOLE else f"{experiment.percentage:g} %"
    if experiment.conditions:
        of = "users" if experiment.percentage == WHOLE else f"{share} of users"
        share = f"{of} whose {' and '.join(map(summarise_condition, experiment.conditions))}"
    elif experiment.percentage != WHOLE:
        share += " of users"
    if not experiment.group:
        return share
    group = experiment.group
    return f"{share}, within {group['from']:g} to {group['to']:g} % of the group {group['key']}"


def testers_in_words(experiment: Experiment) -> str:
    """Such as `qa-1 sees green`; none: nobody."""
    forced = [f"{user_id} sees {variant}" for user_id, variant in sorted(experiment.forced_variants.items())]
    more = len(forced) - _SHOWN_TESTERS
    return ", ".join(forced[:_SHOWN_TESTERS]) + (f" and {more:,} more" if more > 0 else "") or "nobody"


def flag_in_words(experiment: Experiment) -> str:
    """Such as `checkout: control off · green on`."""
    if not experiment.flag:
        return "none"
    served = (f"{key} {served_in_words(experiment, key)}" for key in experiment.variant_keys)
    return f"{experiment.flag['key']}: {' · '.join(served)}"


def served_in_words(experiment: Experiment, variant: str) -> str:
    """What the flag serves for a variant: the key of one of its own, or on or off; nothing where there is no flag."""
    served = experiment.flag["serves"].get(variant) if experiment.flag else None
    return "" if served is None else switched(served)


def switched(served: str | bool) -> str:
    """What a flag serves: the key of one of its variants, or on or off."""
    if isinstance(served, bool):
        return "on" if served else "off"
    return served


def decision_in_words(experiment: Experiment) -> str:
    """Such as `green wins, with 5 % held back, against the verdict: We like it.`"""
    decision = experiment.decision or {}
    if not experiment.winner:
        return "no winner"
    held_back = f", with {experiment.holdback:g} % held back" if experiment.holdback else ""
    reason = f": {decision['reason']}" if decision.get("reason") else ""
    against = ", although something spoke against it" if decision.get("overridden") else ""
    return f"{experiment.winner} wins{held_back}{against}{reason}"


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


_place = re.compile(r"\[\d+\]$")
_DIRECTIONS = {"increase": "more is better", "decrease": "less is better"}


def experiment_in_words(path: str, value: Any) -> str | None:
    """Say what an experiment is made of in words; None for what reads well as JSON."""
    say = _ONE.get(_place.sub("", path)) if _place.search(path) else _ALL.get(path)
    return say(value) if say else None


def _each(say: Callable[[Any], str], between: str) -> Callable[[Any], str]:
    return lambda values: between.join(map(say, values)) or "none"


def _variant(variant: Document) -> str:
    return f"{variant['key']} with the weight {variant['weight']:g}"


def _definition(definition: Document) -> str:
    told = f"{definition['key']}: {definition_in_words(Definition.parse(definition))}"
    return f"{told}, post hoc" if definition.get("isPostHoc") else told


def _phase(phase: Document) -> str:
    conditions = "".join(f", {summarise_condition(each)}" for each in phase["conditions"])
    share = "everybody" if phase["percentage"] == WHOLE else f"{phase['percentage']:g} % of the audience"
    return f"{shares_in_words(phase['variants'])}, {share}{conditions}"


def _group(group: Document) -> str:
    return f"{group['from']:g} to {group['to']:g} % of {group['key']}"


def _flag(flag: Document) -> str:
    served = (f"{key} {switched(each)}" for key, each in flag["serves"].items())
    return f"{flag['key']}: {' · '.join(served)}"


def _testers(forced: Mapping[str, str]) -> str:
    return ", ".join(f"{user_id} sees {variant}" for user_id, variant in forced.items())


def _registration(registered: Document) -> str:
    primary, planned = registered["primaryMetric"], registered["plannedSampleSize"]
    told = f"{primary} decides, {_DIRECTIONS[registered['direction']]}" if primary else "nothing decides"
    return f"{told}, {planned:,} users planned" if planned else told


def _decision(decision: Document) -> str:
    if "winner" not in decision:
        return "no winner"
    held_back = f", with {decision['holdback']:g} % held back" if decision.get("holdback") else ""
    against = "; against it: " + ", ".join(decision["overridden"]).replace("_", " ") if decision["overridden"] else ""
    return f"{decision['winner']} wins{held_back}{against}"


_ONE: Mapping[str, Callable[[Any], str]] = {
    "variants": _variant,
    "conditions": summarise_condition,
    "definitions": _definition,
    "phases": _phase,
}
"""How one of several reads, by the name of the list."""
_ALL: Mapping[str, Callable[[Any], str]] = {
    "variants": shares_in_words,
    "conditions": _each(summarise_condition, " and "),
    "definitions": _each(_definition, "; "),
    "phases": _each(_phase, "; "),
    "group": _group,
    "flag": _flag,
    "forcedVariants": _testers,
    "registration": _registration,
    "decision": _decision,
}
"""How a whole property reads."""
