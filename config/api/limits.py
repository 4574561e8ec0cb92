"""Rate limits of keys and addresses, shared by all workers of a host.

Each caller has an allowance that refills steadily. It is stored as one number, the time at which it would be full again
(the generic cell rate algorithm). A hash chooses the place of the number. Callers rarely share a place, and nobody can
aim at the place of another caller.
"""

from __future__ import annotations

import ipaddress
import math
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.core.signals import setting_changed

from config.api.authentication import Caller
from config.errors import DomainError, ErrorCode
from config.models import Scope
from config.monitoring.addresses import address_of, parse_address
from config.monitoring.memory import ALLOWANCES

PLACES = ALLOWANCES
SECONDS = 10
"""The allowance of this many seconds may be used at once."""
EVENTS_OF_REQUEST = 10
"""This many events of a batch count as much as a request."""
_COUNTED = "halyard.counted"
_PREFIX_OF_IPV6 = 64
"""The smallest network that providers give to a customer."""


class TooManyRequests(DomainError):
    """A refusal that says when the same request will be answered."""

    def __init__(self, subject: str, per_second: int, seconds: float) -> None:
        wait = max(1, math.ceil(seconds))
        of_whom = {"key": "This API key", "address": "Your address"}[subject]
        when = f"in {wait} second{'s' if wait > 1 else ''}"
        message = f"{of_whom} may send {per_second:,} requests a second; send this one again {when}."
        super().__init__(ErrorCode.RATE_LIMITED, message)
        self.headers = {
            "Retry-After": str(wait),
            "RateLimit-Policy": f'"{subject}";q={per_second * SECONDS};w={SECONDS}',
            "RateLimit": f'"{subject}";r=0;t={wait}',
        }


class _Limits:
    """The settings, and the numbers of all callers."""

    def __init__(self) -> None:
        self.full_at: Any = [0.0] * PLACES
        self.read()

    def read(self, **_: object) -> None:
        """Read the settings, which change only in tests."""
        self.of_key, self.of_address = settings.RATE_LIMIT_KEY, settings.RATE_LIMIT_ADDRESS

    def acquire(self, subject: str, who: str, per_second: int, cost: float, *, is_over: bool = False) -> None:
        """Use a part of an allowance. Raises TooManyRequests if it is used up, unless the work `is_over` already."""
        # Texts have other hashes in every process, but the workers are forks of one process, so theirs are the same.
        now, place = time.monotonic(), hash(who) % PLACES
        full_at = self.full_at[place]
        if full_at < now:
            full_at = now
        elif full_at - now > SECONDS and not is_over:
            raise TooManyRequests(subject, per_second, full_at - now - SECONDS)
        self.full_at[place] = full_at + cost / per_second


_limits = _Limits()
setting_changed.connect(_limits.read)


def share(numbers: Any) -> None:
    """Use an array of PLACES numbers in memory that all processes share."""
    _limits.full_at = numbers


def require_allowance(environ: dict[str, Any], caller: Caller | None) -> None:
    """Count a request once. Raises TooManyRequests if its key or its address has sent too many."""
    if _COUNTED not in environ:
        _acquire(environ, caller, 1)
        environ[_COUNTED] = True


def charge_events(environ: Mapping[str, Any], caller: Caller, count: int) -> None:
    """Count the events of a batch that is answered already. Later requests may be refused."""
    _acquire(environ, caller, count / EVENTS_OF_REQUEST, is_over=True)


def _acquire(environ: Mapping[str, Any], caller: Caller | None, cost: float, *, is_over: bool = False) -> None:
    # A server sends for all its users from one address, so only what ships to users is limited by address.
    if _limits.of_address and (caller is None or caller.scope is Scope.CLIENT):
        network = _network_of(address_of(environ))
        if network is not None:
            _limits.acquire("address", network, _limits.of_address, cost, is_over=is_over)
    if _limits.of_key and caller is not None and caller.key_id:
        _limits.acquire("key", caller.key_id, _limits.of_key, cost, is_over=is_over)


@lru_cache(maxsize=10_000)
def _network_of(address: str) -> str | None:
    """Return the network that is limited together, or None for this machine and for clients that are not known."""
    parsed = parse_address(address)
    if parsed is None or parsed.is_loopback:
        return None
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((parsed, _PREFIX_OF_IPV6), strict=False))
    return address
