"""Counters, gauges and histograms of this process. They count in shared memory once the process has joined it."""

from __future__ import annotations

import logging
import os
import threading
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from config.monitoring.memory import BEAT, PID, Name, Part, SharedMemory

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_BEATS = 0.25
_SECONDS_UNTIL_DEAD = 10.0
_lock = threading.Lock()
"""An addition reads and then writes, so threads must not add at the same time."""
_beating = threading.Lock()


class MetricKind(StrEnum):
    """How the numbers of several processes are combined."""

    COUNTER = "counter"
    """Their sum."""
    GAUGE = "gauge"
    """They stay separate for each process."""
    HISTOGRAM = "histogram"


class _Process:
    """The memory of this process, and what it measures at every beat."""

    def __init__(self) -> None:
        self.part = Part.of_this_process_alone()
        self.part.numbers[PID] = os.getpid()
        self.shared: SharedMemory | None = None
        self.name = "this"
        self.measuring: list[Callable[[], None]] = []
        self.has_warned = False


process = _Process()


class Metric:
    """A metric as Prometheus knows it: its name, its meaning in one sentence, and the names of its labels."""

    kind: MetricKind
    _numbers = 1
    """How many numbers there are for each combination of labels."""

    def __init__(self, name: str, meaning: str, *labels: str) -> None:
        self.name = name
        self.meaning = meaning
        self.labels = labels
        self._places: dict[Name, int] = {}
        metrics[name] = self

    def forget_places(self) -> None:
        self._places = {}

    def _place_of(self, labels: Name) -> int | None:
        place = self._places.get(labels)
        if place is not None:
            return place
        assert len(labels) == len(self.labels), self.name  # noqa: S101 (a defect of the caller)
        with _lock:
            place = process.part.place_of((self.name, *labels), self._numbers)
        if place is not None:
            self._places[labels] = place
        elif not process.has_warned:
            process.has_warned = True
            logger.warning("There is no more room for metrics; some are not counted any more")
        return place


class Counter(Metric):
    """A number that only grows."""

    kind = MetricKind.COUNTER

    def add(self, amount: float = 1, *labels: str) -> None:
        place = self._place_of(labels)
        if place is not None:
            numbers = process.part.numbers
            with _lock:
                numbers[place] += amount


class Gauge(Metric):
    """A number that rises and falls."""

    kind = MetricKind.GAUGE

    def set(self, value: float, *labels: str) -> None:
        place = self._place_of(labels)
        if place is not None:
            process.part.numbers[place] = value


class Histogram(Metric):
    """How many values there were up to each bound, and their sum."""

    kind = MetricKind.HISTOGRAM

    def __init__(self, name: str, meaning: str, *labels: str, bounds: Sequence[float]) -> None:
        super().__init__(name, meaning, *labels)
        self.bounds = tuple(bounds)
        self._numbers = len(bounds) + 2
        """Of the values up to each bound, of those above, and the sum."""

    def observe(self, values: Collection[float], *labels: str) -> None:
        """Count values, in the unit of the bounds, for these values of the labels."""
        place = self._place_of(labels)
        if place is not None:
            numbers, bounds = process.part.numbers, self.bounds
            with _lock:
                for value in values:
                    numbers[place + bisect_left(bounds, value)] += 1
                numbers[place + self._numbers - 1] += sum(values)


class Batch:
    """Numbers that are counted together later. To add one takes a tenth of the time of counting it."""

    def __init__(self, count: Callable[[Sequence[float]], None]) -> None:
        self._count = count
        self._waiting: deque[float] = deque()
        self.add = self._waiting.append
        measure(self._count_waiting)

    def _count_waiting(self) -> None:
        if numbers := [self._waiting.popleft() for _ in range(len(self._waiting))]:
            self._count(numbers)


metrics: dict[str, Metric] = {}
"""All of them by name, in the order of `config.monitoring.metrics`."""


def join(shared: SharedMemory, name: str) -> None:
    """Count in shared memory from now on. The counts of the process that had this name before stay."""
    with _lock:
        process.shared, process.name = shared, name
        process.part = shared.part_of(name)
        process.part.numbers[PID] = os.getpid()
        for metric in metrics.values():
            metric.forget_places()
    beat()


def measure(function: Callable[[], None]) -> None:
    """Call a function at every beat and before this process answers `/metrics`, for example to set gauges."""
    process.measuring.append(function)


def beat() -> None:
    """Measure now, and store the time. Gauges of a process that has stopped measuring are not shown."""
    with _beating:
        for function in process.measuring:
            function()
        process.part.numbers[BEAT] = time.monotonic()


def start_beating() -> None:
    """Start the thread that measures until the process ends."""
    threading.Thread(target=_beat_forever, name="metrics", daemon=True).start()


def _beat_forever() -> None:
    while True:
        try:
            beat()
        except Exception:  # any error at all: without this thread, this process seems to be dead
            logger.exception("Cannot measure what /metrics shows; trying again")
        time.sleep(SECONDS_BETWEEN_BEATS)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a process has counted. The gauges of a process that is not alive are outdated."""

    process: str
    pid: int
    is_alive: bool
    part: Part


def read_all() -> list[Reading]:
    """Return what all processes of this server have counted."""
    parts = process.shared.parts() if process.shared is not None else {process.name: process.part}
    oldest = time.monotonic() - _SECONDS_UNTIL_DEAD
    return [Reading(name, int(part.numbers[PID]), part.numbers[BEAT] > oldest, part) for name, part in parts.items()]
