"""The operators of conditions: which values each one accepts, and how it compiles to a predicate.

`flags.engine.conditions` looks up the attribute, negates, handles attributes that are lists, and combines conditions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from types import MappingProxyType
from typing import Any

import re2
from semver import Version

from config.errors import Detail, DetailCode
from config.timestamps import parse_timestamp
from flags.engine.moments import compile_moment
from flags.engine.shapes import Check, check_key, check_list, check_number, check_readable, check_scalar, check_text
from flags.engine.types import Context, is_member

Predicate = Callable[[Any, Context], bool | None]
"""Return whether an attribute matches, or None if the two cannot be compared. A predicate never raises."""

Compiler = Callable[[Any, bool], Predicate]
"""Make a predicate from the value of a condition and from whether case is ignored."""

_LONGEST_PATTERN = 1_000
_LONGEST_SEARCHED = 4_096
_LONGEST_VERSION = 256
_VERSION_NUMBER_END = 10**18
_VERSIONS_CACHED = 4_096
_BITS_BEFORE_MAPPED = 96  # ::ffff:0:0/96 holds the IPv4 addresses
_BYTES_OF_A_PATTERN = 128 * 1024

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

    `check` yields what is wrong with the value; it is None if conditions with this operator have no value.
    `compile` takes a value without errors. An `is_negative` operator holds if the predicate returns False.
    `needs_attribute` is false for operators on the user as a whole. `takes_lists_whole` is true for operators that
    treat a list as a single value.
    """

    check: Check | None
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
    search = compile_pattern(text, ignore_case).search

    def holds(actual: Any, _: Context) -> bool | None:
        if type(actual) is not str or len(actual) > _LONGEST_SEARCHED:
            return None
        try:
            return search(actual) is not None
        except UnicodeEncodeError:  # half of a surrogate pair matches nothing
            return None

    return holds


def compile_pattern(text: str, ignore_case: bool = False) -> Any:
    """Compile a pattern with RE2, which searches in linear time. Raises re2.error."""
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not ignore_case
    options.max_mem = _BYTES_OF_A_PATTERN  # which also limits the time to compile it
    return re2.compile(text, options)


def _time_relation(holds: Callable[[datetime, datetime], bool]) -> Compiler:
    def compile_value(value: str, _: bool) -> Predicate:
        moment = compile_moment(value)

        def compare(actual: Any, context: Context) -> bool | None:
            if type(actual) is not str:
                return None
            try:
                return holds(parse_timestamp(actual), moment(context.now))
            except ValueError:
                return None

        return compare

    return compile_value


def _version_relation(holds: Callable[[int, int], bool]) -> Compiler:
    def compile_value(value: str, _: bool) -> Predicate:
        wanted = _require_version(value)

        def compare(actual: Any, _: Context) -> bool | None:
            version = _parse_version(actual) if type(actual) is str and len(actual) <= _LONGEST_VERSION else None
            return None if version is None else holds(version.compare(wanted), 0)

        return compare

    return compile_value


# Parsing takes three times as long as comparing, and the users of an application share a few versions.
@lru_cache(maxsize=_VERSIONS_CACHED)
def _parse_version(text: str) -> Version | None:
    """Return a semantic version, or None if the text is not one; `v2`, `2` and `2.1-rc` mean `2.0.0` and `2.1.0-rc`."""
    try:
        version = Version.parse(text.removeprefix("v"), optional_minor_and_patch=True)
    except ValueError:
        return None
    return version if max(version.major, version.minor, version.patch) < _VERSION_NUMBER_END else None


def _network_membership(value: str | list[str], _: bool) -> Predicate:
    networks = [_network(text) for text in ([value] if isinstance(value, str) else value)]
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


def check_scalars(value: object, field: str) -> Iterator[Detail]:
    """Accept 1 to 1,000 strings, numbers and booleans."""
    return check_list(value, field, least=1, most=1_000, noun="strings, numbers or booleans", check=check_scalar)


def check_pattern(value: object, field: str) -> Iterator[Detail]:
    """Accept a regular expression that RE2 can compile."""
    yield from check_text(value, field)
    if not isinstance(value, str) or not value:
        return
    if len(value) > _LONGEST_PATTERN:
        yield Detail(field, DetailCode.TOO_LONG, f"Must have at most {_LONGEST_PATTERN:,} characters.")
        return
    try:
        for ignore_case in (False, True):  # a pattern that ignores case compiles to a larger program
            compile_pattern(value, ignore_case)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0]
        why = reason.decode(errors="replace") if isinstance(reason, bytes) else "not UTF-8"
        message = f"Must be a regular expression of RE2, which has neither lookaround nor backreferences: {why[:100]}."
        yield Detail(field, DetailCode.INVALID_VALUE, message)


