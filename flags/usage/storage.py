"""Store counts and recent users: a thread of each worker adds them to the database every few seconds.

A process that ends stores its counts first. Counts of the last seconds are lost if a process is killed, or if its
connection breaks during COMMIT.
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
from config.monitoring.log_lines import OutageLog
from flags.models import LastUse, Usage
from flags.usage import recent_users
from flags.usage.counting import Counts, Tally, tally
from flags.usage.recent_users import RecentUsers
from flags.usage.sample_storage import SampleStorage

logger = logging.getLogger(__name__)

RETENTION = timedelta(days=90)

_SECONDS_BETWEEN_STORES = 5
_SECONDS_TO_END = 20
"""How long an ending worker waits for its last counts. The server waits longer for its workers."""
_BETWEEN_CLEANINGS = timedelta(days=1)

Row = tuple[int, str, datetime, str, int]
"""Environment id, flag key, hour, outcome, count."""

_ADD = "ON CONFLICT (environment_id, flag_key, hour, outcome) DO UPDATE SET count = flags_usage.count + excluded.count"
_MOVE_ON = (
    "ON CONFLICT (environment_id, flag_key, outcome) DO UPDATE SET hour = excluded.hour "
    "WHERE flags_lastuse.hour < excluded.hour"
)


class CountStorage:
    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._last_uses: dict[tuple[int, str, str], datetime] = {}
        """The newest hour of each use that this process has stored, so that it stores each use once an hour."""
        self._cleaned_at: datetime | None = None
        self._outages = OutageLog(
            logger, failing="Cannot store the usage of flags", working="The usage of flags is stored again"
        )
        self._is_committing = False

    def store(self) -> None:
        """Store all counts so far, or keep them for the next time if the database is unavailable."""
        counts: Mapping[datetime, Counts] = {}
        try:
            self._is_committing = False
            counts = self._tally.pop()
            self._clean(timezone.now())  # first, because nothing may fail after counts are added
            self._add(counts)
        except (IntegrityError, DataError):  # such as after the database was replaced
            logger.exception("The database refused the counts of the usage of flags; they are dropped")
        except (Error, OSError) as error:
            if not self._is_committing:  # otherwise they may be stored already
                self._tally.put_back(counts)
            self._outages.fail(error)
            connection.close()
        else:
            self._outages.succeed()

    def _add(self, counts: Mapping[datetime, Counts]) -> None:
        rows = sorted(_rows(counts))  # so that all processes lock rows in the same order
        if not rows:
            return
        uses = {(environment, key, outcome): hour for environment, key, hour, outcome, _ in rows}
        newer = {use: hour for use, hour in sorted(uses.items()) if self._last_uses.get(use) != hour}
        with transaction.atomic():
            insert(Usage, ("environment_id", "flag_key", "hour", "outcome", "count"), rows, _ADD)
            last_uses = [(*use, hour) for use, hour in newer.items()]
            insert(LastUse, ("environment_id", "flag_key", "outcome", "hour"), last_uses, _MOVE_ON)
            self._is_committing = connection.vendor == "postgresql"  # SQLite has no connection that could break
        self._last_uses |= newer

    def _clean(self, now: datetime) -> None:
        """Delete old counts once a day, also if nobody runs `maintain`."""
        if self._cleaned_at is None or now - self._cleaned_at >= _BETWEEN_CLEANINGS:
            delete_old(now)
            self._cleaned_at = now


def delete_old(now: datetime) -> str:
    """Delete counts older than the retention, and return a line for the log."""
    deleted = sum(model.objects.filter(hour__lt=now - RETENTION).delete()[0] for model in (Usage, LastUse))
    return f"deleted {deleted:,} older than {RETENTION.days} days"


def _rows(counts: Mapping[datetime, Counts]) -> Iterator[Row]:
    for hour, by_environment in counts.items():
        for environment_id, by_key in by_environment.items():
            for key, by_outcome in by_key.items():
                for outcome, number in by_outcome.items():
                    yield environment_id, key, hour, outcome, number


class StoringThread(threading.Thread):
    """Stores counts and recent users every few seconds, and once more at its end."""

    def __init__(self, tally: Tally, recent_users: RecentUsers) -> None:
        super().__init__(name="usage-storage", daemon=True)
        self._counts = CountStorage(tally)
        self._sample = SampleStorage(recent_users)
        self._must_end = threading.Event()

    def start(self) -> None:
        self._sample.prepare()  # so that the users of the first requests are recorded
        super().start()

    def run(self) -> None:
        while not self._must_end.wait(_SECONDS_BETWEEN_STORES):
            self._store()
        self._store()
        connection.close()

    def _store(self) -> None:
        self._counts.store()
        self._sample.store()

    def end(self) -> None:
        self._must_end.set()
        self.join(_SECONDS_TO_END)


_thread = StoringThread(tally, recent_users.of_process)


def start(**_: Any) -> None:
    """Begin to store the counts of this process."""
    _thread.start()


def end(**_: Any) -> None:
    """Store the last counts. No request may be left to count."""
    _thread.end()
