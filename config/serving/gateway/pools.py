"""Threads for one kind of requests, and the queue of those that wait for one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Generic, TypeVar


@dataclass(eq=False, slots=True)
class Task:
    """A request for a thread of a pool. `give_up` is called instead of `run` if none was free in time."""

    run: Callable[[], None]
    give_up: Callable[[], None]


T = TypeVar("T", bound=Task)


class Pool(Generic[T]):
    """A number of threads, and a queue that is limited in length and time."""

    def __init__(self, name: str, threads: int, *, most_waiting: int, seconds: float) -> None:
        self.name = name
        self.most_threads = threads
        self._most_waiting = most_waiting
        self._seconds = seconds
        self._threads = 0
        self._starting = threading.Lock()
        self._queue: SimpleQueue[T] = SimpleQueue()
        self._waiting: dict[T, float] = {}
        """The tasks in the queue, in order, with the moments when they are given up."""
        self._busy: set[int] = set()
        """The threads that run a task, by number."""

    def submit(self, task: T) -> bool:
        """Have a thread run a task, and return whether there was room for it."""
        if self._queue.qsize() >= self._most_waiting:
            return False
        self._waiting[task] = time.monotonic() + self._seconds
        self._queue.put(task)
        if self._threads < self.most_threads and not self._queue.empty():
            self._start_thread()
        return True

    def count_waiting(self) -> int:
        return len(self._waiting)

    def count_busy(self) -> int:
        return len(self._busy)

    def give_up_late_tasks(self, now: float) -> None:
        """Give up the tasks that have waited too long by this moment of the monotonic clock."""
        for task, deadline in list(self._waiting.items()):
            if deadline > now:
                return
            if self._waiting.pop(task, None) is not None:
                task.give_up()

    def _start_thread(self) -> None:
        with self._starting:
            if self._threads < self.most_threads:
                self._threads += 1
                name = f"{self.name}-{self._threads}"
                threading.Thread(target=self._work, args=(self._threads,), name=name, daemon=True).start()

    def _work(self, number: int) -> None:
        while True:
            task = self._queue.get()
            if self._take(task):
                self._busy.add(number)
                task.run()
                self._busy.discard(number)

    def _take(self, task: T) -> bool:
        """Return whether a task has not been given up. It is not given up from now on."""
        return self._waiting.pop(task, None) is not None


class Gatherer(Pool[T]):
    """One thread, which serves all tasks together that came while it served the last ones."""

    def __init__(self, name: str, serve: Callable[[Sequence[T]], None], *, most_waiting: int, seconds: float) -> None:
        super().__init__(name, 1, most_waiting=most_waiting, seconds=seconds)
        self._serve = serve

    def _work(self, number: int) -> None:
        while True:
            tasks = [self._queue.get(), *(self._queue.get() for _ in range(self._queue.qsize()))]
            if waiting := [task for task in tasks if self._take(task)]:
                self._busy.add(number)
                self._serve(waiting)
                self._busy.discard(number)


class Budget:
    """An amount that several threads share."""

    def __init__(self, amount: int) -> None:
        self._left = amount
        self._lock = threading.Lock()

    def take(self, amount: int) -> bool:
        """Take an amount, unless less is left, and return whether that worked."""
        with self._lock:
            if amount > self._left:
                return False
            self._left -= amount
        return True

    def give_back(self, amount: int) -> None:
        with self._lock:
            self._left += amount
