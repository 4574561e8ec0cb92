"""Requests to the service, from threads and from event loops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from importlib import metadata
from random import SystemRandom
from typing import Any
from weakref import WeakKeyDictionary

import httpx

STREAMS = "/ofrep/v1/streams/"
_FIRST_PAUSE, _MAX_PAUSE = 1.0, 60.0
_MAX_ASKED_PAUSE = 3_600.0

# Applications that seed the `random` module must get the same numbers as without this client.
_random = SystemRandom()

logger = logging.getLogger("halyard_openfeature")


class Api:
    """The service at an address, with a key. `options` are those of httpx, such as `verify` or `proxy`."""

    def __init__(self, url: str, key: str, timeout: float, options: Mapping[str, Any]) -> None:
        self.timeout = timeout
        headers = {"Authorization": f"Bearer {key}", "User-Agent": f"halyard-openfeature/{_version()}"}
        self._options = {"base_url": url.rstrip("/"), "headers": headers, "timeout": timeout, **options}
        self.reset()

    def reset(self) -> None:
        """Make new connections, because a forked process must not use those of its parent."""
        self.client = httpx.Client(**self._options)
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = WeakKeyDictionary()

    @property
    def async_client(self) -> httpx.AsyncClient:
        """The client of the running event loop. Connections do not work in other loops."""
        loop = asyncio.get_running_loop()
        client = self._by_loop.get(loop)
        if client is None:
            for ended in [other for other in list(self._by_loop) if other.is_closed()]:
                del self._by_loop[ended]  # its connections refer to the loop, so neither would ever be freed
            client = self._by_loop[loop] = httpx.AsyncClient(**self._options)
        return client

    def close(self) -> None:
        self.client.close()

    async def aclose(self) -> None:
        client = self._by_loop.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()


def pause_after(failures: int, response: httpx.Response | None = None) -> float:
    """Return the seconds to wait before the next attempt. They grow with each failure, and are random."""
    longest = min(_MAX_PAUSE, _FIRST_PAUSE * 2.0 ** min(failures - 1, 10))
    return max(_random.uniform(longest / 2, longest), retry_after(response))


def retry_after(response: httpx.Response | None) -> float:
    """Return the seconds in `Retry-After`, at most an hour, or 0."""
    text = "" if response is None else response.headers.get("Retry-After", "")
    return min(_MAX_ASKED_PAUSE, float(text)) if text.isascii() and text.isdigit() else 0.0


def _version() -> str:
    try:
        return metadata.version("halyard-openfeature")
    except metadata.PackageNotFoundError:  # in the service's repository
        return "unreleased"


class _WithoutStreams(logging.Filter):
    """Keeps the addresses of event streams out of logs, because they contain a token."""

    def filter(self, record: logging.LogRecord) -> bool:
        return STREAMS not in record.getMessage()


logging.getLogger("httpx").addFilter(_WithoutStreams())
