"""The kinds of values that conditions compare with, and how patterns, versions and networks are parsed.

`flags.validation.conditions` checks and describes each kind.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any
from weakref import WeakValueDictionary

import re2
from semver import Version

MAX_VERSION_LENGTH = 256
_VERSION_NUMBER_END = 10**18
_VERSIONS_CACHED = 4_096
_BITS_BEFORE_MAPPED = 96  # ::ffff:0:0/96 holds the IPv4 addresses
_BYTES_OF_A_PATTERN = 128 * 1024


class Operand(StrEnum):
    """A kind of value. Its name begins the name of the OpenAPI component."""

    SCALAR = "Scalar"
    LIST = "List"
    TEXT = "Text"
    PATTERN = "Pattern"
    NUMBER = "Number"
    TIME = "Time"
    VERSION = "Version"
    NOTHING = "Presence"
    NETWORKS = "Network"
    SEGMENT = "Segment"


def compile_pattern(text: str, ignore_case: bool = False) -> Any:
    """Compile a pattern with RE2, which searches in linear time. Raises re2.error."""
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not ignore_case
    options.max_mem = _BYTES_OF_A_PATTERN  # which also limits the time to compile it
    return re2.compile(text, options)


class Pattern:
    """A pattern that is compiled when it is first used, so that unused patterns take no memory."""

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
    """Return this process's only `Pattern` for a text."""
    return _patterns.setdefault((text, ignore_case), Pattern(text, ignore_case))


# Parsing takes three times as long as comparing, and users share a few versions.
@lru_cache(maxsize=_VERSIONS_CACHED)
def parse_version(text: str) -> Version | None:
    """Return a semantic version, or None for any other text. `v2`, `V2` and `2` mean `2.0.0`; `2.1-rc` means
    `2.1.0-rc`.
    """
    try:
        version = Version.parse(text[1:] if text[:1] in ("v", "V") else text, optional_minor_and_patch=True)
    except ValueError:
        return None
    return version if max(version.major, version.minor, version.patch) < _VERSION_NUMBER_END else None


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
    version = parse_version(text) if len(text) <= MAX_VERSION_LENGTH else None
    if version is None:
        raise ValueError("not a version")
    return version
