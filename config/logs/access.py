"""The access log: a line for each request, written by another thread than the one that answers.

A line has the path without its query, which may name users, and no header of the client.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from datetime import UTC, datetime
from typing import Any

import orjson

from config.logs.addresses import address_of
from config.logs.lines import without_secrets
from config.logs.watching import Answered

_PREFIX_OF_KEYS = "hyd_"
"""A client may put its key into a path or a request id by mistake. Looking for it costs less than replacing secrets."""

_Entry = tuple[float, str, str, int, float, int | None, str, str, str]
_FIELDS = ("method", "path", "status", "ms", "bytes", "operation", "request", "address")


class AccessLog:
    """Lines that wait to be written together."""

    def __init__(self, form: str, *, out: Any = None) -> None:
        self._write_line = _json if form == "json" else _text
        self._out = out
        self._waiting: deque[_Entry] = deque()

    def add(self, answered: Answered) -> None:
        """Keep a line, which `write` writes. This costs a request next to nothing."""
        environ, operation, status, _, size, seconds = answered
        self._waiting.append(
            (
                time.time(), environ["REQUEST_METHOD"], environ["PATH_INFO"], status, round(seconds * 1000, 3), size,
                operation, answered.request_id, address_of(environ),
            )
        )  # fmt: skip

    def write(self, **_: object) -> None:
        """Write the lines that wait."""
        lines = [self._write_line(self._waiting.popleft()) for _ in range(len(self._waiting))]
        if lines:
            out, text = self._out or sys.stderr, "".join(lines)
            out.write(without_secrets(text) if _PREFIX_OF_KEYS in text else text)
            out.flush()


def _stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _json(entry: _Entry) -> str:
    line = {"time": _stamp(entry[0]), "level": "info", "logger": "access", **dict(zip(_FIELDS, entry[1:], strict=True))}
    return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE, default=str).decode()


def _text(entry: _Entry) -> str:
    moment, method, path, status, milliseconds, size, operation, request, address = entry
    body = "stream" if size is None else f"{size} bytes"
    # A path may contain line breaks, which would forge other lines.
    words = f"{method} {ascii(path)[1:-1]} {status} {milliseconds} ms {body} {operation} from {address}"
    return f"{_stamp(moment)} INFO access {words} [request {request}]\n"
