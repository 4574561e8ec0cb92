"""Storing what `usage` counted: a thread of each worker adds it, every few seconds, to what all of them counted.

A process that is killed loses what it counted since; one that ends stores it first.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import DataError, Error, IntegrityError, connection, transaction
from django.utils import timezone

from config.database.insertion import insert
from flags.models import LastUse, Usage
from flags.usage.counting import Counts, Tally, tally

logger = logging.getLogger(__name__)

KEPT = timedelta(days=90)
"""For how long counts are kept."""

_SECONDS_BETWEEN_STORES = 5
_SECONDS_TO_END = 20
"""How long the end of a worker waits for its last counts: less than the server waits for its workers."""
_BETWEEN_CLEANINGS = timedelta(days=1)

Row = tuple[int, str, datetime, str, int]
"""Environment, flag, hour, outcome, count."""

_ADD = "ON CONFLICT (environment_id, flag_key, hour, outcome) DO UPDATE SET count = flags_usage.count + excluded.count"
_MOVE_ON = (
    "ON CONFLICT (environment_id, flag_key, outcome) DO UPDATE SET hour = excluded.hour "
    "WHERE flags_lastuse.hour < excluded.hour"
)


class Storage:
    """Where one process puts its counts."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._told: dict[tuple[int, str, str], datetime] = {}
        """The last uses that this process has stored, so that each is stored once an hour."""
        self._cleaned_at: datetime | None = None
        self._is_cut_off = False

    def store(self) -> None:
        """Store all that was counted by now, or keep it for the next time where the database is away."""
        taken = self._tally.take()
        try:
            self._clean(timezone.now())  # first: what comes after the counts are added must not fail
            self._add(taken)
        except (IntegrityError, DataError):  # of an environment, say, that went with the database that was replaced
            logger.exception("The database refused what was counted of the usage of flags; it is left out")
        except (Error, OSError) as error:
            self._tally.give_back(taken)
            if not self._is_cut_off:  # said once, however long the database is away
                logger.warning("Cannot store the usage of flags, and will go on trying: %s", error)
            self._is_cut_off = True
            connection.close()
        else:
            if self._is_cut_off:
                logger.warning("The usage of flags is stored again")
            self._is_cut_off = False

    def _add(self, taken: Mapping[datetime, Counts]) -> None:
        rows = sorted(_rows(taken))  # two processes that lock the same rows do so in the same order
        if not rows:
            return
        uses = {(environment, key, outcome): hour for environment, key, hour, outcome, _ in rows}
        news = {which: hour for which, hour in sorted(uses.items()) if self._told.get(which) != hour}
        with transaction.atomic():
            insert(Usage, ("environment_id", "flag_key", "hour", "outcome", "count"), rows, _ADD)
            moved = [(*which, hour) for which, hour in news.items()]
            insert(LastUse, ("environment_id", "flag_key", "outcome", "hour"), moved, _MOVE_ON)
        self._told |= news

    def _clean(self, now: datetime) -> None:
        """Once a day, so that nothing grows for ever where nobody runs `maintain`."""
        if self._cleaned_at is None or now - self._cleaned_at >= _BETWEEN_CLEANINGS:
            delete_old(now)
            self._cleaned_at = now


def delete_old(now: datetime) -> str:
    """Delete what is too old to be asked for."""
    deleted = sum(model.objects.filter(hour__lt=now - KEPT).delete()[0] for model in (Usage, LastUse))
    return f"deleted {deleted:,} older than {KEPT.days} days"


def _rows(taken: Mapping[datetime, Counts]) -> Iterator[Row]:
    for hour, counts in taken.items():
        for environment_id, by_key in counts.items():
            for key, by_outcome in by_key.items():
                for outcome, number in by_outcome.items():
                    yield environment_id, key, hour, outcome, number


class StoringThread(threading.Thread):
    """It stores until it is ended, and then once more."""

    def __init__(self, tally: Tally) -> None:
        super().__init__(name="usage-storage", daemon=True)
        self._storage = Storage(tally)
        self._must_end = threading.Event()

    def run(self) -> None:
        while not self._must_end.wait(_SECONDS_BETWEEN_STORES):
            self._storage.store()
        self._storage.store()
        connection.close()

    def end(self) -> None:
        self._must_end.set()
        self.join(_SECONDS_TO_END)


_thread = StoringThread(tally)


def start(**_: Any) -> None:
    """Begin to store what this process counts."""
    _thread.start()


def end(**_: Any) -> None:
    """Store the last of it, when no request is left that could be counted."""
    _thread.end()