def check_time(value: object, field: str) -> Iterator[Detail]:
    """Accept an ISO 8601 timestamp or a relative time such as `-7d`."""
    message = "Must be an ISO 8601 timestamp such as 2026-01-31T12:00:00Z, or relative: -7d, +12h."
    return check_readable(value, field, read=compile_moment, message=message)


def check_version(value: object, field: str) -> Iterator[Detail]:
    """Accept a semantic version."""
    message = "Must be a semantic version such as 2.1.0 or 2.1.0-beta.1."
    return check_readable(value, field, read=_require_version, message=message)


def check_networks(value: object, field: str) -> Iterator[Detail]:
    """Accept an IP network in CIDR notation, or a list of 1 to 1,000 of them."""
    if isinstance(value, list):
        return check_list(value, field, least=1, most=1_000, noun="networks", check=_check_network)
    return _check_network(value, field)


def _check_network(value: object, field: str) -> Iterator[Detail]:
    message = "Must be an IP network such as 10.0.0.0/8 or 2001:db8::/32."
    return check_readable(value, field, read=_require_prefix_length, message=message)


def _require_prefix_length(text: str) -> None:
    # Python also accepts masks such as 10.0.0.0/255.0.0.0; evaluators in other languages need not support them.
    _network(text)
    _, slash, length = text.partition("/")
    if slash and not (length.isascii() and length.isdigit()):
        raise ValueError("not in CIDR notation")


def _network(text: str) -> IPv4Network | IPv6Network:
    # Bits after the prefix are ignored: 10.1.2.3/8 means 10.0.0.0/8.
    network = ip_network(text, strict=False)
    mapped = getattr(network.network_address, "ipv4_mapped", None)
    if mapped is not None and network.prefixlen >= _BITS_BEFORE_MAPPED:
        return IPv4Network((mapped, network.prefixlen - _BITS_BEFORE_MAPPED))
    return network


def _require_version(text: str) -> Version:
    version = _parse_version(text) if len(text) <= _LONGEST_VERSION else None
    if version is None:
        raise ValueError("not a version")
    return version


OPERATORS: Mapping[str, Operator] = MappingProxyType(
    {
        "equals": Operator(check_scalar, _relation(operator.eq)),
        "notEquals": Operator(check_scalar, _relation(operator.eq), is_negative=True),
        "in": Operator(check_scalars, _membership),
        "notIn": Operator(check_scalars, _membership, is_negative=True),
        "contains": Operator(check_text, _relation(operator.contains)),
        "notContains": Operator(check_text, _relation(operator.contains), is_negative=True),
        "startsWith": Operator(check_text, _relation(str.startswith)),
        "endsWith": Operator(check_text, _relation(str.endswith)),
        "matches": Operator(check_pattern, _pattern),
        "greaterThan": Operator(check_number, _relation(operator.gt)),
        "greaterThanOrEqual": Operator(check_number, _relation(operator.ge)),
        "lessThan": Operator(check_number, _relation(operator.lt)),
        "lessThanOrEqual": Operator(check_number, _relation(operator.le)),
        "before": Operator(check_time, _time_relation(operator.lt)),
        "after": Operator(check_time, _time_relation(operator.gt)),
        "semverEquals": Operator(check_version, _version_relation(operator.eq)),
        "semverGreaterThan": Operator(check_version, _version_relation(operator.gt)),
        "semverGreaterThanOrEqual": Operator(check_version, _version_relation(operator.ge)),
        "semverLessThan": Operator(check_version, _version_relation(operator.lt)),
        "semverLessThanOrEqual": Operator(check_version, _version_relation(operator.le)),
        "exists": Operator(None, _presence, takes_lists_whole=True),
        "notExists": Operator(None, _presence, is_negative=True, takes_lists_whole=True),
        "inCidr": Operator(check_networks, _network_membership),
        "inSegment": Operator(check_key, _segment, needs_attribute=False, takes_lists_whole=True),
    }
)
"""All operators by their names in conditions.

A missing attribute, or one of another kind than the value, matches no operator, not even a negative one. Only
`notExists`, and `exists` when it is negated, match a missing attribute."""
