"""Compile conditions on attributes of users. `operators` has the comparisons."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from .operators import OPERATORS, Predicate
from .timestamps import distance_from_now
from .timetable import MAX_VALUES, NEVER, Flip, Times
from .types import Context, Test

USER_ID = "userId"
MAX_LEVELS = 8
"""How many objects deep an attribute is looked up."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Condition:
    """A compiled condition with the JSON it was compiled from.

    `times`: when its result changes without an edit, which happens only if it compares with a relative time.
    """

    source: Mapping[str, Any]
    read: Callable[[Context], object]
    test: Test
    times: Times


def compile_condition(source: Mapping[str, Any]) -> Condition:
    """Compile a condition that has passed its check."""
    # Equal conditions of flags share one object, which stays in the processor's cache.
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


def compile_reader(attribute: str, missing: object = None) -> Callable[[Context], object]:
    """Return a function that reads an attribute of a user, or returns `missing`.

    `a.b` is the attribute with this very name or, failing that, `b` in the object `a`. The same rule applies to `b` in
    that object, up to 8 objects deep.
    """
    if attribute == USER_ID:
        return lambda context: context.user_id or missing
    parts = attribute.split(".", MAX_LEVELS - 1)
    if len(parts) == 1:  # most attributes, which are not nested
        return lambda context: context.attributes.get(attribute, missing)
    steps = [(".".join(parts[level:]), part) for level, part in enumerate(parts)]

    def read(context: Context) -> object:
        holder: Any = context.attributes
        for name, part in steps:
            if name in holder:
                return holder[name]
            holder = holder.get(part)
            if not isinstance(holder, dict):
                break
        return missing

    return read


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
    """Return whether the predicate holds for any element, or None if no element is comparable or there are too many."""
    if len(values) > MAX_VALUES:
        return None
    was_compared = not values
    for value in values:
        holds = predicate(value, context)
        if holds:
            return True
        was_compared |= holds is not None
    return False if was_compared else None
