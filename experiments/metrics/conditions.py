"""Conditions on the properties of events: their checks, and which events meet them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from config.errors import Detail, DetailCode
from experiments.metrics.definition import Condition, Quantity
from flags.engine.operators import OPERATORS as FLAG_OPERATORS
from flags.engine.operators import Operator
from flags.validation.conditions import OPERANDS, check_scalars
from flags.validation.shapes import check_choice, check_list, check_name, check_object

MAX_CONDITIONS = 10
MAX_VALUES = 100
MAX_TEXT_LENGTH = 1_000
# Only operators that SQLite and PostgreSQL compute alike.
_NAMES = (
    *("equals", "notEquals", "in", "notIn", "contains", "startsWith"),
    *("greaterThan", "greaterThanOrEqual", "lessThan", "lessThanOrEqual", "exists", "notExists"),
)
OPERATORS: Mapping[str, Operator] = {name: FLAG_OPERATORS[name] for name in _NAMES}
"""The operators by name. They take the same values and mean the same as in flags."""

_EXAMPLE = '{"property": "plan", "operator": "equals", "value": "pro"}'
_BOOLEANS = {"true": True, "false": False}
# None of these operators depends on the user or the time.
_NO_CONTEXT: Any = None


def check_where(value: object, field: str) -> Iterator[Detail]:
    """Check a list of at most 10 conditions."""
    return check_list(value, field, min_length=0, max_length=MAX_CONDITIONS, noun="conditions", check=_check_condition)


def meets(properties: Mapping[str, Any], where: Iterable[Condition]) -> bool:
    """Return whether the properties of an event meet all conditions.

    A property that is missing or null meets `notExists` only. A property of another type than the value meets no
    comparison, not even a negative one. Compared with booleans, the texts true and false are booleans.
    """
    return all(_holds(properties.get(condition.property), condition) for condition in where)


def is_of(quantity: Quantity, name: str, properties: Mapping[str, Any]) -> bool:
    """Return whether a quantity counts an event."""
    return name == quantity.event and meets(properties, quantity.where)


def count_steps_passed(steps: Sequence[Quantity], events: Iterable[tuple[str, datetime, Mapping[str, Any]]]) -> int:
    """Return how many steps of a funnel the events of a user pass in order. An event passes at most one step.

    Each event is a name, a time and properties. Events at the same time count in the order of the steps, because
    nothing says which came first.
    """
    met = sorted(
        (happened_at, [number for number, step in enumerate(steps) if is_of(step, name, properties)])
        for name, happened_at, properties in events
    )
    passed = 0
    for _, numbers in met:
        passed += passed in numbers
    return passed


def as_boolean(value: Any) -> Any:
    """Return the boolean that a text names in upper or lower case, as files often write it; else the value."""
    return _BOOLEANS.get(value.lower(), value) if isinstance(value, str) and value.isascii() else value


def _holds(actual: Any, condition: Condition) -> bool:
    operator = OPERATORS[condition.operator]
    value = list(condition.value) if isinstance(condition.value, tuple) else condition.value
    if condition.operator in ("equals", "notEquals", "in", "notIn"):
        value = [*map(as_boolean, value)] if isinstance(value, list) else as_boolean(value)
        if any(isinstance(member, bool) for member in (value if isinstance(value, list) else [value])):
            actual = as_boolean(actual)
    return operator.compile(value, False)(actual, _NO_CONTEXT) is (not operator.is_negative)


def _check_condition(condition: object, field: str) -> Iterator[Detail]:
    yield from check_object(condition, field, checks=_CHECKS, required=("property", "operator"), example=_EXAMPLE)
    if not isinstance(condition, dict):
        return
    name = condition.get("operator")
    if isinstance(name, str) and name in OPERATORS:
        yield from _check_value(condition, name, f"{field}.value")


def _check_value(condition: Mapping[str, object], name: str, field: str) -> Iterator[Detail]:
    check = OPERANDS[OPERATORS[name].operand].check
    if check is None:
        if "value" in condition:
            yield Detail(field, DetailCode.UNKNOWN_FIELD, f'The operator "{name}" takes no value; leave it out.')
        return
    if "value" not in condition:
        yield Detail(field, DetailCode.REQUIRED, f'The operator "{name}" needs a value to compare with.')
        return
    value = condition["value"]
    yield from check_scalars(value, field, MAX_VALUES) if check is check_scalars else check(value, field)
    strings = enumerate(value) if isinstance(value, list) else [(None, value)]
    for index, string in strings:
        if isinstance(string, str) and len(string) > MAX_TEXT_LENGTH:
            path = field if index is None else f"{field}[{index}]"
            yield Detail(path, DetailCode.TOO_LONG, f"Must have at most {MAX_TEXT_LENGTH:,} characters.")


def _check_operator(value: object, field: str) -> Iterator[Detail]:
    return check_choice(value, field, noun="operator", choices=OPERATORS)


def _leave_to_operator(_value: object, _field: str) -> Iterator[Detail]:
    return iter(())


_CHECKS = {"property": check_name, "operator": _check_operator, "value": _leave_to_operator}
