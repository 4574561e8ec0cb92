"""Rules, conditions and values of flags in words, for lists and histories."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from config.change_log.named_users import compares_users, fill, join, name_user
from config.change_log.sentences import USER_IDS, distinct, listed, no_user
from flags.engine.conditions import USER_ID
from flags.engine.operands import Operand
from flags.engine.operators import OPERATORS
from flags.engine.timestamps import parse_timestamp
from flags.explanations.schedule_words import (
    Rule,
    Wording,
    describe_distance,
    describe_ended,
    describe_ramp,
    describe_schedule,
    describe_start,
    describe_time,
    ended_at,
    matches_nobody,
)
from flags.validation.conditions import OPERANDS

_MAX_RULES = 3
_MAX_VALUES = 3
_MAX_CONDITIONS = 3
_MAX_VALUE_LENGTH = 60
_ALL = 100

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

_ANY_VALUE = (Operand.SCALAR, Operand.LIST)
"""Kinds of values that may be a text, a number, true or false."""

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
    """Return the operators in named groups, for a form.

    Each has its name, its words, the input for its value, and whether `ignoreCase` can change its result.
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


def summarise_rules(rules: Sequence[Rule], now: datetime) -> str:
    """Return the users whom rules match now, and when others follow: `25 % of everyone; plan equals pro`.

    Rules that are off, over or at 0 % for good are left out.
    """
    return _summarise(rules, Wording(now))


def describe_audience(rules: Sequence[Rule], now: datetime, *, is_on: bool) -> str:
    """Return the users whom rules match. If the flag is off, they follow `if on:`, or are "" for everyone."""
    users = summarise_rules(rules, now)
    if is_on:
        return users
    return "" if users == "everyone" else fill("if on: {}", users)


def describe_state(state: Mapping[str, Any], now: datetime) -> str:
    """Return for whom a flag is on: `on for everyone from 26 Nov 2026, 09:00 UTC`.

    `state` has `enabled` and `rules` and, if the flag has them, `prerequisites` and `archivedAt`.
    """
    if state.get("archivedAt"):
        return "off: archived"
    if not state["enabled"]:
        return "off"
    wanted = " and ".join(prerequisite["flag"] for prerequisite in state.get("prerequisites", ()))
    requires = f", requires {wanted}" if wanted else ""
    return fill("on for {}{}", _summarise(state["rules"], Wording(now, is_sentence=True)), requires)


def describe_rule(rule: Rule, now: datetime) -> str:
    """Return a rule in words, even if it is off: `25 % of everyone → new`."""
    text = _rule(rule, Wording(now))
    return text if rule.get("enabled", True) else fill("{}; it is off", text)


def describe_condition(condition: Mapping[str, Any]) -> str:
    """Return a condition in words: `plan equals pro`.

    Conditions that different users meet have different words, unless values are shortened.
    """
    return fill("{}{}", _comparison(condition), " (ignoring case)" if _ignores_case(condition) else "")


def _comparison(condition: Mapping[str, Any]) -> str:
    words = _WORDS.get(condition["operator"], (condition["operator"], f"not {condition['operator']}"))
    text = f"{condition.get('attribute', 'userId')} {words[bool(condition.get('negate'))]}"
    if "value" not in condition:
        return text
    value = condition["value"]
    operator = OPERATORS.get(condition["operator"])
    if operator and operator.operand is Operand.TIME:
        return f"{text} {_time(value)}"
    if compares_users(condition):
        describe = _user
    else:
        describe = _value if operator is None or operator.operand in _ANY_VALUE else _text
    return fill("{} {}", text, _join(value, describe) if isinstance(value, list) else describe(value))


def _ignores_case(condition: Mapping[str, Any]) -> bool:
    operator = OPERATORS.get(condition["operator"])
    has_case = operator is None or OPERANDS[operator.operand].has_case
    return has_case and bool(condition.get("ignoreCase"))


def describe_conditions(conditions: Iterable[Mapping[str, Any]]) -> str:
    """Return conditions that must all be met: `plan equals pro and country is one of CH, DE`."""
    return join(" and ", map(describe_condition, conditions))


