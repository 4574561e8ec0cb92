"""What an experiment is made of, in words, for the pages that show it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from experiments.models import Experiment
from experiments.phases import WHOLE
from flags.summary import summarise_condition

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
