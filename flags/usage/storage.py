"""Store the counts: a thread of each worker adds them to the database every few seconds.

A process that ends stores its counts first. A process that is killed loses those of the last seconds, and so does one
whose connection breaks during COMMIT.
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
from flags.usage.counting import Counts, Tally, tally
from flags.usage.recent_users import Notebook, notebook
from flags.usage.sample_storage import Storage as RecentUsersStorage

logger = logging.getLogger(__name__)

RETENTION = timedelta(days=90)
"""How long counts are kept."""

_SECONDS_BETWEEN_STORES = 5
_SECONDS_TO_END = 20
"""How long a worker that ends waits to store its last counts. The server waits longer for its workers."""
_BETWEEN_CLEANINGS = timedelta(days=1)

Row = tuple[int, str, datetime, str, int]
"""Environment, flag, hour, outcome, count."""

_ADD = "ON CONFLICT (environment_id, flag_key, hour, outcome) DO UPDATE SET count = flags_usage.count + excluded.count"
_MOVE_ON = (
    "ON CONFLICT (environment_id, flag_key, outcome) DO UPDATE SET hour = excluded.hour "
    "WHERE flags_lastuse.hour < excluded.hour"
)


class Storage:
    """Stores the counts of one process."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._last_uses: dict[tuple[int, str, str], datetime] = {}
        """The last uses that this process has stored. Each use is thus stored once an hour."""
        self._cleaned_at: datetime | None = None
        self._outages = OutageLog(
            logger, failing="Cannot store the usage of flags", working="The usage of flags is stored again"
        )
        self._is_committing = False

    def store(self) -> None:
        """Store all counts so far, or keep them for the next time if the database is unavailable."""
        taken: Mapping[datetime, Counts] = {}
        try:
            self._is_committing = False
            taken = self._tally.take()
            self._clean(timezone.now())  # first, because nothing may fail after the counts are added
            self._add(taken)
        except (IntegrityError, DataError):  # such as counts of an environment that a replaced database does not have
            logger.exception("The database refused the counts of the usage of flags; they are dropped")
        except (Error, OSError) as error:
            if not self._is_committing:  # otherwise they may be stored, and nothing is counted twice
                self._tally.give_back(taken)
            self._outages.fail(error)
            connection.close()
        else:
            self._outages.succeed()

    def _add(self, taken: Mapping[datetime, Counts]) -> None:
        rows = sorted(_rows(taken))  # so that all processes lock rows in the same order
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
        """Delete old counts once a day, so that they do not grow without end if nobody runs `maintain`."""
        if self._cleaned_at is None or now - self._cleaned_at >= _BETWEEN_CLEANINGS:
            delete_old(now)
            self._cleaned_at = now


def delete_old(now: datetime) -> str:
    """Delete counts that are older than the retention, and return a line for the log."""
    deleted = sum(model.objects.filter(hour__lt=now - RETENTION).delete()[0] for model in (Usage, LastUse))
    return f"deleted {deleted:,} older than {RETENTION.days} days"


def _rows(taken: Mapping[datetime, Counts]) -> Iterator[Row]:
    for hour, counts in taken.items():
        for environment_id, by_key in counts.items():
            for key, by_outcome in by_key.items():
                for outcome, number in by_outcome.items():
                    yield environment_id, key, hour, outcome, number


class StoringThread(threading.Thread):
    """Stores the counts and the recent users every few seconds until it is ended, and then once more."""

    def __init__(self, tally: Tally, notebook: Notebook) -> None:
        super().__init__(name="usage-storage", daemon=True)
        self._storage = Storage(tally)
        self._recent_users = RecentUsersStorage(notebook)
        self._must_end = threading.Event()

    def start(self) -> None:
        self._recent_users.prepare()  # so that the users of the first requests are noted
        super().start()

    def run(self) -> None:
        while not self._must_end.wait(_SECONDS_BETWEEN_STORES):
            self._store()
        self._store()
        connection.close()

    def _store(self) -> None:
        self._storage.store()
        self._recent_users.store()

    def end(self) -> None:
        self._must_end.set()
        self.join(_SECONDS_TO_END)


_thread = StoringThread(tally, notebook)


def start(**_: Any) -> None:
    """Begin to store the counts of this process."""
    _thread.start()


def end(**_: Any) -> None:
    """Store the last counts. Call it when no request is left to count."""
    _thread.end()
