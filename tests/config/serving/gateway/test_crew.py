"""Threads that serve, step aside, and come back when others are held up or end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from config.serving.gateway.crew import Crew
from tests.config.serving.gateway.granian import Slow
from tests.threads import SECONDS, Threads

LATER = 3600.0


@pytest.fixture
def prepared() -> list[int]:
    return []


@pytest.fixture
def crew(prepared: list[int]) -> Crew:
    return Crew(1, prepare=lambda: prepared.append(threading.get_ident()))


@pytest.fixture
def threads(crew: Crew) -> Iterator[Threads]:
    started = Threads()
    yield started
    crew._size = 100
    crew.call_back(time.monotonic())
    started.join()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def do_nothing() -> bool:
    return True


def test_call__one_thread__serves_again_and_again_and_is_prepared_once(crew: Crew, prepared: list[int]) -> None:
    served: list[int] = []
    for number in range(3):
        crew.call(lambda number: served.append(number) or True, number)
    assert served == [0, 1, 2]
    assert prepared == [threading.get_ident()]


def test_call__more_threads_than_may_serve__step_aside_after_their_request(crew: Crew, threads: Threads) -> None:
    crew.call(do_nothing)
    beside = threads.start(crew.call, do_nothing)
    wait_until(lambda: len(crew._aside) == 1)
    assert not beside.done()


def test_call__function_returns_false__the_thread_returns_at_once(crew: Crew, threads: Threads) -> None:
    crew.call(do_nothing)
    threads.start(crew.call, lambda: False).result(SECONDS)
    assert crew._aside == []


def test_call_back__thread_is_held_up__another_one_returns(crew: Crew, threads: Threads) -> None:
    slow = Slow()
    held_up = threads.start(crew.call, slow.read, 1)
    assert slow.is_read.wait(SECONDS)
    beside = threads.start(crew.call, do_nothing)
    wait_until(lambda: len(crew._aside) == 1)
    crew.call_back(time.monotonic() + LATER)
    beside.result(SECONDS)
    slow.finish()
    wait_until(lambda: held_up.done() or len(crew._aside) == 1)


def test_call_back__thread_has_ended__another_one_returns(crew: Crew, threads: Threads) -> None:
    ending = threading.Thread(target=crew.call, args=(do_nothing,))
    ending.start()
    ending.join(SECONDS)
    assert crew._members == 0
    crew.call(do_nothing)
    beside = threads.start(crew.call, do_nothing)
    wait_until(lambda: len(crew._aside) == 1)
    del crew._threads.member
    crew.call_back(time.monotonic())
    beside.result(SECONDS)


def test_watch__started__calls_back_by_itself(crew: Crew, threads: Threads) -> None:
    crew.start()
    slow = Slow()
    threads.start(crew.call, slow.read, 1)
    assert slow.is_read.wait(SECONDS)
    threads.start(crew.call, do_nothing).result(SECONDS)
    slow.finish()


def test_call__function_fails__the_thread_no_longer_counts_as_serving(crew: Crew) -> None:
    with pytest.raises(ZeroDivisionError):
        crew.call(lambda: 1 / 0)
    assert crew._begun == {}
