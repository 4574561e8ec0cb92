"""The thread that sends messages, in one process of each server. Each attempt has a thread of its own.

It looks for work when the change log grows, when a message is due, and every few seconds, because another host may have
died. Only this thread uses the database, with one connection.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable
from uuid import UUID

from django.db import Error, connection
from django.utils import timezone

from config.monitoring import counting, metrics
from config.monitoring.log_lines import OutageLog
from config.snapshot import signal_file
from config.webhooks import outbox
from config.webhooks.outbox import Attempt
from config.webhooks.sending import Outcome, send

logger = logging.getLogger(__name__)

MAX_IN_FLIGHT = 32
MAX_IN_FLIGHT_EACH = 4
"""Attempts of one webhook at the same time, so that a slow receiver does not hold up the others."""
_FIRST_PROCESS = "worker-1"
_SECONDS_BETWEEN_SIGNALS = 0.1
_SECONDS_BETWEEN_LOOKS = 5.0
_SECONDS_AFTER_A_FAILURE = 1.0

Start = Callable[[Callable[[], None]], None]
"""Calls a function in a thread of its own."""


def start_in_first_worker(**_: object) -> None:
    if counting.process.name == _FIRST_PROCESS:
        threading.Thread(target=Sender().run, name="webhooks", daemon=True).start()


def in_thread(function: Callable[[], None]) -> None:
    # A daemon: when the process ends, its attempts end, and are made again when their leases end.
    threading.Thread(target=function, name="webhook", daemon=True).start()


class Sender:
    """Starts attempts and records their outcomes. `send` makes one attempt, and `start` calls it in a thread."""

    def __init__(self, send: Callable[..., Outcome] = send, start: Start = in_thread) -> None:
        self._send = send
        self._start = start
        self._ended: queue.SimpleQueue[tuple[Attempt, Outcome]] = queue.SimpleQueue()
        self._in_flight: Counter[UUID] = Counter()
        self._signal: int | None = None
        self._look_at = 0.0
        self._outages = OutageLog(logger, failing="Cannot send webhooks", working="Webhooks are sent again")

    def run(self) -> None:
        while True:
            try:
                self._turn()
                self._outages.succeed()
            except (Error, OSError) as error:
                connection.close()
                self._outages.fail(error)
                time.sleep(_SECONDS_AFTER_A_FAILURE)
            except Exception:  # any error at all: without this thread, nothing is ever sent
                logger.exception("Cannot send webhooks; trying again")
                time.sleep(_SECONDS_AFTER_A_FAILURE)

    def _turn(self) -> None:
        """Wait a moment for an attempt to end, and then look for work if there may be some."""
        has_news = self.record_ended(wait=_SECONDS_BETWEEN_SIGNALS)
        signal = signal_file.read()
        if has_news or signal != self._signal or time.monotonic() >= self._look_at:
            self.look()
            self._signal = signal

    def look(self) -> None:
        """Queue messages about changes, and begin attempts to send what is due."""
        while outbox.queue_changes(timezone.now()):
            pass
        while attempts := self._claim():
            for attempt in attempts:
                self._in_flight[attempt.delivery.webhook_id] += 1
                self._start(lambda attempt=attempt: self._make(attempt))  # type: ignore[misc]  # mypy infers no type
        metrics.webhooks_waiting.set(outbox.count_waiting())
        due, now = outbox.next_due(), timezone.now()
        seconds = max((due - now).total_seconds(), _SECONDS_BETWEEN_SIGNALS) if due else _SECONDS_BETWEEN_LOOKS
        self._look_at = time.monotonic() + min(seconds, _SECONDS_BETWEEN_LOOKS)

    def _claim(self) -> list[Attempt]:
        free = MAX_IN_FLIGHT - self._in_flight.total()
        return outbox.claim(timezone.now(), free, +self._in_flight, MAX_IN_FLIGHT_EACH)

    def _make(self, attempt: Attempt) -> None:
        try:
            outcome = self._send(attempt.url, attempt.body, attempt.headers)
        except Exception as error:  # any error at all: this attempt must not count as one in flight for ever
            logger.exception("An attempt to send a webhook failed")
            outcome = Outcome(None, f"an error of the server ({type(error).__name__})", 0)
        self._ended.put((attempt, outcome))

    def record_ended(self, wait: float = 0) -> bool:
        """Record attempts that have ended, and return whether there were any. Wait `wait` seconds for the first one."""
        has_ended = False
        try:
            while True:
                attempt, outcome = self._ended.get(timeout=0 if has_ended else wait)
                has_ended = True
                self._in_flight[attempt.delivery.webhook_id] -= 1
                outbox.record(attempt, outcome, timezone.now())
        except queue.Empty:
            return has_ended
