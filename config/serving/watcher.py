"""Hearing of changes that other hosts commit: this host's signal file is poked when the change log has grown."""

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
"""At most. An announcement makes the next look come at once; but one may be lost, in a pool of connections say."""


def watch_other_hosts() -> None:
    """Start looking, in a thread of its own, until the process ends."""
    threading.Thread(target=_watch, args=(Listener(),), name="change-log-watcher", daemon=True).start()


def _watch(listener: Listener) -> None:
    seen: int | None = None
    is_cut_off = False
    while True:
        try:
            signal_file.reopen_if_replaced()
            listener.listen()  # first: what the look is too early for is announced to the wait
            seen = _look(seen)
            if is_cut_off:
                logger.warning("Changes of other hosts are looked for again")
                is_cut_off = False
            listener.wait(SECONDS_BETWEEN_LOOKS)
        except (Error, OSError) as error:
            if not is_cut_off:  # said once, however long the database is away
                logger.warning("Cannot look for changes of other hosts, and will go on trying: %s", error)
                is_cut_off = True
            connection.close()
            time.sleep(SECONDS_BETWEEN_LOOKS)


def _look(seen: int | None) -> int:
    revision = Change.objects.latest_revision()
    # Each worker has a watcher, and need not be told by this one of what its own process has caught up with.
    if revision not in (seen, snapshot.revision()):
        signal_file.poke()
    return revision
