"""The thread of a worker that keeps the last known state in a file, for processes that start while
the database is away.
"""

from __future__ import annotations

import logging
import threading
import time

from config.monitoring.log_lines import OutageLog
from config.snapshot import freshness, state_file, tables
from config.snapshot.state_file import State

logger = logging.getLogger(__name__)

_SECONDS_BETWEEN_SIGNS = 10.0
"""How often the file says that its state is still the newest."""
_SHARE = 20
"""Writing takes at most this part of the time."""


class Saver:
    """Saves the states that the follower offers."""

    def __init__(self) -> None:
        self._is_offered = threading.Event()
        self._offered: State | None = None
        self._saved: State | None = None
        self._outages = OutageLog(
            logger,
            failing="Cannot save the last known state",
            working="The last known state is saved again",
        )

    def start(self) -> None:
        """Start the thread, which runs until the process ends."""
        threading.Thread(target=self._run, name="state-saver", daemon=True).start()

    def offer(self, state: State) -> None:
        """Save this state soon, unless a newer one is offered before."""
        self._offered = state
        self._is_offered.set()

    def _run(self) -> None:
        tables.start_yielding_cpu()
        while True:
            self._is_offered.wait(_SECONDS_BETWEEN_SIGNS)
            self._is_offered.clear()
            began = time.monotonic()
            self.save()
            time.sleep(_SHARE * (time.monotonic() - began))

    def save(self) -> None:
        """Save the state that was offered last, or note that it is still the newest, unless that is not known."""
        state = self._offered
        if state is None or (state is self._saved and freshness.staleness() is not None):
            return
        try:
            if state_file.keep(state, anew=self._saved is None):
                self._saved = state
        except Exception as error:  # of any kind: the thread must go on
            self._outages.fail(error, is_defect=not isinstance(error, OSError))
        else:
            self._outages.succeed()
