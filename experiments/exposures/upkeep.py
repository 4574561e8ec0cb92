"""A thread of each worker that keeps experiments up to date for a minute after each reading of their results.

A reading that comes after many events must first add them to the totals, and would take the longer, the more there are.
People who look at results look again. So that they wait little, and the database works evenly, this is done meanwhile.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from uuid import UUID

from django.db import Error, connection
from django.utils import timezone

from config.database.timeouts import long_statements
from experiments.aggregates.refresh import refresh
from experiments.models import Experiment, Status

logger = logging.getLogger(__name__)

SECONDS_AFTER_A_READING = 60.0
_SECONDS_BETWEEN_REFRESHES = 1.0
_PAUSE = 2
"""A pause is at least this many times as long as the work before it, so that requests have most of the database."""


class Upkeep:
    """Remembers which experiments were read lately, and brings them up to date again and again."""

    def __init__(self) -> None:
        self._until: dict[UUID, float] = {}
        self._is_wanted = threading.Event()
        self._is_running = False

    def start(self) -> None:
        """Start the thread, which runs until the process ends. Without it, `note` does nothing."""
        self._is_running = True
        threading.Thread(target=self._run, name="upkeep-of-results", daemon=True).start()

    def note(self, experiment_id: UUID) -> None:
        """Keep an experiment up to date for a while, because it has just been read."""
        if self._is_running:
            self._until[experiment_id] = time.monotonic() + SECONDS_AFTER_A_READING
            self._is_wanted.set()

    def _run(self) -> None:
        while self._is_wanted.wait():
            self._is_wanted.clear()
            pause = _SECONDS_BETWEEN_REFRESHES
            while self._until:
                time.sleep(pause)
                begun = time.monotonic()
                self.work(begun, refresh_running)
                pause = max(_SECONDS_BETWEEN_REFRESHES, _PAUSE * (time.monotonic() - begun))
            connection.close()

    def work(self, now: float, refresh_one: Callable[[UUID], bool]) -> None:
        """Refresh each experiment that was read lately, and forget the others and those that cannot be refreshed.

        `now` is in seconds of the monotonic clock. `refresh_one` returns whether to go on with an experiment.
        """
        for experiment_id, until in list(self._until.items()):
            # One that was read meanwhile stays.
            if (until <= now or not refresh_one(experiment_id)) and self._until.get(experiment_id) == until:
                del self._until[experiment_id]


def refresh_running(experiment_id: UUID) -> bool:
    """Bring an experiment up to date, and return whether it is running.

    The next reading does what could not be done, and reports the error. It returns False then.
    """
    try:
        experiment = Experiment.objects.filter(pk=experiment_id, status=Status.RUNNING).first()
        if experiment is not None:
            with long_statements():
                refresh(experiment, timezone.now())
        return experiment is not None
    except (Error, OSError):
        connection.close()
    except Exception:  # of any kind: the thread must go on
        logger.exception("Cannot keep the results of an experiment up to date")
    return False


upkeep = Upkeep()


def start(**_: object) -> None:
    """Begin to keep results up to date in this process."""
    upkeep.start()
