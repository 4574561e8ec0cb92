"""The thread of a worker that follows the change log: it applies changes of this host as soon as a
request knows of one, and those of other hosts as soon as they are announced.
"""

from __future__ import annotations

import logging
import threading
import time

from django.db import Error, connection

from config import signal_file
from config.database.notifications import Alarm, Listener
from config.snapshot import freshness, tables
from config.snapshot.tables import current

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_LOOKS = 1.0
"""The longest wait. An announcement ends it at once, but can be lost, for example in a pool of
connections.
"""


class Follower:
    """Makes the snapshot of this process newer, and tells the requests that wait for that."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._alarm = Alarm()
        self._failures = 0
        self.news = freshness.News(self._alarm.ring)

    def start(self) -> None:
        """Start the thread, which runs until the process ends."""
        freshness.wait_for(self.news)
        threading.Thread(target=self._run, name="change-log-follower", daemon=True).start()

    def _run(self) -> None:
        tables.give_way_often()
        while True:
            try:
                self._follow()
                self._listener.wait(SECONDS_BETWEEN_LOOKS, self._alarm)
            except Exception as error:  # any error at all: without this thread nothing new is ever known
                self._fail(error)

    def _follow(self) -> None:
        number = self.news.begin()
        signal_file.reopen_if_replaced()
        self._listener.listen()  # first: a commit after the look then ends the wait
        if signal_file.read() != current.seen:
            current.catch_up(self.news.announce_large_change)
        elif not current.is_newest():  # another host has made a change
            current.catch_up(self.news.announce_large_change)
            signal_file.poke()
            current.catch_up(self.news.announce_large_change)
        self.news.succeed(number)
        if self._failures > 1:
            logger.warning("Following changes again")
        self._failures = 0

    def _fail(self, error: Exception) -> None:
        connection.close()
        self._failures += 1
        if self._failures == 1:  # an idle connection may have been closed while the database works
            return
        self.news.fail()
        if self._failures == 2:  # logged once, however long the database is away
            is_defect = not isinstance(error, (Error, OSError))
            message = "Cannot follow changes, and go on with the last known configuration: %s"
            logger.warning(message, error, exc_info=error if is_defect else None)
        time.sleep(freshness.SECONDS_BETWEEN_TRIES)
