"""Hearing of changes that other hosts commit: this host's signal file is poked when the change log has grown."""

from __future__ import annotations

import logging
import threading
import time

from django.db import Error, connection

from config import signal_file
from config.models import Change

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_LOOKS = 1.0


def watch_other_hosts() -> None:
    """Start looking, in a thread of its own, until the process ends."""
    threading.Thread(target=_watch, name="change-log-watcher", daemon=True).start()


def _watch() -> None:
    seen: int | None = None
    while True:
        try:
            signal_file.reopen_if_replaced()
            revision = Change.objects.latest_revision()
        except (Error, OSError) as error:
            logger.warning("Cannot look for changes of other hosts: %s", error)
            connection.close()
        else:
            if revision != seen:
                signal_file.poke()
            seen = revision
        time.sleep(SECONDS_BETWEEN_LOOKS)
