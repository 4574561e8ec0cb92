"""The thread that ends what takes too long: bodies that do not arrive, and requests that wait for a thread."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from config.database.connections import forbid_waiting
from config.serving.gateway.bodies import Body, Discarder, Readers
from config.serving.gateway.connections import Connection, bytes_sent, stop_receiving
from config.serving.gateway.exchange import Exchange
from config.serving.gateway.pools import Pool

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_LOOKS = 0.25
SECONDS_TO_SEND = 0.05
"""How long an answer may take from here into the socket."""
_MAX_TO_SEND = 0.25
"""The same on a machine that is busy."""
_PRECISION = 0.02
"""How exactly, in seconds, the system knows since when nothing was sent on a connection."""


class _Answered(NamedTuple):
    """A late body, the size of the answer that it got, and what had been sent before on the connections it may have."""

    body: Body
    size: int
    sent_before: dict[Connection, int]

    def may_be_on(self, connection: Connection, total: int) -> bool:
        before = self.sent_before.get(connection)
        return before is not None and total - before == self.size


class Cutter:
    """Answers requests with late bodies, and closes the connections on which these answers went out.

    granian does not say which connection that is. It is one on which nothing was sent while the body was awaited, and
    then as many bytes as the answer has.
    """

    def __init__(self, readers: Readers, answer: Callable[[Exchange], int]) -> None:
        self._readers = readers
        self._answer = answer
        """Answers a request, and returns the size of the answer."""
        self._answered: list[_Answered] = []

    def cut(self, now: float) -> bool:
        """Answer late requests, and return whether there are connections to close."""
        if late := self._readers.cut_late(now):
            sent = bytes_sent(_port(late[0].exchange))
            for body in late:
                latest = body.begun + _PRECISION
                awaiting = {connection: total for connection, (total, since, _) in sent.items() if since < latest}
                self._answered.append(_Answered(body, self._answer(body.exchange), awaiting))
        return bool(self._answered)

    def close(self) -> None:
        self._answered = [answered for answered in self._answered if self._readers.is_held_up_by(answered.body)]
        if not self._answered:
            return
        sent = bytes_sent(_port(self._answered[0].body.exchange))
        for connection, (total, *_) in sent.items():
            if any(answered.may_be_on(connection, total) for answered in self._answered):
                stop_receiving(connection)


class DiscardCutter:
    """Closes connections whose request has its answer, but whose body is not sent to its end.

    On such a connection, nothing was sent or received since that answer. One that is idle since the same moment looks
    the same, and is closed as well, as after any timeout of an idle connection.
    """

    def __init__(self, discarder: Discarder) -> None:
        self._discarder = discarder
        self._late: Sequence[Exchange] = ()

    def cut(self, now: float) -> bool:
        """Return whether there are connections to close."""
        self._late = self._discarder.late(now)
        return bool(self._late)

    def close(self) -> None:
        if not self._late:
            return
        answers = [exchange.answered_at or 0 for exchange in self._late]
        for connection, (_, since, unheard_since) in bytes_sent(_port(self._late[0])).items():
            is_answer = any(at - _PRECISION < since < at + _MAX_TO_SEND for at in answers)
            if is_answer and unheard_since < since + _PRECISION:
                stop_receiving(connection)


def _port(exchange: Exchange) -> int:
    return int(exchange.environ["SERVER_PORT"])


class Timekeeper:
    """Looks four times a second for what is late in these pools, and for these cutters."""

    def __init__(self, cutters: Sequence[Cutter | DiscardCutter], pools: Sequence[Pool[Any]]) -> None:
        self._cutters = cutters
        self._pools = pools

    def start(self) -> None:
        threading.Thread(target=self._run, name="timekeeper", daemon=True).start()

    def _run(self) -> None:
        forbid_waiting()
        while True:
            time.sleep(SECONDS_BETWEEN_LOOKS)
            try:
                self.look(time.monotonic())
            except Exception:  # any error at all: without this thread, threads could be held up for ever
                logger.exception("Cannot end what takes too long; trying again")

    def look(self, now: float) -> None:
        """End everything that is late now."""
        for pool in self._pools:
            pool.give_up_late_tasks(now)
        if [cutter for cutter in self._cutters if cutter.cut(now)]:
            time.sleep(SECONDS_TO_SEND)
            for cutter in self._cutters:
                cutter.close()
