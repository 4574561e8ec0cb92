"""The thread that follows other hosts: it pokes this host's signal file when the change log has
grown.
"""

from __future__ import annotations

import logging
import threading
import time

from django.db import Error, connection

from config import signal_file, snapshot
from config.database.notifications import Listener
from config.models import Change

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_LOOKS = 1.0
"""The longest wait. An announcement ends it at once, but can be lost, for example in a pool of
connections.
"""


def watch_other_hosts() -> None:
    """Start the thread, which runs until the process ends."""
    threading.Thread(target=_watch, args=(Listener(),), name="change-log-watcher", daemon=True).start()


def _watch(listener: Listener) -> None:
    seen: int | None = None
    is_failing = False
    while True:
        try:
            signal_file.reopen_if_replaced()
            listener.listen()  # first: a commit after the look then ends the wait
            seen = _look(seen)
            if is_failing:
                logger.warning("Looking for changes of other hosts again")
                is_failing = False
            listener.wait(SECONDS_BETWEEN_LOOKS)
        except (Error, OSError) as error:
            if not is_failing:  # logged once, however long the database is away
                logger.warning("Cannot look for changes of other hosts; trying again every second: %s", error)
                is_failing = True
            connection.close()
            time.sleep(SECONDS_BETWEEN_LOOKS)


def _look(seen: int | None) -> int:
    revision = Change.objects.latest_revision()
    # Each worker has a watcher, so a revision that this process has applied needs no poke.
    if revision not in (seen, snapshot.revision()):
        signal_file.poke()
    return revision
