"""The addresses of clients. A header of a proxy counts only if settings trust the proxy."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.core.signals import setting_changed

_MAX_CACHED_LENGTH = 100

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def parse_address(text: str) -> Address | None:
    """Parse an address, which may have a zone such as `%eth0`. Return None for any other text."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def address_of(environ: Mapping[str, Any]) -> str:
    """Return the address of a client: the last in `X-Forwarded-For` that is not a trusted proxy, or the sender's."""
    sender: str = environ.get("REMOTE_ADDR", "")
    forwarded = environ.get("HTTP_X_FORWARDED_FOR")
    if forwarded is None:
        return sender
    # Clients choose the header, and must not choose how much memory it takes.
    find = _forwarded if len(forwarded) <= _MAX_CACHED_LENGTH else _forwarded.__wrapped__
    address: str = find(sender, forwarded)
    return address


@lru_cache(maxsize=10_000)
def _forwarded(address: str, forwarded: str) -> str:
    if not is_trusted(address):
        return address
    for part in reversed(forwarded.split(",")):
        if parse_address(part.strip()) is None:
            return address
        address = part.strip()
        if not is_trusted(address):
            return address
    return address


@lru_cache(maxsize=10_000)
def is_trusted(address: str) -> bool:
    """Return whether this is the address of a proxy that settings trust."""
    parsed = parse_address(address)
    return parsed is not None and any(parsed in network for network in _networks())


@lru_cache(maxsize=1)
def _networks() -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    return tuple(ipaddress.ip_network(text, strict=False) for text in settings.TRUSTED_PROXIES)


def _forget(**_: object) -> None:
    """Settings change only in tests."""
    is_trusted.cache_clear()
    _forwarded.cache_clear()
    _networks.cache_clear()


setting_changed.connect(_forget)
