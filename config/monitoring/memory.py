"""The memory in which the processes of a server count. Each process writes only to its own part.

A part has numbers, and the names of what they count as lines of JSON.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import orjson

_PLACES, _BYTES_OF_NAMES = 2**15, 2**19
_BYTES = _PLACES * 8 + _BYTES_OF_NAMES
_LENGTH_OF_NAMES, PID, BEAT, _FIRST_FREE = range(4)
"""The first places of a part. The others are given to names, in order."""

ALLOWANCES = 2**16

Name = tuple[str, ...]
"""The name of a metric, and the values of its labels."""


class Series(NamedTuple):
    """What one process has counted under one name."""

    name: Name
    numbers: Sequence[float]


class Part:
    """The numbers of one process. Only its process may change them."""

    def __init__(self, memory: memoryview) -> None:
        self.numbers = memory[: _PLACES * 8].cast("d")
        self._names = memory[_PLACES * 8 :]
        self._places: dict[Name, int] = {}
        self._next = _FIRST_FREE
        for place, count, name in self._entries():  # of the process before, which has ended
            self._places[name] = place
            self._next = place + count

    @classmethod
    def of_this_process_alone(cls) -> Part:
        return cls(memoryview(bytearray(_BYTES)))

    def place_of(self, name: Name, count: int) -> int | None:
        """Return the index of the first number of a name, or None if there is no room. The caller must hold a lock."""
        place = self._places.get(name)
        if place is None:
            line = orjson.dumps([self._next, count, name], option=orjson.OPT_APPEND_NEWLINE)
            used = int(self.numbers[_LENGTH_OF_NAMES])
            if self._next + count > _PLACES or used + len(line) > _BYTES_OF_NAMES:
                return None
            self._names[used : used + len(line)] = line
            self.numbers[_LENGTH_OF_NAMES] = used + len(line)  # only now do others see it
            place = self._places[name] = self._next
            self._next += count
        return place

    def read(self) -> Iterator[Series]:
        """Return everything that is counted here, in any process."""
        for place, count, name in self._entries():
            yield Series(name, self.numbers[place : place + count].tolist())

    def _entries(self) -> Iterator[tuple[int, int, Name]]:
        for line in bytes(self._names[: int(self.numbers[_LENGTH_OF_NAMES])]).splitlines():
            place, count, name = orjson.loads(line)
            yield place, count, tuple(name)


class SharedMemory:
    """The parts of processes by name. Pass it to child processes to share it."""

    def __init__(self, processes: Sequence[str]) -> None:
        self.processes = tuple(processes)
        context = multiprocessing.get_context("forkserver")
        self._bytes = context.RawArray("B", _BYTES * len(processes))
        self.allowances = context.RawArray("d", ALLOWANCES)
        """What is left of the allowances of callers, see `config.api.limits`."""

    def part_of(self, process: str) -> Part:
        start = self.processes.index(process) * _BYTES
        return Part(memoryview(self._bytes).cast("B")[start : start + _BYTES])

    def parts(self) -> dict[str, Part]:
        return {process: self.part_of(process) for process in self.processes}
