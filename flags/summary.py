"""Rules in words, short enough for a list. Pure: it reads stored rules and decides nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_SHOWN_RULES = 3
_SHOWN_VALUES = 3

_WORDS = {
    "equals": "equals",
    "notEquals": "does not equal",
    "in": "is one of",
    "notIn": "is none of",
    "contains": "contains",
    "startsWith": "starts with",
    "endsWith": "ends with",
    "greaterThan": "is over",
    "greaterThanOrEqual": "is at least",
    "lessThan": "is under",
    "lessThanOrEqual": "is at most",
    "exists": "is known",
    "notExists": "is not known",
}


def summarise(rules: Sequence[Mapping[str, Any]]) -> str:
    """Say whom the rules take in: `25 % of everyone; plan equals pro`."""
    if not rules:
        return "everyone"
    shown = "; ".join(_rule(rule) for rule in rules[:_SHOWN_RULES])
    more = len(rules) - _SHOWN_RULES
    return f"{shown}; and {more} more" if more > 0 else shown


def _rule(rule: Mapping[str, Any]) -> str:
    audience = _audience(rule)
    conditions = " and ".join(_condition(condition) for condition in rule.get("conditions", ()))
    percentage = rule.get("percentage", 100)
    if conditions:
        who = conditions if audience is None else f"{audience} whose {conditions}"
    else:
        who = audience or "everyone"
    if percentage == 100:
        return who
    of = f"those whose {conditions}" if audience is None and conditions else who
    return f"{percentage:g} % of {of}"


def _audience(rule: Mapping[str, Any]) -> str | None:
    """Who is meant before conditions narrow it; None stands for nobody in particular."""
    if "userIds" in rule:
        users = rule["userIds"]
        return _listed(users) if len(users) <= _SHOWN_VALUES else f"{len(users):,} users"
    return None if rule.get("type") == "attribute" else "everyone"


def _condition(condition: Mapping[str, Any]) -> str:
    words = f"{condition['attribute']} {_WORDS.get(condition['operator'], condition['operator'])}"
    if "value" not in condition:
        return words
    value = condition["value"]
    return f"{words} {_listed(value) if isinstance(value, list) else _value(value)}"


def _listed(values: Sequence[object]) -> str:
    more = len(values) - _SHOWN_VALUES
    return ", ".join(_strings(values[:_SHOWN_VALUES])) + (f" and {more:,} more" if more > 0 else "")


def _strings(values: Iterable[object]) -> Iterable[str]:
    return (_value(value) for value in values)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)[:60]
