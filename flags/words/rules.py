"""Rules, conditions and the values of flags in words, for lists and histories.

Pure: no page, no database.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flags.engine.operands import Operand
from flags.engine.operators import OPERATORS
from flags.validation.operands import OPERANDS

_MOST_RULES = 3
_MOST_VALUES = 3

# How each operator reads, and how it reads when it is negated.
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

_GROUPS = {
    "Any value": (Operand.SCALAR, Operand.LIST, Operand.NOTHING),
    "Text": (Operand.TEXT, Operand.PATTERN),
    "Number": (Operand.NUMBER,),
    "Time": (Operand.TIME,),
    "Version": (Operand.VERSION,),
    "Network and segment": (Operand.NETWORKS, Operand.SEGMENT),
}

OperatorChoice = tuple[str, str, str, bool]


def operator_choices() -> list[tuple[str, list[OperatorChoice]]]:
    """Return the operators as a form offers them, in named groups.

    Each has its name, its words, the kind of input for its value, and whether `ignoreCase` can change its result.
    """
    return [
        (
            group,
            [
                (name, _WORDS[name][0], OPERANDS[operator.operand].control, OPERANDS[operator.operand].has_case)
                for name, operator in OPERATORS.items()
                if operator.operand in kinds
            ],
        )
        for group, kinds in _GROUPS.items()
    ]


def summarise_rules(rules: Sequence[Mapping[str, Any]]) -> str:
    """Return the users that the rules match: `25 % of everyone; plan equals pro`."""
    if not rules:
        return "everyone"
    in_force = [rule for rule in rules if rule.get("enabled", True)]
    if not in_force:
        return "no one: all rules are off"
    shown = "; ".join(_rule(rule) for rule in in_force[:_MOST_RULES])
    more = len(in_force) - _MOST_RULES
    return f"{shown}; and {more} more" if more > 0 else shown


def describe_rule(rule: Mapping[str, Any]) -> str:
    """Return a rule in words, also one that is off: `25 % of everyone → new`."""
    return _rule(rule) if rule.get("enabled", True) else f"{_rule(rule)}; it is off"


def describe_condition(condition: Mapping[str, Any]) -> str:
    """Return a condition in words: `plan equals pro`."""
    words = _WORDS.get(condition["operator"], (condition["operator"], f"not {condition['operator']}"))
    text = f"{condition.get('attribute', 'userId')} {words[bool(condition.get('negate'))]}"
    if "value" not in condition:
        return text
    value = condition["value"]
    return f"{text} {_join(value) if isinstance(value, list) else _value(value)}"


def _rule(rule: Mapping[str, Any]) -> str:
    if rule.get("type") == "experiment":
        return _experiment_rule(rule)
    audience, share = _audience(rule), _share(rule)
    conditions = " and ".join(
        [*map(describe_condition, rule.get("conditions", ())), *map(_range, rule.get("ranges", ()))]
    )
    if not conditions:
        users = audience or "everyone"
    elif audience is None:
        users = f"users whose {conditions}" if share else conditions
    else:
        users = f"{audience} whose {conditions}"
    return f"{share} of {users}{_served(rule)}" if share else f"{users}{_served(rule)}"


def _range(part: Mapping[str, Any]) -> str:
    return f"bucket is in {part['from']:g} to {part['to']:g} % of {part['salt']}"


def _experiment_rule(rule: Mapping[str, Any]) -> str:
    switched = {True: "on", False: "off"}
    variants = rule["variants"]
    shown = " / ".join(
        f"{variant['key']} {variant['weight']:g} → {switched.get(variant['serves'], variant['serves'])}"
        for variant in variants[:_MOST_VALUES]
    )
    more = len(variants) - _MOST_VALUES
    return f"experiment {rule['experiment']}: {shown}" + (f" and {more} more" if more > 0 else "")


def _share(rule: Mapping[str, Any]) -> str:
    if ramp := rule.get("ramp"):
        first, last = rule.get("percentage", ramp[0]["percentage"]), ramp[-1]["percentage"]
        return f"{first:g} % to {last:g} %"
    percentage = rule.get("percentage", 100)
    return "" if percentage == 100 else f"{percentage:g} %"


def _served(rule: Mapping[str, Any]) -> str:
    if not rule.get("serves", True):
        return " → off"
    if "split" in rule:
        return f" → {' / '.join(part['variant'] for part in rule['split'])}"
    return f" → {rule['variant']}" if "variant" in rule else ""


def _audience(rule: Mapping[str, Any]) -> str | None:
    """Return the users before conditions narrow them; None for a rule with conditions only."""
    if "userIds" in rule:
        users = rule["userIds"]
        return _join(users) if len(users) <= _MOST_VALUES else f"{len(users):,} users"
    if "segment" in rule:
        return f"segment {rule['segment']}"
    return None if rule.get("type") == "attribute" else "everyone"


def _join(values: Sequence[object]) -> str:
    more = len(values) - _MOST_VALUES
    return ", ".join(_strings(values[:_MOST_VALUES])) + (f" and {more:,} more" if more > 0 else "")


def _strings(values: Iterable[object]) -> Iterable[str]:
    return (_value(value) for value in values)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)[:60]


# The value of a variant may contain a property of any name, so paths are matched from their start.
_state = r"(states\..+\.)?"
_switch = re.compile(rf"{_state}(rules\[\d+\]\.)?enabled")
_rules = re.compile(rf"{_state}rules")
_rule_in_history = re.compile(rf"{_state}rules\[\d+\]")
_conditions = re.compile(rf"({_state}rules\[\d+\]\.)?conditions")
_condition = re.compile(rf"({_state}rules\[\d+\]\.)?conditions\[\d+\]")
_operator = re.compile(rf"({_state}rules\[\d+\]\.)?conditions\[\d+\]\.operator")


CLIENT_VISIBLE = "clientVisible"


def describe_flag_value(path: str, value: Any) -> str | None:
    """Describe a switch, rules, conditions or an operator; None for values that read as well in JSON.

    `path` is a path in the document of a flag or a segment, such as `states.production.rules[0]`.
    """
    if path == CLIENT_VISIBLE:
        return "yes" if value else "no"
    if _switch.fullmatch(path):
        return "on" if value else "off"
    if _rules.fullmatch(path):
        return summarise_rules(value)
    if _rule_in_history.fullmatch(path):
        return summarise_rules([value])
    if _conditions.fullmatch(path):
        return " and ".join(map(describe_condition, value)) or "none"
    if _operator.fullmatch(path):
        return _WORDS[value][0] if value in _WORDS else None
    return describe_condition(value) if _condition.fullmatch(path) else None
