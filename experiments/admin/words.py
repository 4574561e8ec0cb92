"""Experiments and metrics in words, as the admin shows them. Pure: no page, no database."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from config.change_log.named_users import fill, join, name_user
from config.documents import Document
from experiments.metrics.definition import Definition, Quantity
from experiments.models import WHOLE, Experiment
from experiments.models.plan import registered_plan
from experiments.stats.numbers import format_count, format_number
from flags.explanations.rule_words import describe_condition, describe_conditions

_DAY = timedelta(days=1)
_HOUR = timedelta(hours=1)
_MAX_USERS = 5
_MAX_CONDITIONS = 3


# metrics


def describe_definition(definition: Definition, cap: float | None = None) -> str:
    """Say what a metric computes, without a full stop. `cap` is the present value of a percentile cap."""
    return _describe_value(definition) + _describe_window(definition) + _describe_cap(definition, cap)


def describe_unit(definition: Definition) -> str:
    """Return the unit of the metric for the head of a column: `Share of users`, `EUR per user`."""
    match definition.type:
        case "conversion" | "retention" | "funnel":
            return "Share of users"
        case "mean":
            return "Mean per user"
        case "quantile":
            return _describe_quantile(definition)
        case "ratio":
            return "Ratio"
        case "revenue":
            return f"{definition.quantity.currency} per user"
    return "Per user"


def describe_margin(definition: Definition) -> str:
    """Return `at most 10 % worse` for a guardrail; empty for a goal."""
    if not definition.is_guardrail:
        return ""
    if definition.relative_margin is not None:
        return f"at most {100 * definition.relative_margin:.4g} % worse"
    margin = definition.margin_absolute or 0.0
    return f"at most {f'{100 * margin:.4g} points' if definition.is_share else format_number(margin)} worse"


def _describe_value(definition: Definition) -> str:
    quantity = definition.quantity
    match definition.type:
        case "conversion" | "retention":
            return f"Share of users with {_describe_events(quantity)}"
        case "funnel":
            return f"Share of users with {', then '.join(map(_describe_events, definition.steps))}"
        case "mean":
            return f"Mean {quantity.property} of {_describe_events(quantity)} per user"
        case "distinct":
            if not quantity.property:
                return f"Number of days with {_describe_events(quantity)} per user"
            return f"Number of different values of {quantity.property} of {_describe_events(quantity)} per user"
        case "quantile":
            measured = quantity.property + (f" in {quantity.currency}" if quantity.currency else "")
            return f"{_describe_quantile(definition)} of {measured} of {_describe_events(quantity)}"
        case "ratio":
            assert definition.denominator is not None  # noqa: S101 (that is what a ratio is)
            denominator = _describe_sum(definition.denominator)
            return f"{_describe_sum(quantity)} divided by {denominator[0].lower()}{denominator[1:]}"
    return f"{_describe_sum(quantity)} per user"


def _describe_sum(quantity: Quantity) -> str:
    """Say what is added up, for one user or for all."""
    if not quantity.property:
        return f"Number of {quantity.event} events{_describe_where(quantity)}"
    if quantity.currency:
        return f"Revenue in {quantity.currency} of {_describe_events(quantity)}"
    return f"Sum of {quantity.property} of {_describe_events(quantity)}"


def _describe_events(quantity: Quantity) -> str:
    """Return `purchase where country equals CH`."""
    return quantity.event + _describe_where(quantity)


def _describe_where(quantity: Quantity) -> str:
    conditions = [
        describe_condition({**condition.as_json(), "attribute": condition.property})
        for condition in quantity.where[:_MAX_CONDITIONS]
    ]
    more = len(quantity.where) - len(conditions)
    listed = [*conditions, *([f"{more} more"] if more else [])]
    return f" where {' and '.join(listed)}" if listed else ""


def _describe_quantile(definition: Definition) -> str:
    percentile = round(100 * (definition.quantile or 0), 10)
    return "Median" if percentile == 50 else f"{_ordinal(percentile)} percentile"


def _describe_window(definition: Definition) -> str:
    """Say when, after the exposure, events count."""
    delay, window = definition.delay, definition.window
    if definition.type == "retention" and window is not None:
        return f" from day {delay // _DAY} to day {(delay + window) // _DAY} after exposure"
    if window is None:
        return f", starting {describe_span(delay)} after exposure" if delay else " after exposure"
    if delay:
        return f" from {describe_span(delay)} to {describe_span(delay + window)} after exposure"
    return f" within {describe_span(window)} of exposure"


def _describe_cap(definition: Definition, cap: float | None) -> str:
    if definition.cap_value is not None:
        return f", capped at {format_number(definition.cap_value)}"
    if definition.cap_percentile is None:
        return ""
    percentile = f", capped at the {_ordinal(definition.cap_percentile)} percentile"
    return percentile if cap is None else f"{percentile} ({format_number(cap)})"


def describe_moment(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%-d %b %Y, %H:%M UTC}"


def describe_span(length: timedelta) -> str:
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
    """Return `blue 25 % · green 75 %`."""
    weights = [(variant["key"], variant["weight"]) for variant in variants]
    total = sum(weight for _, weight in weights)
    return " · ".join(f"{key} {100 * weight / total:.3g} %" for key, weight in weights)


def describe_audience(experiment: Experiment) -> str:
    """Return `50 % of users whose plan equals pro, within 0 to 50 % of the group checkout`."""
    is_whole = experiment.percentage == WHOLE
    share = "" if is_whole else f"{experiment.percentage:g} % of "
    if experiment.conditions:
        audience = fill("{}users whose {}", share, describe_conditions(experiment.conditions))
    else:
        audience = "everyone" if is_whole else f"{share}users"
    if not experiment.group:
        return audience
    group = experiment.group
    return fill("{}, within {}", audience, f"{group['from']:g} to {group['to']:g} % of the group {group['key']}")


def describe_forced_variants(experiment: Experiment) -> str:
    """Return the first few users with their variants: `qa-1 sees green`."""
    forced = sorted(experiment.forced_variants.items())
    more = len(forced) - _MAX_USERS
    shown = _forced_variants(dict(forced[:_MAX_USERS])) or "none"
    return fill("{} and {} more", shown, f"{more:,}") if more > 0 else shown


def describe_flag(experiment: Experiment) -> str:
    """Return what the flag serves for each variant: `checkout: control off · green on`."""
    if not experiment.flag:
        return "none"
    served = (f"{key} {describe_served(experiment, key)}" for key in experiment.variant_keys)
    return f"{experiment.flag['key']}: {' · '.join(served)}{describe_position(experiment)}"


def describe_position(experiment: Experiment) -> str:
    """Return `, after its first 2 rules`; empty for the first position."""
    position = (experiment.flag or {}).get("position", 0)
    return f", after {'its first rule' if position == 1 else f'its first {position} rules'}" if position else ""


def describe_served(experiment: Experiment, variant: str) -> str:
    """Return what the flag serves for a variant: a key, on or off; empty without a flag."""
    served = experiment.flag["serves"].get(variant) if experiment.flag else None
    return "" if served is None else _key_or_switch(served)


_SHIPPED_TO = {"audience": " for the audience", "everyone": " for everyone"}


def describe_decision(experiment: Experiment) -> str:
    """Return `green wins, with a holdback of 5 %, despite objections: We like it.`"""
    decision = experiment.decision or {}
    if not experiment.winner:
        return "no winner"
    objections = ", despite objections" if decision.get("overridden") else ""
    reason = f": {decision['reason']}" if decision.get("reason") else ""
    return f"{experiment.winner} wins{describe_users(decision)}{objections}{reason}"


def describe_users(decision: Document) -> str:
    """Return to whom the winner was shipped: ` for the audience, with a holdback of 5 %`."""
    holdback = f", with a holdback of {decision['holdback']:g} %" if decision.get("holdback") else ""
    return f"{_SHIPPED_TO.get(decision.get('shipTo', ''), '')}{holdback}"


def _key_or_switch(served: str | bool) -> str:
    if isinstance(served, bool):
        return "on" if served else "off"
    return served


# plans

_DIRECTIONS = {"increase": "more is better", "decrease": "less is better"}


def describe_plan(experiment: Experiment) -> str:
    """Return `20,000 users planned, effects from 5 %, sequential, at least 7 days, look-back 28 days, ...`."""
    return describe_plan_document(registered_plan(vars(experiment)))


def describe_plan_document(plan: Document) -> str:
    """Describe a registered plan."""
    planned, effect, days = plan["plannedSampleSize"], plan["minimumEffect"], plan["lookbackDays"]
    parts = [
        f"{planned:,} users planned" if planned else "",
        f"effects from {100 * effect:.4g} %" if effect else "",
        plan["analysis"],
        f"at least {_days(plan['minimumDays'])}" if plan["minimumDays"] else "",
        f"look-back {_days(days)}" if days else "no look-back",
        f"tuned for {plan['tuningSampleSize']:,} users",
    ]
    return ", ".join(filter(None, parts))


def describe_registration(registration: Document) -> str:
    """Return the primary metric and the plan that were registered at the start."""
    primary, plan = registration["primaryMetric"], describe_plan_document(registration)
    direction = _DIRECTIONS[registration["direction"]] if primary else ""
    text = f"primary metric {primary}, {direction}" if primary else "no primary metric"
    return f"{text}, {plan}" if plan else text


def _days(number: int) -> str:
    return f"{number:,} day" + ("" if number == 1 else "s")


# the history of an experiment

_index = re.compile(r"\[\d+\]$")


def describe_experiment_value(path: str, value: Any, _now: datetime) -> str | None:
    """Describe a property, or one element of a list; None if its JSON reads as well.

    `path` is a path in the experiment's JSON, such as `variants` or `variants[0]`.
    """
    describe = _ELEMENTS.get(_index.sub("", path)) if _index.search(path) else _PROPERTIES.get(path)
    return describe(value) if describe else None


def _join(describe: Callable[[Any], str], separator: str) -> Callable[[Any], str]:
    return lambda values: join(separator, map(describe, values)) or "none"


def _variant(variant: Document) -> str:
    return f"{variant['key']} with weight {variant['weight']:g}"


def _definition(as_json: Document) -> str:
    text = f"{as_json['key']}: {describe_definition(Definition.parse(as_json))}"
    return f"{text}, post hoc" if as_json.get("isPostHoc") else text


def _phase(phase: Document) -> str:
    share = "everyone" if phase["percentage"] == WHOLE else f"{phase['percentage']:g} % of the audience"
    return join(", ", [describe_split(phase["variants"]), share, *map(describe_condition, phase["conditions"])])


def _group(group: Document) -> str:
    return f"{group['from']:g} to {group['to']:g} % of {group['key']}"


def _flag(flag: Document) -> str:
    served = (f"{key} {_key_or_switch(value)}" for key, value in flag["serves"].items())
    position = f", at position {flag['position']}" if flag.get("position") else ""
    return f"{flag['key']}: {' · '.join(served)}{position}"


def _forced_variants(forced: Mapping[str, str]) -> str:
    return join(", ", (fill("{} sees {}", name_user(user_id), variant) for user_id, variant in forced.items()))


def _decision(decision: Document) -> str:
    if "winner" not in decision:
        return "no winner"
    overridden = ", ".join(decision["overridden"]).replace("_", " ")
    users = describe_users(decision)
    return f"{decision['winner']} wins{users}" + (f", despite objections: {overridden}" if overridden else "")


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
    "registration": describe_registration,
    "minimumEffect": lambda effect: f"{100 * effect:.4g} %",
    "analysis": str,
    "decision": _decision,
}
