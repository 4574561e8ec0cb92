"""The thread of a worker that follows the change log: it applies changes of this host as soon as a
request knows of one, and those of other hosts as soon as they are announced.
"""

from __future__ import annotations

import logging
import threading
import time
from datetime import datetime

from django.db import Error, connection

from config.database.notifications import Alarm, Listener
from config.database.schema import SchemaIsBehind, require_schema
from config.serving.saver import Saver
from config.snapshot import freshness, signal_file, state_file, tables
from config.snapshot.state_file import State
from config.snapshot.tables import Lateness, current

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_LOOKS = 1.0
"""The longest wait. An announcement ends it at once, but can be lost, for example in a pool of
connections.
"""


_PATIENCE_AT_START = 2.0
_MAX_START = 30.0
"""After this many seconds, a worker serves without a state: what needs one gets 503."""


class Follower:
    """Makes the snapshot of this process newer, and tells the requests that wait for that."""

    def __init__(self, listener: Listener, saver: Saver) -> None:
        self._listener = listener
        self._saver = saver
        self._alarm = Alarm()
        self._failures = 0
        self._logged: type[Exception] | None = None
        self._has_tried = threading.Event()
        self._offered: tuple[int, datetime | None] | None = None
        self.news = freshness.News(self._alarm.ring)

    def start(self) -> None:
        """Start the thread, which runs until the process ends."""
        freshness.wait_for(self.news)
        self._saver.start()
        threading.Thread(target=self._run, name="change-log-follower", daemon=True).start()

    def wait_for_state(self) -> None:
        """Wait until there is a state: of the database or, if that fails or takes long, of the file."""
        if not self._has_tried.wait(_PATIENCE_AT_START) and not state_file.restore():
            self._has_tried.wait(_MAX_START)

    def _run(self) -> None:
        tables.start_yielding_cpu()
        while True:
            try:
                self._follow()
                self._listener.wait(SECONDS_BETWEEN_LOOKS, self._alarm)
            except Exception as error:  # any error at all: without this thread nothing new is ever known
                self._fail(error)

    def _follow(self) -> None:
        number = self.news.begin()
        signal_file.reopen_if_replaced()
        if current.must_load:
            require_schema()
        self._listener.listen()  # first: a commit after the look then ends the wait
        signal = signal_file.read()
        if signal != current.seen:
            current.catch_up(self.news.announce_large_change)
        elif not current.is_newest():
            current.catch_up(self.news.announce_large_change)
            if signal_file.read() == signal:  # another host has made the change, or this one is about to say so
                signal_file.signal_change()
                current.catch_up(self.news.announce_large_change)
        self.news.succeed(number)
        if self._offered != current.newest:
            self._saver.offer(State.of_this_process())
            self._offered = current.newest
        self._has_tried.set()
        if self._logged is not None:
            logger.warning("Following changes again")
        self._failures, self._logged = 0, None

    def _fail(self, error: Exception) -> None:
        connection.close()
        self._failures += 1
        if self._failures == 1:  # an idle connection may have been closed while the database works
            return
        if type(error) is not self._logged:  # logged once, however long the database is away
            has_state = current.revision is not None or state_file.restore()
            meanwhile = "go on with the last known configuration" if has_state else "answer 503 meanwhile"
            is_defect = not isinstance(error, (Error, OSError, SchemaIsBehind))
            logger.warning("Cannot follow changes, and %s: %s", meanwhile, error, exc_info=error if is_defect else None)
            self._logged = type(error)
        self.news.fail(Lateness.OLD_SCHEMA if isinstance(error, SchemaIsBehind) else Lateness.CUT_OFF)
        self._has_tried.set()
        time.sleep(freshness.SECONDS_BETWEEN_TRIES)
