"""Group commit: items that arrive during a commit are served together, and none fails because of
another.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import DataError, InterfaceError, OperationalError, transaction

from config.database import group_commit
from config.database.group_commit import BeginAgain, Group, Handler
from tests.threads import SECONDS, Gate, Threads


class Recording:
    """A group that records the items served in each block, and the threads that served them."""

    def __init__(self) -> None:
        self.group = Group(self.block)
        self.blocks: list[list[Any]] = []
        self.leaders: list[str] = []
        self.failed = 0

    @contextmanager
    def block(self) -> Iterator[None]:
        self.blocks.append([])
        self.leaders.append(threading.current_thread().name)
        try:
            yield
        except BaseException:
            self.failed += 1
            raise

    def handler(self, serve: Callable[[Sequence[Any]], Sequence[Any]], rank: int = 1) -> Handler[Any, Any]:
        def record(items: Sequence[Any]) -> Sequence[Any]:
            self.blocks[-1].extend(items)
            return serve(items)

        return Handler(record, rank)

    def wait_for_waiting(self, count: int) -> None:
        deadline = time.monotonic() + SECONDS
        while len(self.group._waiting) < count:
            assert time.monotonic() < deadline
            time.sleep(0.001)


@pytest.fixture
def recording() -> Recording:
    return Recording()


@pytest.fixture
def threads() -> Iterator[Threads]:
    threads = Threads()
    yield threads
    threads.join()


@pytest.fixture
def meanwhile(recording: Recording, threads: Threads) -> Callable[..., list[Future[Any]]]:
    """Submit all of these while another item is served, each from a thread of its own, in this
    order.
    """

    def submit(*calls: tuple[Handler[Any, Any], Any]) -> list[Future[Any]]:
        gate = Gate()
        first = threads.start(recording.group.submit, Handler(lambda items: [gate.pass_through()], 0), "first")
        gate.wait_for_arrival()
        futures = []
        for count, call in enumerate(calls, start=1):
            futures.append(threads.start(recording.group.submit, *call))
            recording.wait_for_waiting(count)
        gate.open()
        first.result(SECONDS)
        return futures

    return submit


def double(items: Sequence[int]) -> list[int]:
    return [2 * item for item in items]


def test_submit__nobody_at_work__is_served_at_once_by_the_caller(recording: Recording) -> None:
    handler = recording.handler(double)

    assert [recording.group.submit(handler, item) for item in (1, 2)] == [2, 4]
    assert recording.blocks == [[1], [2]]
    assert set(recording.leaders) == {threading.current_thread().name}


def test_submit__while_another_is_served__all_who_wait_share_one_block(
    recording: Recording, meanwhile: Callable[..., list[Future[Any]]]
) -> None:
    handler = recording.handler(double)
    futures = meanwhile(*((handler, item) for item in range(10)))

    assert [future.result(SECONDS) for future in futures] == [2 * item for item in range(10)]
    assert recording.blocks == [[], list(range(10))]


def test_submit__several_handlers__run_in_the_order_of_their_ranks(
    recording: Recording, meanwhile: Callable[..., list[Future[Any]]]
) -> None:
    later, sooner = (
        recording.handler(double, rank=2),
        recording.handler(lambda items: [-item for item in items], rank=1),
    )
    futures = meanwhile((later, 1), (sooner, 2), (later, 3), (sooner, 4))

    assert [future.result(SECONDS) for future in futures] == [2, -2, 6, -4]
    assert recording.blocks == [[], [2, 4, 1, 3]]


def test_lead__others_came_meanwhile__one_of_them_leads_next(recording: Recording, threads: Threads) -> None:
    gates = [Gate() for _ in range(3)]
    handler = recording.handler(lambda items: [gates[item].pass_through() for item in items])
    futures = []
    for at, gate in enumerate(gates):
        futures.append(threads.start(recording.group.submit, handler, at))
        if at == 0:
            gate.wait_for_arrival()
        else:
            recording.wait_for_waiting(1)
            gates[at - 1].open()
            gate.wait_for_arrival()
            futures[at - 1].result(SECONDS)  # the leader returns although more items wait
    gates[-1].open()
    futures[-1].result(SECONDS)

    assert recording.blocks == [[0], [1], [2]]


def test_submit__many_threads_over_and_over__each_gets_its_own_result(recording: Recording, threads: Threads) -> None:
    def ask(number: int) -> list[int]:
        return [recording.group.submit(handler, 1000 * number + at) for at in range(200)]

    handler = recording.handler(double)
    futures = [threads.start(ask, number) for number in range(16)]

    for number, future in enumerate(futures):
        assert future.result(SECONDS) == [2 * (1000 * number + at) for at in range(200)]
    assert sorted(item for block in recording.blocks for item in block) == sorted(
        1000 * number + at for number in range(16) for at in range(200)
    )


def test_submit__one_item_fails__only_its_own_thread_hears_of_it(
    recording: Recording, meanwhile: Callable[..., list[Future[Any]]]
) -> None:
    def refuse_three(items: Sequence[int]) -> list[int]:
        if 3 in items:
            raise DataError("three")
        return double(items)

    handler = recording.handler(refuse_three)
    futures = meanwhile(*((handler, item) for item in range(5)))

    assert [future.result(SECONDS) for future in futures if future is not futures[3]] == [0, 2, 4, 8]
    with pytest.raises(DataError, match="three"):
        futures[3].result(SECONDS)
    assert recording.blocks == [[], [0, 1, 2, 3, 4], [0], [1], [2], [3], [4]]
    assert recording.failed == 2


def test_submit_each__several_items__are_served_together_with_those_of_others(
    recording: Recording, threads: Threads
) -> None:
    gate, handler = Gate(), recording.handler(double)
    first = threads.start(recording.group.submit, Handler(lambda items: [gate.pass_through()], 0), "first")
    gate.wait_for_arrival()
    several = threads.start(recording.group.submit_each, handler, [1, 2, 3])
    recording.wait_for_waiting(3)
    one = threads.start(recording.group.submit, handler, 4)
    recording.wait_for_waiting(4)
    more = threads.start(recording.group.submit_each, handler, [5, 6])
    recording.wait_for_waiting(6)
    gate.open()
    first.result(SECONDS)

    assert (several.result(SECONDS), one.result(SECONDS), more.result(SECONDS)) == ([2, 4, 6], 8, [10, 12])
    assert recording.blocks == [[], [1, 2, 3, 4, 5, 6]]


def test_submit_each__one_item_fails__the_others_have_their_results(recording: Recording) -> None:
    def refuse_three(items: Sequence[int]) -> list[int]:
        if 3 in items:
            raise DataError("three")
        return double(items)

    results = recording.group.submit_each(recording.handler(refuse_three), [2, 3, 4])
    assert (results[0], str(results[1]), results[2]) == (4, "three", 8)
    assert isinstance(results[1], DataError)
    assert recording.group.submit(recording.handler(double), 1) == 2


@pytest.mark.parametrize("kind", [OperationalError, InterfaceError])
def test_submit__database_fails__everyone_in_the_block_hears_so_and_none_is_tried_again(
    recording: Recording, meanwhile: Callable[..., list[Future[Any]]], kind: type[Exception]
) -> None:
    def fail(items: Sequence[int]) -> list[int]:
        raise kind("the connection is lost") from ValueError("why")

    handler = recording.handler(fail)
    errors = [future.exception(SECONDS) for future in meanwhile(*((handler, item) for item in range(4)))]

    assert {type(error) for error in errors} == {kind}
    assert {str(error) for error in errors} == {"the connection is lost"}
    assert [str(error.__cause__) for error in errors if error] == ["why"] * 4
    assert len({id(error) for error in errors}) == 4
    assert recording.blocks == [[], [0, 1, 2, 3]]


@pytest.mark.parametrize("state", ["40P01", "40001"])
@pytest.mark.parametrize("count", [1, 3])
def test_submit__given_up_in_favour_of_another_transaction__each_is_tried_again_alone(
    recording: Recording, meanwhile: Callable[..., list[Future[Any]]], state: str, count: int
) -> None:
    cause = ValueError("deadlock detected")
    cause.sqlstate = state  # type: ignore[attr-defined]  # as psycopg's errors have it

    def fail_once(items: Sequence[int]) -> list[int]:
        if len(recording.blocks) == 2:
            raise OperationalError("deadlock detected") from cause
        return double(items)

    handler = recording.handler(fail_once)
    futures = meanwhile(*((handler, item) for item in range(count)))

    assert [future.result(SECONDS) for future in futures] == [2 * item for item in range(count)]
    assert recording.blocks == [[], list(range(count)), *([item] for item in range(count))]


def test_submit__thread_that_leads_is_ended__the_others_hear_of_a_failure_and_the_next_is_served(
    recording: Recording, meanwhile: Callable[..., list[Future[Any]]]
) -> None:
    def end(items: Sequence[int]) -> list[int]:
        raise SystemExit

    handler = recording.handler(end)
    errors = [future.exception(SECONDS) for future in meanwhile(*((handler, item) for item in range(3)))]

    assert [type(error) for error in errors] == [SystemExit, OperationalError, OperationalError]
    assert recording.group.submit(recording.handler(double), 4) == 8


def test_submit__handler_that_answers_too_few__is_a_failure_of_each(
    recording: Recording, meanwhile: Callable[..., list[Future[Any]]]
) -> None:
    handler = recording.handler(lambda items: [])
    errors = [future.exception(SECONDS) for future in meanwhile((handler, 1), (handler, 2))]

    assert {type(error) for error in errors} == {ValueError}
    assert recording.failed == 3


def test_submit__single_statement__needs_a_block_only_with_others(
    recording: Recording, meanwhile: Callable[..., list[Future[Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "may_be_distributed", lambda: False)
    single = Handler(double, 1, is_one_statement=True)
    assert recording.group.submit(single, 1) == 2
    assert recording.blocks == []

    futures = meanwhile((single, 2), (recording.handler(double), 3), (single, 4))
    assert [future.result(SECONDS) for future in futures] == [4, 6, 8]
    assert recording.blocks == [[], [3]]


def test_submit__single_statement_where_tables_may_be_spread_meanwhile__has_a_block(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "may_be_distributed", lambda: True)
    assert recording.group.submit(Handler(double, 1, is_one_statement=True), 1) == 2
    assert recording.blocks == [[]]


@pytest.mark.django_db
def test_submit__within_a_transaction__is_served_in_it_whoever_else_is_at_work(
    recording: Recording, threads: Threads
) -> None:
    gate = Gate()
    first = threads.start(recording.group.submit, Handler(lambda items: [gate.pass_through()], 0), "first")
    gate.wait_for_arrival()
    served: list[int] = []
    with transaction.atomic():
        assert recording.group.submit(Handler(lambda items: [served.extend(items)], 1), 7) is None
    gate.open()
    first.result(SECONDS)

    assert served == [7]
    assert recording.blocks == [[]]


def test_submit__attempt_succeeds__is_enough(recording: Recording) -> None:
    served: list[str] = []
    handler = Handler(lambda items: served.append("with care"), 1, attempt=double)

    assert recording.group.submit(handler, 2) == 4
    assert (recording.failed, served) == (0, [])


def test_submit__attempt_asks_to_begin_again__serves_all_of_the_group_again(
    recording: Recording, meanwhile: Callable[..., list[Future[Any]]]
) -> None:
    def attempt(items: Sequence[Any]) -> Sequence[Any]:
        raise BeginAgain

    others = recording.handler(double, rank=0)
    handler = Handler(recording.handler(double).serve, 1, attempt=attempt)
    futures = meanwhile((others, 1), (handler, 2), (handler, 3))

    assert [future.result(SECONDS) for future in futures] == [2, 4, 6]
    assert recording.blocks[-2:] == [[1], [1, 2, 3]]
    assert recording.failed == 1


def test_submit__fails_after_its_attempt__serves_each_without_another_attempt(
    recording: Recording, meanwhile: Callable[..., list[Future[Any]]]
) -> None:
    def attempt(items: Sequence[Any]) -> Sequence[Any]:
        raise BeginAgain

    def serve(items: Sequence[Any]) -> Sequence[Any]:
        if 0 in items:
            raise ZeroDivisionError
        return double(items)

    handler = Handler(recording.handler(serve).serve, 1, attempt=attempt)
    good, bad = meanwhile((handler, 1), (handler, 0))

    assert good.result(SECONDS) == 2
    assert isinstance(bad.exception(SECONDS), ZeroDivisionError)
    assert recording.blocks[-3:] == [[1, 0], [1], [0]]


@pytest.mark.django_db
def test_submit__within_a_transaction__makes_no_attempt(recording: Recording) -> None:
    def attempt(items: Sequence[Any]) -> Sequence[Any]:
        raise AssertionError("it would end the caller's transaction")

    with transaction.atomic():
        assert recording.group.submit(Handler(double, 1, attempt=attempt), 2) == 4
