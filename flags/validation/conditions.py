"""Check conditions on the attributes of a user, and the values that they compare with.

`OPERANDS` also describes these values for the OpenAPI schema and for forms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import re2

from config.answers import KEY, MOMENT
from config.errors import Detail, DetailCode
from flags.engine.conditions import USER_ID
from flags.engine.operands import Operand, compile_pattern, parse_network, require_version
from flags.engine.operators import OPERATORS, Operator
from flags.engine.timestamps import compile_time
from flags.validation.shapes import (
    Check,
    check_boolean,
    check_choice,
    check_key,
    check_list,
    check_name,
    check_number,
    check_object,
    check_readable,
    check_scalar,
    check_text,
)

MAX_CONDITIONS = 100
MAX_OPERANDS = 1_000
_MAX_PATTERN_LENGTH = 1_000
_EXAMPLE = '{"attribute": "plan", "operator": "equals", "value": "pro"}'


def check_scalars(value: object, field: str, max_length: int = MAX_OPERANDS) -> Iterator[Detail]:
    """Accept 1 to `max_length` strings, numbers and booleans."""
    noun = "strings, numbers or booleans"
    return check_list(value, field, min_length=1, max_length=max_length, noun=noun, check=check_scalar)


def check_pattern(value: object, field: str) -> Iterator[Detail]:
    """Accept a regular expression that RE2 can compile."""
    yield from check_text(value, field)
    if not isinstance(value, str) or not value:
        return
    if len(value) > _MAX_PATTERN_LENGTH:
        yield Detail(field, DetailCode.TOO_LONG, f"Must have at most {_MAX_PATTERN_LENGTH:,} characters.")
        return
    try:
        for ignore_case in (False, True):  # a pattern that ignores case compiles to a larger program
            compile_pattern(value, ignore_case)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0]
        why = reason.decode(errors="replace") if isinstance(reason, bytes) else "not UTF-8"
        message = f"Must be a regular expression of RE2, which has no lookaround and no backreferences: {why[:100]}."
        yield Detail(field, DetailCode.INVALID_VALUE, message)


def check_time(value: object, field: str) -> Iterator[Detail]:
    """Accept an ISO 8601 timestamp or a relative time such as `-7d`."""
    message = "Must be a date and time such as 2026-01-31T12:00:00Z, or relative: -7d, +12h."
    return check_readable(value, field, read=compile_time, message=message)


def check_version(value: object, field: str) -> Iterator[Detail]:
    """Accept a semantic version."""
    message = "Must be a semantic version such as 2.1.0 or 2.1.0-beta.1."
    return check_readable(value, field, read=require_version, message=message)


def check_networks(value: object, field: str) -> Iterator[Detail]:
    """Accept an IP network in CIDR notation, or a list of 1 to 1,000 of them."""
    if isinstance(value, list):
        return check_list(value, field, min_length=1, max_length=MAX_OPERANDS, noun="networks", check=_check_network)
    return _check_network(value, field)


def _check_network(value: object, field: str) -> Iterator[Detail]:
    message = "Must be an IP network such as 10.0.0.0/8 or 2001:db8::/32."
    return check_readable(value, field, read=_require_prefix_length, message=message)


def _require_prefix_length(text: str) -> None:
    # Python also accepts masks such as 10.0.0.0/255.0.0.0, which other languages may not.
    parse_network(text)
    _, slash, length = text.partition("/")
    if slash and not (length.isascii() and length.isdigit()):
        raise ValueError("not in CIDR notation")


@dataclass(frozen=True, slots=True)
class OperandField:
    """How values of a kind are entered, checked and described.

    `control`: the input of a form.
    `check`: yields the errors of a value. None if operators of this kind take no value.
    `schema`: the JSON Schema of a value, or None likewise.
    `has_case`: whether `ignoreCase` can change the result.
    """

    control: str
    check: Check | None = None
    schema: dict[str, Any] | None = None
    has_case: bool = False


def _list_of(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": schema, "minItems": 1, "maxItems": MAX_OPERANDS}


_SCALAR = {"type": ["string", "number", "boolean"]}
_PATTERN = {
    "type": "string",
    "minLength": 1,
    "maxLength": _MAX_PATTERN_LENGTH,
    "description": "A regular expression of RE2. It may match anywhere in the attribute, unless `^` and `$` anchor it.",
}
_RELATIVE_TIME = {"type": "string", "pattern": "^[+-][0-9]{1,5}[smhdw]$"}
_TIME = {
    "anyOf": [*MOMENT["anyOf"], _RELATIVE_TIME],
    "description": "A moment, or a relative time: `-7d` is a week ago.",
}
_VERSION = {"type": "string", "description": "A semantic version, such as `2.1.0` or `2.1.0-beta.1`."}
_NETWORK = {"type": "string", "description": "An IP network in CIDR notation, such as `10.0.0.0/8`."}

OPERANDS: Mapping[Operand, OperandField] = {
    Operand.SCALAR: OperandField("any", check_scalar, _SCALAR, has_case=True),
    Operand.LIST: OperandField("list", check_scalars, _list_of(_SCALAR), has_case=True),
    Operand.TEXT: OperandField("text", check_text, {"type": "string", "minLength": 1}, has_case=True),
    Operand.PATTERN: OperandField("text", check_pattern, _PATTERN, has_case=True),
    Operand.NUMBER: OperandField("number", check_number, {"type": "number"}),
    Operand.TIME: OperandField("moment", check_time, _TIME),
    Operand.VERSION: OperandField("version", check_version, _VERSION),
    Operand.NOTHING: OperandField("none"),
    Operand.NETWORKS: OperandField("networks", check_networks, {"anyOf": [_NETWORK, _list_of(_NETWORK)]}),
    Operand.SEGMENT: OperandField("segment", check_key, {**KEY, "description": "The key of a segment."}),
}


# --- conditions ------------------------------------------------------------------------------------------------------


def check_conditions(value: object, field: str) -> Iterator[Detail]:
    """Accept a list of at most 100 conditions."""
    return check_list(value, field, min_length=0, max_length=MAX_CONDITIONS, noun="conditions", check=_check_condition)


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
