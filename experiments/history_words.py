"""How the values of experiments read in their histories, where JSON would say less. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from config.documents import Document
from experiments.metrics.definition import Definition
from experiments.phases import WHOLE
from experiments.results.pages.words import definition_in_words
from experiments.words import shares_in_words, switched
from flags.summary import summarise_condition

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
