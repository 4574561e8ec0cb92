"""The kinds of values that conditions compare with: how each one is checked, described and entered in a form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any
from weakref import WeakValueDictionary

import re2
from semver import Version

from config.answers import KEY, MOMENT
from config.errors import Detail, DetailCode
from flags.engine.moments import compile_moment
from flags.engine.shapes import Check, check_key, check_list, check_number, check_readable, check_scalar, check_text

LONGEST_VERSION = 256
MOST_OPERANDS = 1_000
_LONGEST_PATTERN = 1_000
_VERSION_NUMBER_END = 10**18
_VERSIONS_CACHED = 4_096
_BITS_BEFORE_MAPPED = 96  # ::ffff:0:0/96 holds the IPv4 addresses
_BYTES_OF_A_PATTERN = 128 * 1024


def compile_pattern(text: str, ignore_case: bool = False) -> Any:
    """Compile a pattern with RE2, which searches in linear time. Raises re2.error."""
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not ignore_case
    options.max_mem = _BYTES_OF_A_PATTERN  # which also limits the time to compile it
    return re2.compile(text, options)


class Pattern:
    """A pattern that compiles when it is first searched for: processes that evaluate nothing, and
    flags that nobody asks for, then need no memory for it.
    """

    __slots__ = ("__weakref__", "_ignore_case", "_search", "_text")

    def __init__(self, text: str, ignore_case: bool) -> None:
        self._text, self._ignore_case = text, ignore_case
        self._search: Any = None

    def is_in(self, text: str) -> bool:
        if self._search is None:
            self._search = compile_pattern(self._text, self._ignore_case).search
        return self._search(text) is not None


_patterns: WeakValueDictionary[tuple[str, bool], Pattern] = WeakValueDictionary()


def shared_pattern(text: str, ignore_case: bool) -> Pattern:
    """Return the pattern of this process for a text. All environments of a flag, and all flags, share it."""
    return _patterns.setdefault((text, ignore_case), Pattern(text, ignore_case))


# Parsing takes three times as long as comparing, and the users of an application share a few
# versions.
@lru_cache(maxsize=_VERSIONS_CACHED)
def parse_version(text: str) -> Version | None:
    """Return a semantic version, or None if the text is not one. `v2` and `2` mean `2.0.0`, and `2.1-rc` `2.1.0-rc`."""
    try:
        version = Version.parse(text.removeprefix("v"), optional_minor_and_patch=True)
    except ValueError:
        return None
    return version if max(version.major, version.minor, version.patch) < _VERSION_NUMBER_END else None


def check_scalars(value: object, field: str, most: int = MOST_OPERANDS) -> Iterator[Detail]:
    """Accept 1 to `most` strings, numbers and booleans."""
    noun = "strings, numbers or booleans"
    return check_list(value, field, least=1, most=most, noun=noun, check=check_scalar)


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
        message = f"Must be a regular expression of RE2, which has no lookaround and no backreferences: {why[:100]}."
        yield Detail(field, DetailCode.INVALID_VALUE, message)


def check_time(value: object, field: str) -> Iterator[Detail]:
    """Accept an ISO 8601 timestamp or a relative time such as `-7d`."""
    message = "Must be an ISO 8601 timestamp such as 2026-01-31T12:00:00Z, or relative: -7d, +12h."
    return check_readable(value, field, read=compile_moment, message=message)


def check_version(value: object, field: str) -> Iterator[Detail]:
    """Accept a semantic version."""
    message = "Must be a semantic version such as 2.1.0 or 2.1.0-beta.1."
    return check_readable(value, field, read=require_version, message=message)


def check_networks(value: object, field: str) -> Iterator[Detail]:
    """Accept an IP network in CIDR notation, or a list of 1 to 1,000 of them."""
    if isinstance(value, list):
        return check_list(value, field, least=1, most=MOST_OPERANDS, noun="networks", check=_check_network)
    return _check_network(value, field)


def _check_network(value: object, field: str) -> Iterator[Detail]:
    message = "Must be an IP network such as 10.0.0.0/8 or 2001:db8::/32."
    return check_readable(value, field, read=_require_prefix_length, message=message)


def _require_prefix_length(text: str) -> None:
    # Python also accepts masks such as 10.0.0.0/255.0.0.0; evaluators in other languages need not
    # support them.
    parse_network(text)
    _, slash, length = text.partition("/")
    if slash and not (length.isascii() and length.isdigit()):
        raise ValueError("not in CIDR notation")


def parse_network(text: str) -> IPv4Network | IPv6Network:
    """Return an IP network. Raises ValueError for any other text."""
    # Bits after the prefix are ignored: 10.1.2.3/8 means 10.0.0.0/8.
    network = ip_network(text, strict=False)
    mapped = getattr(network.network_address, "ipv4_mapped", None)
    if mapped is not None and network.prefixlen >= _BITS_BEFORE_MAPPED:
        return IPv4Network((mapped, network.prefixlen - _BITS_BEFORE_MAPPED))
    return network


def require_version(text: str) -> Version:
    """Return a semantic version. Raises ValueError for any other text."""
    version = parse_version(text) if len(text) <= LONGEST_VERSION else None
    if version is None:
        raise ValueError("not a version")
    return version


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """A kind of value that operators compare with.

    `name` begins the name of its OpenAPI component, `control` names the input of a form. `check`
    yields what is wrong with a value and `schema` describes it as JSON Schema; both are None if
    operators of this kind take no value. `has_case` is true if `ignoreCase` can change the result.
    """

    name: str
    control: str
    check: Check | None = None
    schema: dict[str, Any] | None = None
    has_case: bool = False


def _list_of(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": schema, "minItems": 1, "maxItems": MOST_OPERANDS}


_SCALAR = {"type": ["string", "number", "boolean"]}
_RELATIVE_TIME = {"type": "string", "pattern": "^[+-][0-9]{1,5}[smhdw]$"}
_NETWORK = {"type": "string", "description": "An IP network in CIDR notation, such as `10.0.0.0/8`."}

SCALAR = Operand("Scalar", "any", check_scalar, _SCALAR, has_case=True)
LIST = Operand("List", "list", check_scalars, _list_of(_SCALAR), has_case=True)
TEXT = Operand("Text", "text", check_text, {"type": "string", "minLength": 1}, has_case=True)
PATTERN = Operand(
    "Pattern",
    "text",
    check_pattern,
    {
        "type": "string",
        "minLength": 1,
        "maxLength": _LONGEST_PATTERN,
        "description": "A regular expression of RE2. It may match anywhere in the attribute, unless `^` and `$` anchor "
        "it.",
    },
    has_case=True,
)
NUMBER = Operand("Number", "number", check_number, {"type": "number"})
TIME = Operand(
    "Time",
    "moment",
    check_time,
    {"anyOf": [*MOMENT["anyOf"], _RELATIVE_TIME], "description": "A moment, or a relative time: `-7d` is a week ago."},
)
VERSION = Operand(
    "Version",
    "version",
    check_version,
    {"type": "string", "description": "A semantic version, such as `2.1.0` or `2.1.0-beta.1`."},
)
NOTHING = Operand("Presence", "none")
NETWORKS = Operand("Network", "networks", check_networks, {"anyOf": [_NETWORK, _list_of(_NETWORK)]})
SEGMENT = Operand("Segment", "segment", check_key, {**KEY, "description": "The key of a segment."})
