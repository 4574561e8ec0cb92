"""The operators of conditions: which kind of value each takes, and how it compiles to a predicate.

`conditions` looks up the attribute, negates, and handles attributes that are lists.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from ipaddress import IPv4Network, IPv6Network, ip_address
from types import MappingProxyType
from typing import Any

from .operands import (
    MAX_VERSION_LENGTH,
    Operand,
    parse_network,
    parse_version,
    require_version,
    shared_pattern,
)
from .timestamps import compile_time, parse_timestamp
from .types import Context, is_member

Predicate = Callable[[Any, Context], bool | None]
"""Returns whether an attribute matches, or None if the two cannot be compared. It never raises."""

Compiler = Callable[[Any, bool], Predicate]
"""Returns a predicate for the value of a condition. The second argument is whether to ignore case."""

_MAX_SEARCHED_LENGTH = 4_096

_NUMBER: frozenset[type] = frozenset({int, float})
# An attribute is compared only with values of its own kind: 1 equals 1.0, but not True or "1".
_KINDS: Mapping[type, frozenset[type]] = {
    str: frozenset({str}),
    bool: frozenset({bool}),
    int: _NUMBER,
    float: _NUMBER,
}


@dataclass(frozen=True, slots=True)
class Operator:
    """How an operator treats the value of its condition.

    `operand`: the kind of value.
    `compile`: makes a predicate from a value that has passed its check.
    `is_negative`: the operator holds if the predicate returns False.
    `needs_attribute`: False for operators on the user as a whole.
    `takes_lists_whole`: the operator treats a list as a single value.
    """

    operand: Operand
    compile: Compiler
    is_negative: bool = False
    needs_attribute: bool = True
    takes_lists_whole: bool = False


def _relation(holds: Callable[[Any, Any], bool]) -> Compiler:
    def compile_value(value: Any, ignore_case: bool) -> Predicate:
        if ignore_case and isinstance(value, str):
            folded = value.casefold()
            return lambda actual, _: holds(actual.casefold(), folded) if type(actual) is str else None
        kind = _KINDS[type(value)]
        return lambda actual, _: holds(actual, value) if type(actual) in kind else None

    return compile_value


def _membership(values: list[Any], ignore_case: bool) -> Predicate:
    by_type: dict[type, set[object]] = {}
    for value in values:
        for alike in _KINDS[type(value)]:
            by_type.setdefault(alike, set()).add(value.casefold() if ignore_case and alike is str else value)

    def holds(actual: Any, _: Context) -> bool | None:
        comparable = by_type.get(type(actual))
        if comparable is None:
            return None
        return (actual.casefold() if ignore_case and type(actual) is str else actual) in comparable

    return holds


def _pattern(text: str, ignore_case: bool) -> Predicate:
    pattern = shared_pattern(text, ignore_case)

    def holds(actual: Any, _: Context) -> bool | None:
        if type(actual) is not str or len(actual) > _MAX_SEARCHED_LENGTH:
            return None
        try:
            return pattern.is_in(actual)
        except UnicodeEncodeError:  # a lone surrogate matches nothing
            return None

    return holds


def _time_relation(holds: Callable[[datetime, datetime], bool]) -> Compiler:
    def compile_value(value: str, _: bool) -> Predicate:
        time_at = compile_time(value)

        def compare(actual: Any, context: Context) -> bool | None:
            if type(actual) is not str:
                return None
            try:
                return holds(parse_timestamp(actual), time_at(context.now))
            except ValueError:
                return None

        return compare

    return compile_value


def _version_relation(holds: Callable[[int, int], bool]) -> Compiler:
    def compile_value(value: str, _: bool) -> Predicate:
        wanted = require_version(value)

        def compare(actual: Any, _: Context) -> bool | None:
            version = parse_version(actual) if type(actual) is str and len(actual) <= MAX_VERSION_LENGTH else None
            return None if version is None else holds(version.compare(wanted), 0)

        return compare

    return compile_value


def _network_membership(value: str | list[str], _: bool) -> Predicate:
    networks = [parse_network(text) for text in ([value] if isinstance(value, str) else value)]
    return lambda actual, _: _is_in_networks(actual, networks)


def _is_in_networks(actual: Any, networks: list[IPv4Network | IPv6Network]) -> bool | None:
    if type(actual) is not str:
        return None
    try:
        address = ip_address(actual)
    except ValueError:
        return None
    # Sockets for both families report IPv4 addresses as IPv6 addresses.
    forms = {address, getattr(address, "ipv4_mapped", None) or address}
    return any(form in network for network in networks for form in forms)


def _presence(_value: Any, _ignore_case: bool) -> Predicate:
    return lambda actual, _: actual is not None


def _segment(key: str, _: bool) -> Predicate:
    return lambda _, context: is_member(key, context)


OPERATORS: Mapping[str, Operator] = MappingProxyType(
    {
        "equals": Operator(Operand.SCALAR, _relation(operator.eq)),
        "notEquals": Operator(Operand.SCALAR, _relation(operator.eq), is_negative=True),
        "in": Operator(Operand.LIST, _membership),
        "notIn": Operator(Operand.LIST, _membership, is_negative=True),
        "contains": Operator(Operand.TEXT, _relation(operator.contains)),
        "notContains": Operator(Operand.TEXT, _relation(operator.contains), is_negative=True),
        "startsWith": Operator(Operand.TEXT, _relation(str.startswith)),
        "endsWith": Operator(Operand.TEXT, _relation(str.endswith)),
        "matches": Operator(Operand.PATTERN, _pattern),
        "greaterThan": Operator(Operand.NUMBER, _relation(operator.gt)),
        "greaterThanOrEqual": Operator(Operand.NUMBER, _relation(operator.ge)),
        "lessThan": Operator(Operand.NUMBER, _relation(operator.lt)),
        "lessThanOrEqual": Operator(Operand.NUMBER, _relation(operator.le)),
        "before": Operator(Operand.TIME, _time_relation(operator.lt)),
        "after": Operator(Operand.TIME, _time_relation(operator.gt)),
        "semverEquals": Operator(Operand.VERSION, _version_relation(operator.eq)),
        "semverGreaterThan": Operator(Operand.VERSION, _version_relation(operator.gt)),
        "semverGreaterThanOrEqual": Operator(Operand.VERSION, _version_relation(operator.ge)),
        "semverLessThan": Operator(Operand.VERSION, _version_relation(operator.lt)),
        "semverLessThanOrEqual": Operator(Operand.VERSION, _version_relation(operator.le)),
        "exists": Operator(Operand.NOTHING, _presence, takes_lists_whole=True),
        "notExists": Operator(Operand.NOTHING, _presence, is_negative=True, takes_lists_whole=True),
        "inCidr": Operator(Operand.NETWORKS, _network_membership),
        "inSegment": Operator(Operand.SEGMENT, _segment, needs_attribute=False, takes_lists_whole=True),
    }
)
"""All operators by name.

A missing attribute, or one of another type than the value, matches no operator, not even a negative one. Only
`notExists`, and `exists` with `negate`, match a missing attribute.
"""
