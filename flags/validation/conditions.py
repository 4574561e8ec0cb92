"""Check conditions on the attributes of a user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from config.errors import Detail, DetailCode
from flags.engine.conditions import USER_ID
from flags.engine.operators import OPERATORS, Operator
from flags.validation.operands import OPERANDS
from flags.validation.shapes import Check, check_boolean, check_choice, check_list, check_name, check_object

MOST_CONDITIONS = 100
_EXAMPLE = '{"attribute": "plan", "operator": "equals", "value": "pro"}'


def check_conditions(value: object, field: str) -> Iterator[Detail]:
    """Accept a list of at most 100 conditions."""
    return check_list(value, field, least=0, most=MOST_CONDITIONS, noun="conditions", check=_check_condition)


def _check_attribute(value: object, field: str) -> Iterator[Detail]:
    return check_name(value, field)


def _check_operator(value: object, field: str) -> Iterator[Detail]:
    return check_choice(value, field, noun="operator", choices=OPERATORS)


def _leave_to_operator(_value: object, _field: str) -> Iterator[Detail]:
    return iter(())


_FIELDS: Mapping[str, Check] = {
    "attribute": _check_attribute,
    "operator": _check_operator,
    "value": _leave_to_operator,
    "ignoreCase": check_boolean,
    "negate": check_boolean,
}


def _check_condition(condition: object, field: str) -> Iterator[Detail]:
    operator = _operator_of(condition)
    required = ("operator",) if operator and not operator.needs_attribute else ("attribute", "operator")
    yield from check_object(condition, field, checks=_FIELDS, required=required, example=_EXAMPLE)
    if operator is not None and isinstance(condition, dict):
        yield from _check_value(condition, operator, f"{field}.value")
        if not operator.needs_attribute and condition.get("attribute", USER_ID) != USER_ID:
            message = f'The operator "{condition["operator"]}" applies to the user as a whole; leave the attribute out.'
            yield Detail(f"{field}.attribute", DetailCode.INVALID_VALUE, message)


def _operator_of(condition: object) -> Operator | None:
    name = condition.get("operator") if isinstance(condition, dict) else None
    return OPERATORS.get(name) if isinstance(name, str) else None


def _check_value(condition: Mapping[str, object], operator: Operator, field: str) -> Iterator[Detail]:
    name = condition["operator"]
    check = OPERANDS[operator.operand].check
    if check is None:
        if "value" in condition:
            yield Detail(field, DetailCode.UNKNOWN_FIELD, f'The operator "{name}" takes no value; leave it out.')
    elif "value" not in condition:
        yield Detail(field, DetailCode.REQUIRED, f'The operator "{name}" needs a value to compare with.')
    else:
        yield from check(condition["value"], field)
