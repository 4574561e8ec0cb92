"""Check conditions on the attributes of a user, and compile them to tests. `operators` has the comparisons."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from config.errors import Detail, DetailCode
from flags.engine.moments import distance_from_now
from flags.engine.operators import OPERATORS, Operator, Predicate
from flags.engine.shapes import Check, check_boolean, check_choice, check_list, check_name, check_object
from flags.engine.timetable import MOST_VALUES, NEVER, Flip, Times
from flags.engine.types import Context, Test

USER_ID = "userId"
MOST_CONDITIONS = 100
_EXAMPLE = '{"attribute": "plan", "operator": "equals", "value": "pro"}'


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Condition:
    """A condition as it was written, with the function that reads its attribute, and its test.

    `times` says when its result changes by the clock alone, which happens if it compares with a
    relative moment.
    """

    source: Mapping[str, Any]
    read: Callable[[Context], object]
    test: Test
    times: Times


def check_conditions(value: object, field: str) -> Iterator[Detail]:
    """Accept a list of at most 100 conditions."""
    return check_list(value, field, least=0, most=MOST_CONDITIONS, noun="conditions", check=_check_condition)


def compile_condition(source: Mapping[str, Any]) -> Condition:
    """Return the compiled form of a condition that has passed its check."""
    # Flags often have equal conditions. They share one object, which then stays in the processor's
    # cache while thousands of flags are evaluated.
    text = json.dumps(source, sort_keys=True)
    condition = _in_use.get(text)
    if condition is None:
        condition = _in_use[text] = _compile_condition(json.loads(text))
    return condition


_in_use: WeakValueDictionary[str, Condition] = WeakValueDictionary()


def _compile_condition(source: Mapping[str, Any]) -> Condition:
    operator = OPERATORS[source["operator"]]
    predicate = operator.compile(source.get("value"), source.get("ignoreCase", False))
    read = compile_reader(source.get("attribute", USER_ID))
    wanted = operator.is_negative is source.get("negate", False)
    test = _compile_test(read, predicate, wanted, looks_into_lists=not operator.takes_lists_whole)
    return Condition(source, read, test, _times(source, read))


def _times(source: Mapping[str, Any], read: Callable[[Context], object]) -> Times:
    if source["operator"] not in ("before", "after"):
        return NEVER
    distance = distance_from_now(source["value"])
    return NEVER if distance is None else Times(flips=(Flip(read, distance, source["operator"] == "after"),))


def compile_reader(attribute: str) -> Callable[[Context], object]:
    """Return a function that reads an attribute of the user. A missing attribute is None."""
    if attribute == USER_ID:
        return lambda context: context.user_id or None
    return lambda context: context.attributes.get(attribute)


def _compile_test(
    read: Callable[[Context], object], predicate: Predicate, wanted: bool, *, looks_into_lists: bool
) -> Test:
    def test(context: Context) -> bool:
        actual = read(context)
        holds = predicate(actual, context)
        if holds is None and looks_into_lists and type(actual) is list:
            holds = _holds_for_any(actual, predicate, context)
        return holds is wanted  # None means that nothing could be compared, which never matches

    return test


def _holds_for_any(values: list[object], predicate: Predicate, context: Context) -> bool | None:
    """Return whether the predicate holds for any value, or None if none is comparable or there are too many."""
    if len(values) > MOST_VALUES:
        return None
    was_compared = not values
    for value in values:
        holds = predicate(value, context)
        if holds:
            return True
        was_compared |= holds is not None
    return False if was_compared else None


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
    if operator.check is None:
        if "value" in condition:
            yield Detail(field, DetailCode.UNKNOWN_FIELD, f'The operator "{name}" takes no value; leave it out.')
    elif "value" not in condition:
        yield Detail(field, DetailCode.REQUIRED, f'The operator "{name}" needs a value to compare with.')
    else:
        yield from operator.check(condition["value"], field)
