"""Pools of threads: what runs, what is refused, and what is given up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from config.serving.gateway.pools import Budget, Gatherer, Pool, Task
from tests.config.serving.gateway.granian import Slow
from tests.threads import SECONDS

LATER = 3600.0


def never() -> None:
    pytest.fail("this must not be called")


def keep_busy(pool: Pool[Task]) -> Slow:
    """Occupy one thread of a pool."""
    slow = Slow()
    assert pool.submit(Task(partial(_read, slow), lambda: None))
    assert slow.is_read.wait(SECONDS)
    return slow


def _read(slow: Slow) -> None:
    slow.read(1)


def signal() -> tuple[threading.Event, Callable[[], None]]:
    event = threading.Event()
    return event, event.set


def test_submit__thread_is_free__runs_the_task() -> None:
    pool: Pool[Task] = Pool("test", 1, most_waiting=1, seconds=SECONDS)
    for _ in range(3):
        is_done, run = signal()
        assert pool.submit(Task(run, never))
        assert is_done.wait(SECONDS)
    pool.give_up_late_tasks(time.monotonic() + LATER)


def test_submit__threads_are_busy__waits_until_the_queue_is_full() -> None:
    pool: Pool[Task] = Pool("test", 2, most_waiting=1, seconds=SECONDS)
    busy = [keep_busy(pool), keep_busy(pool)]
    is_done, run = signal()
    assert pool.submit(Task(run, never))
    assert not pool.submit(Task(never, never))
    for slow in busy:
        slow.finish()
    assert is_done.wait(SECONDS)


def test_give_up__task_has_waited_too_long__never_runs() -> None:
    pool: Pool[Task] = Pool("test", 1, most_waiting=9, seconds=SECONDS)
    busy = keep_busy(pool)
    is_given_up, give_up = signal()
    is_done, run = signal()
    pool.submit(Task(never, give_up))
    pool.give_up_late_tasks(time.monotonic())
    assert not is_given_up.is_set()
    pool.give_up_late_tasks(time.monotonic() + LATER)
    assert is_given_up.is_set()
    pool.submit(Task(run, never))
    busy.finish()
    assert is_done.wait(SECONDS)


def test_give_up__task_is_being_worked_on__is_too_late() -> None:
    pool: Pool[Task] = Pool("test", 1, most_waiting=9, seconds=SECONDS)
    slow = Slow()
    pool.submit(Task(partial(_read, slow), never))
    assert slow.is_read.wait(SECONDS)
    pool.give_up_late_tasks(time.monotonic() + LATER)
    slow.finish()


def test_gatherer__tasks_that_come_while_it_serves__are_served_together_unless_given_up() -> None:
    served: list[list[Task]] = []
    slow, is_over = Slow(), threading.Event()

    def serve(tasks: Sequence[Task]) -> None:
        served.append(list(tasks))
        slow.read(1)
        if len(served) == 2:
            is_over.set()

    gatherer: Gatherer[Task] = Gatherer("test", serve, most_waiting=3, seconds=SECONDS)
    first, *others = [Task(never, lambda: None) for _ in range(4)]
    assert gatherer.submit(first)
    assert slow.is_read.wait(SECONDS)
    gatherer.submit(others[0])
    gatherer.give_up_late_tasks(time.monotonic() + LATER)
    gatherer.submit(others[1])
    gatherer.submit(others[2])
    assert not gatherer.submit(Task(never, never))
    slow.finish()
    assert is_over.wait(SECONDS)
    assert served == [[first], others[1:]]


def test_gatherer__all_tasks_are_given_up__serves_nothing() -> None:
    served: list[list[Task]] = []
    slow = Slow()

    def serve(tasks: Sequence[Task]) -> None:
        served.append(list(tasks))
        slow.read(1)

    gatherer: Gatherer[Task] = Gatherer("test", serve, most_waiting=9, seconds=SECONDS)
    first, late, last = (Task(never, lambda: None) for _ in range(3))
    gatherer.submit(first)
    assert slow.is_read.wait(SECONDS)
    gatherer.submit(late)
    gatherer.give_up_late_tasks(time.monotonic() + LATER)
    slow.is_read.clear()
    slow.finish()
    while late in gatherer._waiting or gatherer._queue.qsize():
        time.sleep(0.001)
    gatherer.submit(last)
    assert slow.is_read.wait(SECONDS)
    assert served == [[first], [last]]


def test_budget__more_than_is_left__is_refused_until_some_is_given_back() -> None:
    budget = Budget(10)
    assert budget.take(6)
    assert not budget.take(5)
    assert budget.take(4)
    budget.give_back(6)
    assert budget.take(5)