def describe_members(conditions: Sequence[Mapping[str, Any]], number: int) -> str:
    """Return the users of a segment, with the number of listed users: `plan equals pro; 1,204 listed users`."""
    words = describe_conditions(conditions[:_MAX_CONDITIONS])
    more = len(conditions) - _MAX_CONDITIONS
    groups = [fill("{}{}", words, f" and {more} more" if more > 0 else "")] if words else []
    if number:
        groups.append(f"{number:,} listed user{'' if number == 1 else 's'}")
    return join("; ", groups) or "no users yet"


def _summarise(rules: Sequence[Rule], wording: Wording) -> str:
    if not rules:
        return "everyone"
    switched_on = [rule for rule in rules if rule.get("enabled", True)]
    if not switched_on:
        return "no one: all rules are off"
    current = [rule for rule in switched_on if not matches_nobody(rule, wording.now)]
    if not current:
        is_over = all(ended_at(rule, wording.now) for rule in switched_on)
        return f"no one: {_describe_ends(rules, wording.now)}" if is_over else "no one"
    shown = [_rule(rule, wording) for rule in current[:_MAX_RULES]]
    if (more := len(current) - _MAX_RULES) > 0:
        shown.append(f"and {more} more")
    elif _leaves_others_on(rules):
        shown.append("everyone else")
    return join("; ", shown)


def _leaves_others_on(rules: Sequence[Rule]) -> bool:
    """Return whether experiments have all the rules but not all the users. Other users then get the flag as it is."""
    if any(rule.get("type") != "experiment" for rule in rules):
        return False
    return all("group" in rule or rule.get("conditions") or rule.get("percentage", _ALL) < _ALL for rule in rules)


def _describe_ends(rules: Sequence[Rule], now: datetime) -> str:
    ends = [end for rule in rules if rule.get("enabled", True) and (end := ended_at(rule, now))]
    last = describe_ended(max(ends), now)
    if len(rules) == 1:
        return f"the rule {last}"
    return f"the last rule {last}" if len(ends) == len(rules) else f"the last rule that is not off {last}"


def _rule(rule: Rule, wording: Wording) -> str:
    if rule.get("type") == "experiment":
        return f"users of {_experiment_rule(rule)}" if wording.is_sentence else _experiment_rule(rule)
    conditions = join(
        " and ", [*map(describe_condition, rule.get("conditions", ())), *map(_range, rule.get("ranges", ()))]
    )
    audience = _audience(rule) or ("" if conditions else "everyone")
    users = join(" whose ", filter(None, (audience or "users", conditions)))
    short = users if audience or wording.is_sentence else conditions
    if (unit := rule.get("bucketBy", USER_ID)) != USER_ID:
        # Users without the attribute never match, even at 100 %.
        short, users = fill("{} with {}", short, unit), fill("{} by {}", users, unit)
    return fill("{}{}", describe_schedule(rule, short, users, wording, is_long=bool(conditions)), _served(rule))


def _range(part: Mapping[str, Any]) -> str:
    return f"bucket is in {part['from']:g} to {part['to']:g} % of {part['salt']}"


def _experiment_rule(rule: Rule) -> str:
    switched = {True: "on", False: "off"}
    variants = rule["variants"]
    shown = " / ".join(
        f"{variant['key']} {variant['weight']:g} → {switched.get(variant['serves'], variant['serves'])}"
        for variant in variants[:_MAX_VALUES]
    )
    more = len(variants) - _MAX_VALUES
    return f"experiment {rule['experiment']}: {shown}" + (f" and {more} more" if more > 0 else "")


def _served(rule: Rule) -> str:
    if not rule.get("serves", True):
        return " → off"
    if "split" in rule:
        return f" → {' / '.join(part['variant'] for part in rule['split'] if part['weight'])}"
    return f" → {rule['variant']}" if "variant" in rule else ""


