"""Rules in words, short enough for a list. Pure: it reads stored rules and decides nothing.

How the values of flags and segments read in their histories, where JSON would say less. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_SHOWN_RULES = 3
_SHOWN_VALUES = 3

# For each operator, how it reads, and how it reads negated.
_WORDS = {
    "equals": ("equals", "does not equal"),
    "notEquals": ("does not equal", "equals"),
    "in": ("is one of", "is none of"),
    "notIn": ("is none of", "is one of"),
    "contains": ("contains", "does not contain"),
    "notContains": ("does not contain", "contains"),
    "startsWith": ("starts with", "does not start with"),
    "endsWith": ("ends with", "does not end with"),
    "matches": ("matches", "does not match"),
    "greaterThan": ("is over", "is not over"),
    "greaterThanOrEqual": ("is at least", "is not at least"),
    "lessThan": ("is under", "is not under"),
    "lessThanOrEqual": ("is at most", "is not at most"),
    "before": ("is before", "is not before"),
    "after": ("is after", "is not after"),
    "semverEquals": ("is version", "is not version"),
    "semverGreaterThan": ("is after version", "is not after version"),
    "semverGreaterThanOrEqual": ("is at least version", "is not at least version"),
    "semverLessThan": ("is before version", "is not before version"),
    "semverLessThanOrEqual": ("is at most version", "is not at most version"),
    "exists": ("is known", "is not known"),
    "notExists": ("is not known", "is known"),
    "inCidr": ("is in network", "is not in network"),
    "inSegment": ("is in segment", "is not in segment"),
}


def summarise(rules: Sequence[Mapping[str, Any]]) -> str:
    """Say whom the rules take in: `25 % of everyone; plan equals pro`."""
    if not rules:
        return "everyone"
    in_force = [rule for rule in rules if rule.get("enabled", True)]
    if not in_force:
        return "nobody: every rule is off"
    shown = "; ".join(_rule(rule) for rule in in_force[:_SHOWN_RULES])
    more = len(in_force) - _SHOWN_RULES
    return f"{shown}; and {more} more" if more > 0 else shown


def summarise_condition(condition: Mapping[str, Any]) -> str:
    """Say what a condition asks: `plan equals pro`."""
    words = _WORDS.get(condition["operator"], (condition["operator"], f"not {condition['operator']}"))
    text = f"{condition.get('attribute', 'userId')} {words[bool(condition.get('negate'))]}"
    if "value" not in condition:
        return text
    value = condition["value"]
    return f"{text} {_listed(value) if isinstance(value, list) else _value(value)}"


def _rule(rule: Mapping[str, Any]) -> str:
    if rule.get("type") == "experiment":
        return _experiment(rule)
    audience = _audience(rule)
    conditions = " and ".join(map(summarise_condition, rule.get("conditions", ())))
    if conditions:
        who = conditions if audience is None else f"{audience} whose {conditions}"
    else:
        who = audience or "everyone"
    of = f"those whose {conditions}" if audience is None and conditions else who
    share = _share(rule)
    return f"{share} of {of}{_served(rule)}" if share else f"{who}{_served(rule)}"


def _experiment(rule: Mapping[str, Any]) -> str:
    switched = {True: "on", False: "off"}
    served = [(each, switched.get(each["serves"], each["serves"])) for each in rule["variants"]]
    shown = " / ".join(f"{each['key']} {each['weight']:g} → {what}" for each, what in served[:_SHOWN_VALUES])
    more = len(served) - _SHOWN_VALUES
    return f"experiment {rule['experiment']}: {shown}" + (f" and {more} more" if more > 0 else "")


def _share(rule: Mapping[str, Any]) -> str:
    if ramp := rule.get("ramp"):
        first, last = rule.get("percentage", ramp[0]["percentage"]), ramp[-1]["percentage"]
        return f"{first:g} % to {last:g} %"
    percentage = rule.get("percentage", 100)
    return "" if percentage == 100 else f"{percentage:g} %"


def _served(rule: Mapping[str, Any]) -> str:
    if "split" in rule:
        return f" → {' / '.join(part['variant'] for part in rule['split'])}"
    return f" → {rule['variant']}" if "variant" in rule else ""


def _audience(rule: Mapping[str, Any]) -> str | None:
    """Who is meant before conditions narrow it; None stands for nobody in particular."""
    if "userIds" in rule:
        users = rule["userIds"]
        return _listed(users) if len(users) <= _SHOWN_VALUES else f"{len(users):,} users"
    if "segment" in rule:
        return f"segment {rule['segment']}"
    return None if rule.get("type") == "attribute" else "everyone"


def _listed(values: Sequence[object]) -> str:
    more = len(values) - _SHOWN_VALUES
    return ", ".join(_strings(values[:_SHOWN_VALUES])) + (f" and {more:,} more" if more > 0 else "")


def _strings(values: Iterable[object]) -> Iterable[str]:
    return (_value(value) for value in values)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)[:60]


# Values of variants may be of any shape, so a path is looked at from its beginning.
_state = r"(states\..+\.)?"
_switch = re.compile(rf"{_state}(rules\[\d+\]\.)?enabled")
_rules = re.compile(rf"{_state}rules")
_rule_in_history = re.compile(rf"{_state}rules\[\d+\]")
_conditions = re.compile(rf"({_state}rules\[\d+\]\.)?conditions")
_condition = re.compile(rf"({_state}rules\[\d+\]\.)?conditions\[\d+\]")


def rules_in_words(path: str, value: Any) -> str | None:
    """Say a switch, rules or conditions in words; None for what reads well as JSON."""
    if _switch.fullmatch(path):
        return "on" if value else "off"
    if _rules.fullmatch(path):
        return summarise(value)
    if _rule_in_history.fullmatch(path):
        return summarise([value])
    if _conditions.fullmatch(path):
        return " and ".join(map(summarise_condition, value)) or "none"
    return summarise_condition(value) if _condition.fullmatch(path) else None
