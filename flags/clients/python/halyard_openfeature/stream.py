"""The event stream of the service, which announces changes (Server-Sent Events)."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from typing import Any

import httpx

from .api import Api

_SECONDS_OF_SILENCE = 45.0  # the service sends something every 15 seconds
_NO_FLAG = "-"  # no flag can have this key, so the answer has only the address of the stream
_revision = re.compile(r"(\d{1,18})(?:\.\d+)?")


class Stream:
    """The open stream of an environment. `close` may be called from any thread, and ends the iteration.

    `is_offered` is False if the service offers no stream. `was_opened` is True once it has been open.
    """

    def __init__(self) -> None:
        self.is_offered, self.was_opened = True, False
        self._response: httpx.Response | None = None
        self._is_closed = False

    def revisions(self, api: Api, last: int) -> Iterator[int]:
        """Yield each new revision until the stream ends. Raises httpx.HTTPError."""
        address = _find_address(api)
        self.is_offered = address is not None
        if address is None:
            return
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(last), "Cache-Control": "no-store"}
        timeout = httpx.Timeout(api.timeout, read=_SECONDS_OF_SILENCE)
        request = api.client.build_request("GET", address, headers=headers, timeout=timeout)
        del request.headers["Authorization"]  # the address contains a token, and may be on another host
        with closing(api.client.send(request, stream=True)) as response:
            response.raise_for_status()
            self._response, self.was_opened = response, True
            if not self._is_closed:
                yield from map(_revision_of, messages(response.iter_lines()))

    def close(self) -> None:
        self._is_closed = True
        response = self._response
        stream = response.extensions.get("network_stream") if response is not None else None
        connection = stream.get_extra_info("socket") if stream is not None else None
        if connection is not None:
            with suppress(OSError):  # wake the reading thread
                connection.shutdown(socket.SHUT_RDWR)


def messages(lines: Iterable[str]) -> Iterator[str]:
    """Yield the data of each event in the lines of a stream. Comments and other fields are ignored."""
    data: list[str] = []
    for line in lines:
        if not line:
            if data:
                yield "\n".join(data)
            data = []
        elif line.startswith("data:"):
            data.append(line.removeprefix("data:").removeprefix(" "))


def _revision_of(message: str) -> int:
    """Return the revision in a message, or 0."""
    try:
        matched = _revision.fullmatch(json.loads(message)["etag"])
    except (ValueError, KeyError, TypeError):
        return 0
    return int(matched[1]) if matched else 0


def _find_address(api: Api) -> str | None:
    response = api.client.post("/ofrep/v1/evaluate/flags", json={"context": {"flags": [_NO_FLAG]}})
    response.raise_for_status()
    answer: Any = response.json()
    streams = answer.get("eventStreams") or []
    return next((str(stream["url"]) for stream in streams if stream.get("type") == "sse"), None)
