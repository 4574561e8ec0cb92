"""Reading rules from decoded JSON: the one place that says what a rule is, for what is sent and what is stored alike.

Not here: what an operator takes (`operators`), what a rule decides (`evaluation`), and where rules are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from config.errors import Detail, DetailCode, ValidationFailed
from flags.engine.bucketing import threshold
from flags.engine.operators import OPERATORS
from flags.engine.shapes import Check, check_list, check_name, echo, is_number
from flags.engine.types import Condition, Rule, RuleType

_RULE_TYPES = tuple(str(rule_type) for rule_type in RuleType)
_COMMON_FIELDS = ("type", "percentage", "conditions")
_REQUIRED_FIELD: Mapping[str, str] = {
    RuleType.PERCENTAGE: "percentage",
    RuleType.ATTRIBUTE: "conditions",
    RuleType.USERS: "userIds",
}
_CONDITION_FIELDS = ("attribute", "operator", "value")


def parse_rules(value: object, *, path: str = "rules") -> tuple[Rule, ...]:
    """Return the compiled rules. What parses can be stored as it was sent, and be read again by this function.

    `value` is decoded JSON of any shape; `path` is the caller's name for it. Raises ValidationFailed with a detail for
    every wrong field, such as `rules[2].conditions[1].operator`, and nothing else.
    """
    details = list(_check_rules(value, path))
    if details:
        raise ValidationFailed(details)
    return _compile_rules(value)


def _compile_rules(rules: Any) -> tuple[Rule, ...]:
    return tuple(_compile_rule(rule) for rule in rules)


def _compile_rule(rule: Mapping[str, Any]) -> Rule:
    return Rule(
        type=RuleType(rule["type"]),
        threshold=threshold(rule.get("percentage", 100)),
        conditions=tuple(_compile_condition(condition) for condition in rule.get("conditions", ())),
        user_ids=frozenset(rule["userIds"]) if "userIds" in rule else None,
    )


def _compile_condition(condition: Mapping[str, Any]) -> Condition:
    name, value = condition["operator"], condition.get("value")
    return Condition(condition["attribute"], name, value, OPERATORS[name].compile(value))


def _check_rules(value: object, field: str) -> Iterator[Detail]:
    return check_list(value, field, least=0, most=200, noun="rules", check=_check_rule)


def _check_rule(rule: object, field: str) -> Iterator[Detail]:
    if not isinstance(rule, dict):
        yield Detail(field, DetailCode.INVALID_TYPE, 'Must be an object, as {"type": "percentage", "percentage": 25}.')
        return
    sent = rule.get("type")
    special = _REQUIRED_FIELD.get(sent) if isinstance(sent, str) else None
    # A rule of no known type may have the fields of any, so that one answer names every mistake in them.
    known = [name for name in _RULE_FIELDS if special is None or name in (*_COMMON_FIELDS, special)]
    yield from _check_keys(rule, field, known=known, required=("type", special) if special else ("type",))
    for name, check in _RULE_FIELDS.items():
        if name in rule and name in known:
            yield from check(rule[name], f"{field}.{name}")
    if special == "conditions" and rule.get("conditions") == []:
        yield Detail(f"{field}.conditions", DetailCode.OUT_OF_RANGE, "Must have 1 to 100 conditions.")


def _check_rule_type(value: object, field: str) -> Iterator[Detail]:
    return _check_choice(value, field, noun="rule type", choices=_RULE_TYPES)


def _check_percentage(value: object, field: str) -> Iterator[Detail]:
    if not is_number(value):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be a number from 0 to 100.")
    elif not 0 <= value <= 100:
        yield Detail(field, DetailCode.OUT_OF_RANGE, "Must be a number from 0 to 100.")
    else:
        try:
            threshold(value)
        except ValueError:
            yield Detail(field, DetailCode.INVALID_VALUE, "Must have at most three decimals, such as 12.5 or 0.125.")


def _check_user_ids(value: object, field: str) -> Iterator[Detail]:
    seen: set[str] = set()

    def check_user_id(entry: object, entry_field: str) -> Iterator[Detail]:
        yield from check_name(entry, entry_field)
        if isinstance(entry, str):
            if entry in seen:
                yield Detail(
                    entry_field, DetailCode.DUPLICATE, f'"{echo(entry)}" is in the list already; leave it out.'
                )
            seen.add(entry)

    return check_list(value, field, least=1, most=10_000, noun="user ids", check=check_user_id)


def _check_conditions(value: object, field: str) -> Iterator[Detail]:
    return check_list(value, field, least=0, most=100, noun="conditions", check=_check_condition)


_RULE_FIELDS: Mapping[str, Check] = {
    "type": _check_rule_type,
    "percentage": _check_percentage,
    "conditions": _check_conditions,
    "userIds": _check_user_ids,
}


def _check_condition(condition: object, field: str) -> Iterator[Detail]:
    if not isinstance(condition, dict):
        yield Detail(field, DetailCode.INVALID_TYPE, "Must be an object with attribute, operator and value.")
        return
    yield from _check_keys(condition, field, known=_CONDITION_FIELDS, required=("attribute", "operator"))
    if "attribute" in condition:
        yield from check_name(condition["attribute"], f"{field}.attribute")
    if "operator" in condition:
        yield from _check_choice(condition["operator"], f"{field}.operator", noun="operator", choices=OPERATORS)
        yield from _check_value(condition, f"{field}.value")


def _check_value(condition: Mapping[str, object], field: str) -> Iterator[Detail]:
    name = condition["operator"]
    operator = OPERATORS.get(name) if isinstance(name, str) else None
    if operator is None:
        return
    if operator.check is None:
        if "value" in condition:
            yield Detail(field, DetailCode.UNKNOWN_FIELD, f'The operator "{name}" takes no value; leave it out.')
    elif "value" not in condition:
        yield Detail(field, DetailCode.REQUIRED, f'The operator "{name}" needs a value to compare with.')
    else:
        yield from operator.check(condition["value"], field)


def _check_choice(value: object, field: str, *, noun: str, choices: Collection[str]) -> Iterator[Detail]:
    listed = ", ".join(choices)
    if not isinstance(value, str):
        yield Detail(field, DetailCode.INVALID_TYPE, f"Must be a string, one of: {listed}.")
    elif value not in choices:
        yield Detail(field, DetailCode.INVALID_VALUE, f'Unknown {noun} "{echo(value)}"; use one of: {listed}.')


def _check_keys(
    sent: Mapping[str, object], field: str, *, known: Collection[str], required: Collection[str]
) -> Iterator[Detail]:
    for name in sent:
        if name not in known:
            message = f"There is no such field here; leave it out. Fields are: {', '.join(known)}."
            yield Detail(f"{field}.{echo(name)}", DetailCode.UNKNOWN_FIELD, message)
    for name in required:
        if name not in sent:
            yield Detail(f"{field}.{name}", DetailCode.REQUIRED, "Is missing; add it.")
