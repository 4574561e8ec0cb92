"""Counting evaluations in this process, on their way: nothing here waits for a database.

Not here: how counts get stored (`usage_storage`) and what they tell (`usage_figures`, `staleness`).
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from config.models import Environment
from flags.engine.types import Context, Evaluation
from flags.models import hour_of

HOUR = timedelta(hours=1)

_TOGETHER = 32
"""How many requests wait to be counted together."""

Counts = defaultdict[int, defaultdict[str, defaultdict[str, int]]]
"""By the id of an environment, the key of a flag, and the outcome."""


class Tally:
    """What was counted and not taken yet, by hour."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[tuple[int, Mapping[str, Evaluation]]] = []
        self._hours: dict[datetime, Counts] = {}
        self._open(datetime.min.replace(tzinfo=UTC))

    def add(self, environment_id: int, evaluations: Mapping[str, Evaluation], at: datetime) -> None:
        """Count the evaluations of one request, which from now on do not change."""
        with self._lock:  # once a request, however many flags it asked for
            if not self._start <= at < self._end:
                self._open(hour_of(at))
            self._waiting.append((environment_id, evaluations))
            if len(self._waiting) == _TOGETHER:
                self._count_waiting()

    def _open(self, hour: datetime) -> None:
        """Count for another hour from now on."""
        self._count_waiting()
        self._start, self._end = hour, hour + HOUR
        self._counts = self._hours.setdefault(hour, _no_counts())

    def _count_waiting(self) -> None:
        """Count requests for the same flags together, flag by flag, which takes half the time of one by one."""
        alike = defaultdict(list)
        for environment_id, evaluations in self._waiting:
            alike[environment_id, tuple(evaluations)].append(evaluations.values())
        self._waiting = []
        for (environment_id, keys), requests in alike.items():
            counts = self._counts[environment_id]
            for key, of_flag in zip(keys, zip(*requests, strict=True), strict=True):
                outcomes = [evaluation.outcome for evaluation in of_flag]
                number = outcomes.count(outcomes[0])
                counts[key][outcomes[0]] += number
                if number < len(outcomes):
                    for outcome in outcomes:
                        if outcome != outcomes[0]:
                            counts[key][outcome] += 1

    def take(self) -> dict[datetime, Counts]:
        """All that was counted since the last time, which from now on is the caller's to store."""
        with self._lock:
            self._count_waiting()
            taken = {hour: counts for hour, counts in self._hours.items() if counts}
            self._hours = {}
            self._open(self._start)
        return taken

    def give_back(self, taken: Mapping[datetime, Counts]) -> None:
        """What could not be stored."""
        with self._lock:
            for hour, counts in taken.items():
                kept = self._hours.setdefault(hour, _no_counts())
                for environment_id, by_key in counts.items():
                    for key, by_outcome in by_key.items():
                        for outcome, number in by_outcome.items():
                            kept[environment_id][key][outcome] += number


def _no_counts() -> Counts:
    return defaultdict(_no_counts_of_environment)


def _no_counts_of_environment() -> defaultdict[str, defaultdict[str, int]]:
    return defaultdict(_no_counts_of_flag)


def _no_counts_of_flag() -> defaultdict[str, int]:
    return defaultdict(int)


tally = Tally()


def count(environment: Environment, context: Context) -> None:
    """Count what was evaluated for one request: what it asked for, and what had to be known on the way, each once."""
    tally.add(environment.pk, context.evaluations, context.now)
