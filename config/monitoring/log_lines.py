"""Log lines: their text or JSON, with the id of the request and without secrets, and how often they are repeated."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import MutableMapping
from logging import Logger
from typing import Any

import orjson
import structlog

from config.monitoring.request_ids import current_request_id

_MAX_LINES, _WINDOW_SECONDS = 20, 10.0
"""How many similar lines may be written in how many seconds. The next line says how many were left out."""
_MAX_KINDS = 1000
_SECRETS = (
    (re.compile(r"\bhyd_([a-z])_[A-Za-z0-9_-]+"), r"hyd_\1_..."),
    (re.compile(r"(?i)\b(bearer\s+|token=|password=|secret_key=)[^\s&\"',;]+"), r"\1..."),
    (re.compile(r"(\w+://[^\s:/@]+):[^\s@/]+@"), r"\1:...@"),
)
"""API keys, tokens in addresses, passwords, and addresses of databases with a password."""

Event = MutableMapping[str, Any]


def without_secrets(text: str) -> str:
    """Replace everything that looks like a key, a token or a password."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


class Formatter(structlog.stdlib.ProcessorFormatter):
    """Writes records of any logger as `text` or `json`."""

    def __init__(self, form: str) -> None:
        stamp = structlog.processors.TimeStamper(fmt="iso", utc=True, key="time")
        about: list[structlog.typing.Processor] = [
            structlog.stdlib.add_logger_name,
            structlog.stdlib.add_log_level,
            stamp,
            _add_request,
            structlog.processors.EventRenamer("message"),
        ]
        last = [structlog.processors.format_exc_info, _render_json] if form == "json" else [_render_text]
        super().__init__(foreign_pre_chain=about, processors=[self.remove_processors_meta, *last])

    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))


def _add_request(_logger: Any, _method: str, event: Event) -> Event:
    request = current_request_id()
    if request is not None:
        event["request"] = request
    return event


def _render_json(_logger: Any, _method: str, event: Event) -> str:
    return orjson.dumps(event, default=str).decode()


def _render_text(_logger: Any, _method: str, event: Event) -> str:
    request = event.get("request")
    line = f"{event['time']} {event['level'].upper()} {event['logger']} {event['message']}"
    if request is not None and request not in event["message"]:
        line += f" [request {request}]"
    structlog.processors.format_exc_info(None, "", event)
    return f"{line}\n{event['exception']}" if "exception" in event else line


class RateLimitFilter(logging.Filter):
    """Drops lines that repeat, such as those of every request during an outage."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._kinds: dict[tuple[str, int, str], _Window] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind, now = (record.name, record.levelno, str(record.msg)), time.monotonic()
        with self._lock:
            if len(self._kinds) >= _MAX_KINDS:
                self._kinds.clear()
            window = self._kinds.setdefault(kind, _Window(now))
            left_out = 0
            if now - window.begun >= _WINDOW_SECONDS:
                left_out = window.count - _MAX_LINES
                window.begun, window.count = now, 0
            window.count += 1
            passes = window.count <= _MAX_LINES
        if left_out > 0:
            record.msg = f"{record.getMessage()} [{left_out:,} more such lines were left out before]"
            record.args = None
        return passes


class _Window:
    __slots__ = ("begun", "count")

    def __init__(self, begun: float) -> None:
        self.begun = begun
        self.count = 0


class WithoutRepetition(logging.Filter):
    """Drops Django's lines about responses, except for those with a traceback. The service logs the others itself."""

    def filter(self, record: logging.LogRecord) -> bool:
        return getattr(record, "status_code", 500) >= 500 and bool(record.exc_info)


class OutageLog:
    """Logs the first failure of each outage, as `failing`, and its end, as `working`, but not each attempt."""

    def __init__(self, logger: Logger, *, failing: str, working: str) -> None:
        self._logger = logger
        self._failing = f"{failing}, and keep trying: %s"
        self._working = working
        self._is_out = False

    def fail(self, error: Exception, *, is_defect: bool = False) -> None:
        """Report a failure. A defect is logged with its traceback."""
        if not self._is_out:
            self._logger.warning(self._failing, error, exc_info=error if is_defect else None)
        self._is_out = True

    def succeed(self) -> None:
        if self._is_out:
            self._logger.warning(self._working)
        self._is_out = False
