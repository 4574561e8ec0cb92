"""What a condition can compare, as one table: for each operator the values it takes and how it compiles to a predicate.

Not here: where the attribute comes from, and how conditions add up to an audience.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from config.errors import Detail
from flags.engine.shapes import Check, check_list, check_number, check_scalar, check_text
from flags.engine.types import Predicate

Compiler = Callable[[Any], Predicate]

_NUMBER: frozenset[type] = frozenset({int, float})
# An attribute is compared only with values of its own kind: 1 equals 1.0, but neither True nor "1".
_KINDS: Mapping[type, frozenset[type]] = {
    str: frozenset({str}),
    bool: frozenset({bool}),
    int: _NUMBER,
    float: _NUMBER,
}


@dataclass(frozen=True, slots=True)
class Operator:
    """How one operator treats the value of its condition.

    `check` yields what is wrong with it; it is None where a condition has no value. `compile` takes a right one.
    """

    check: Check | None
    compile: Compiler


def _relation(holds: Callable[[Any, Any], bool]) -> Compiler:
    def compile_value(value: Any) -> Predicate:
        kind = _KINDS[type(value)]
        return lambda actual: type(actual) in kind and holds(actual, value)

    return compile_value


def _membership(*, wanted: bool) -> Compiler:
    def compile_values(values: list[Any]) -> Predicate:
        by_type: dict[type, set[object]] = {}
        for value in values:
            for alike in _KINDS[type(value)]:
                by_type.setdefault(alike, set()).add(value)

        def matches(actual: object) -> bool:
            comparable = by_type.get(type(actual))
            return comparable is not None and (actual in comparable) is wanted

        return matches

    return compile_values


def _presence(*, wanted: bool) -> Compiler:
    return lambda _: lambda actual: (actual is not None) is wanted


def check_scalars(value: object, field: str) -> Iterator[Detail]:
    return check_list(value, field, least=1, most=1_000, noun="strings, numbers or booleans", check=check_scalar)


OPERATORS: Mapping[str, Operator] = MappingProxyType(
    {
        "equals": Operator(check_scalar, _relation(operator.eq)),
        "notEquals": Operator(check_scalar, _relation(operator.ne)),
        "in": Operator(check_scalars, _membership(wanted=True)),
        "notIn": Operator(check_scalars, _membership(wanted=False)),
        "contains": Operator(check_text, _relation(operator.contains)),
        "startsWith": Operator(check_text, _relation(str.startswith)),
        "endsWith": Operator(check_text, _relation(str.endswith)),
        "greaterThan": Operator(check_number, _relation(operator.gt)),
        "greaterThanOrEqual": Operator(check_number, _relation(operator.ge)),
        "lessThan": Operator(check_number, _relation(operator.lt)),
        "lessThanOrEqual": Operator(check_number, _relation(operator.le)),
        "exists": Operator(None, _presence(wanted=True)),
        "notExists": Operator(None, _presence(wanted=False)),
    }
)
"""Every operator by the name that a condition calls it. A missing attribute, or one of another kind than the value,
matches none of them, `notEquals` and `notIn` included; only `notExists` matches a missing one."""