def _audience(rule: Rule) -> str | None:
    """Return the users before conditions narrow them, or None for a rule with conditions only."""
    if USER_IDS in rule:
        users = rule[USER_IDS]
        return _join(users, _user) if len(users) <= _MAX_VALUES else f"{len(users):,} users"
    if "segment" in rule:
        return f"segment {rule['segment']}"
    return None if rule.get("type") == "attribute" else "everyone"


def _join(values: Sequence[object], describe: Callable[[object], str]) -> str:
    more = len(values) - _MAX_VALUES
    shown = join(", ", (listed(describe(value)) for value in values[:_MAX_VALUES]))
    return fill("{}{}", shown, f" and {more:,} more" if more > 0 else "")


def _user(value: object) -> str:
    if not isinstance(value, str):
        return no_user(value, _value(value))
    return distinct(name_user(value, _shortened(value)), value, is_always_text=True)


def _value(value: object) -> str:
    """Return a value that may be a text, a number, true or false."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return distinct(_shortened(value), value) if isinstance(value, str) else _shortened(str(value))


def _text(value: object) -> str:
    """Return a value of an operator that compares only texts, or only numbers."""
    return distinct(_shortened(value), value, is_always_text=True) if isinstance(value, str) else _value(value)


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[: _MAX_VALUE_LENGTH - 1]}…"


def _time(value: object) -> str:
    if words := describe_distance(str(value)):
        return words
    try:
        return describe_start(parse_timestamp(str(value)))
    except ValueError:
        return _text(value)


# The value of a variant may contain a property of any name, so paths are matched from their start.
_state = r"(?:states\..+\.)?"
_rule_path = rf"{_state}rules\[\d+\]"
_condition_path = rf"(?:{_rule_path}\.)?conditions\[\d+\]"

CLIENT_VISIBLE = "clientVisible"


def _describe_rules(rules: Sequence[Rule], now: datetime) -> str:
    return _summarise(rules, Wording(now, is_record=True))


def _describe_rule(rule: Rule, now: datetime) -> str:
    text = _rule(rule, Wording(now, is_record=True))
    return text if rule.get("enabled", True) else fill("{}; it is off", text)


_DESCRIBERS: Sequence[tuple[re.Pattern[str], Callable[[Any, datetime], str | None]]] = [
    (re.compile(pattern), describe)
    for pattern, describe in (
        (CLIENT_VISIBLE, lambda value, _: "yes" if value else "no"),
        (rf"{_state}enabled|{_rule_path}\.enabled", lambda value, _: "on" if value else "off"),
        (rf"{_state}rules", _describe_rules),
        (_rule_path, _describe_rule),
        (rf"{_rule_path}\.(startAt|endAt)|{_rule_path}\.ramp\[\d+\]\.at", lambda value, _: _timestamp(value)),
        (rf"{_rule_path}\.percentage|{_rule_path}\.ramp\[\d+\]\.percentage", lambda value, _: f"{value:g} %"),
        (rf"{_rule_path}\.group", lambda group, _: f"{group['from']:g} to {group['to']:g} % of {group['key']}"),
        (rf"{_rule_path}\.ramp", lambda steps, _: describe_ramp(steps)),
        (rf"{_rule_path}\.ramp\[\d+\]", lambda step, _: describe_ramp([step])),
        (rf"(?:{_rule_path}\.)?conditions", lambda parts, _: describe_conditions(parts) or "none"),
        (_condition_path, lambda condition, _: describe_condition(condition)),
        (rf"{_condition_path}\.operator", lambda name, _: _WORDS[name][0] if name in _WORDS else None),
    )
]


def describe_flag_value(path: str, value: Any, now: datetime) -> str | None:
    """Describe a value of a flag or a segment as of a time, or return None for values that read as well in JSON.

    `path` is a path in the JSON of a flag or a segment, such as `states.production.rules[0]`.
    """
    describe = next((describe for pattern, describe in _DESCRIBERS if pattern.fullmatch(path)), None)
    return describe(value, now) if describe else None


def _timestamp(text: str) -> str:
    return describe_time(parse_timestamp(text))
