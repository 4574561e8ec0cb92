"""Count evaluations in the memory of this process, without waiting for a database. `storage` stores the counts."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from config import snapshot
from config.models import Environment
from config.monitoring import metrics
from config.snapshot import Lateness
from flags.engine.types import Context, Evaluation
from flags.models import hour_of
from flags.usage import recent_users

HOUR = timedelta(hours=1)

_BATCH_SIZE = 32
"""Requests that are counted together."""

Counts = defaultdict[int, defaultdict[str, defaultdict[str, int]]]
"""Counts by environment id, flag key and outcome."""


class Tally:
    """The counts of this process that are not stored yet, by hour."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[tuple[int, Mapping[str, Evaluation]]] = []
        self._hours: dict[datetime, Counts] = {}
        self._open(datetime.min.replace(tzinfo=UTC))

    def add(self, environment_id: int, evaluations: Mapping[str, Evaluation], now: datetime) -> None:
        """Count the evaluations of a request. The caller must not change them afterwards."""
        with self._lock:  # once a request, whatever its number of flags
            if not self._start <= now < self._end:
                self._open(hour_of(now))
            self._waiting.append((environment_id, evaluations))
            if len(self._waiting) == _BATCH_SIZE:
                self._count_waiting()

    def _open(self, hour: datetime) -> None:
        self._count_waiting()
        self._start, self._end = hour, hour + HOUR
        self._counts = self._hours.setdefault(hour, _no_counts())

    def _count_waiting(self) -> None:
        """Count the waiting requests: those for the same flags flag by flag, which takes half the time."""
        groups = defaultdict(list)
        for environment_id, evaluations in self._waiting:
            groups[environment_id, tuple(evaluations)].append(evaluations.values())
        self._waiting = []
        for (environment_id, keys), requests in groups.items():
            counts = self._counts[environment_id]
            for key, of_flag in zip(keys, zip(*requests, strict=True), strict=True):
                outcomes = [evaluation.outcome for evaluation in of_flag]
                number = outcomes.count(outcomes[0])
                counts[key][outcomes[0]] += number
                if number < len(outcomes):
                    for outcome in outcomes:
                        if outcome != outcomes[0]:
                            counts[key][outcome] += 1

    def pop(self) -> dict[datetime, Counts]:
        """Return all counts since the last call, and forget them. The caller stores them."""
        with self._lock:
            self._count_waiting()
            popped = {hour: counts for hour, counts in self._hours.items() if counts}
            self._hours = {}
            self._open(self._start)
        return popped

    def put_back(self, popped: Mapping[datetime, Counts]) -> None:
        """Add counts that could not be stored."""
        with self._lock:
            for hour, counts in popped.items():
                current = self._hours.setdefault(hour, _no_counts())
                for environment_id, by_key in counts.items():
                    for key, by_outcome in by_key.items():
                        for outcome, number in by_outcome.items():
                            current[environment_id][key][outcome] += number


def _no_counts() -> Counts:
    return defaultdict(_no_counts_of_environment)


def _no_counts_of_environment() -> defaultdict[str, defaultdict[str, int]]:
    return defaultdict(_no_counts_of_flag)


def _no_counts_of_flag() -> defaultdict[str, int]:
    return defaultdict(int)


tally = Tally()


def count(environment: Environment, context: Context) -> None:
    """Count the evaluations of one request, and record its user.

    Each requested flag and each prerequisite of one counts once.
    """
    tally.add(environment.pk, context.evaluations, context.now)
    is_stale = snapshot.lateness() is not Lateness.NONE
    (metrics.stale_evaluations if is_stale else metrics.fresh_evaluations).add(len(context.evaluations))
    recent_users.of_process.record(environment, context.user_id, context.attributes, context.now)
