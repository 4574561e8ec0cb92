"""Group commit: one thread serves what several threads submit at the same time.

A commit of ten rows takes as long as a commit of one. If no thread is at work, a submission starts at once. Otherwise
it waits, and is served next, together with all that came meanwhile. There is no timer and no extra thread: the first
thread in the queue serves the whole queue.

Apps submit with their own handlers, which read and write.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db import InterfaceError, OperationalError, connection, transaction

from config.database.connections import require_waiting
from config.database.engines import may_be_distributed

_DEADLOCK, _SERIALIZATION_FAILURE = "40P01", "40001"

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Handler(Generic[Item, Result]):
    """Serves all items of one kind in a group, and returns their results in order.

    Handlers run in the order of their `rank`, so that two transactions lock tables in the same order. A handler with
    `is_one_statement` needs no transaction if it is alone in its group, which saves BEGIN and COMMIT. `attempt` serves
    most groups, and takes less time than `serve`.
    """

    serve: Callable[[Sequence[Item]], Sequence[Result]]
    rank: int
    is_one_statement: bool = False
    attempt: Callable[[Sequence[Item]], Sequence[Result]] | None = None


class BeginAgain(Exception):
    """A handler's `attempt` raises it. The transaction then begins again, with `serve`."""


class _Entry:
    """One submitted item. Its thread waits at the gate until the item is done, or until it becomes the leader.

    A thread that has submitted several waits at the gate of the first.
    """

    __slots__ = ("error", "gate", "handler", "is_done", "item", "result")

    def __init__(self, handler: Handler[Any, Any], item: Any) -> None:
        self.handler = handler
        self.item = item
        self.gate = threading.Lock()
        self.gate.acquire()
        self.is_done = False
        self.result: Any = None
        self.error: Exception | None = None

    def settle(self, result: Any = None, error: Exception | None = None) -> None:
        self.result, self.error, self.is_done = result, error, True

    def outcome(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.result


class Group:
    """Serves items together that threads submit at the same time, inside `block()`, such as a transaction."""

    def __init__(self, block: Callable[[], AbstractContextManager[Any]]) -> None:
        self._block = block
        self._lock = threading.Lock()
        self._is_busy = False
        self._waiting: list[_Entry] = []
        """The first of them is the next leader. An entry waits only while another thread is at work."""

    def submit(self, handler: Handler[Item, Result], item: Item) -> Result:
        """Serve an item, and return its result once the block has ended and all writes are committed.

        Inside a transaction, the item is served alone, and the caller's own commit counts. Raises WouldWait in a thread
        that must not wait for the database.
        """
        require_waiting()
        if connection.in_atomic_block:
            return handler.serve([item])[0]
        entry = _Entry(handler, item)
        self._serve_in_turn([entry])
        result: Result = entry.outcome()
        return result

    def submit_each(self, handler: Handler[Item, Result], items: Sequence[Item]) -> list[Result | Exception]:
        """Serve items as if as many threads submitted one each, and return the result or the error of each.

        Inside a transaction, they are served at once, as by `submit`.
        """
        require_waiting()
        if connection.in_atomic_block:
            return list(handler.serve(items))
        entries = [_Entry(handler, item) for item in items]
        self._serve_in_turn(entries)
        return [entry.result if entry.error is None else entry.error for entry in entries]

    def _serve_in_turn(self, entries: Sequence[_Entry]) -> None:
        """Wait until the entries, at least one, are served, or serve them and all others that wait."""
        with self._lock:
            must_wait, self._is_busy = self._is_busy, True
            self._waiting += entries
        if must_wait:
            entries[0].gate.acquire()
        if not entries[0].is_done:
            self._lead()

    def _lead(self) -> None:
        """Serve all waiting entries, the leader's own included. Entries that arrive meanwhile get another leader."""
        with self._lock:
            entries, self._waiting = self._waiting, []
        try:
            self._serve(entries)
        finally:  # even then, no thread may wait forever
            for entry in entries:
                if not entry.is_done:
                    entry.settle(error=OperationalError("The thread that served this entry has ended."))
            self._hand_over()
            for follower in entries[1:]:
                follower.gate.release()

    def _hand_over(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting[0].gate.release()
            else:
                self._is_busy = False

    def _serve(self, entries: Sequence[_Entry]) -> None:
        """Serve entries together. If an item fails, serve each alone, so that none fails because of another."""
        try:
            try:
                results = self._serve_together(entries, is_attempt=True)
            except BeginAgain:
                results = self._serve_together(entries)
        except Exception as error:
            if _is_state_of_database(error):
                for entry in entries:
                    entry.settle(error=_copy(error))
            elif len(entries) == 1 and not is_conflict(error):
                entries[0].settle(error=error)
            else:
                self._serve_one_by_one(entries)
        else:
            for entry, result in zip(entries, results, strict=True):
                entry.settle(result)

    def _serve_one_by_one(self, entries: Iterable[_Entry]) -> None:
        for entry in entries:
            try:
                [result] = self._serve_together([entry])
            except Exception as error:  # for the entry's own thread to raise
                entry.settle(error=error)
            else:
                entry.settle(result)

    def _serve_together(self, entries: Sequence[_Entry], *, is_attempt: bool = False) -> list[Any]:
        of_handler: dict[Handler[Any, Any], list[int]] = {}
        for index, entry in enumerate(entries):
            of_handler.setdefault(entry.handler, []).append(index)
        results: list[Any] = [None] * len(entries)
        is_one_statement = len(of_handler) == 1 and entries[0].handler.is_one_statement and not may_be_distributed()
        with nullcontext() if is_one_statement else self._block():
            for handler in sorted(of_handler, key=lambda handler: handler.rank):
                indexes = of_handler[handler]
                serve = (handler.attempt if is_attempt else None) or handler.serve
                served = serve([entries[index].item for index in indexes])
                for index, result in zip(indexes, served, strict=True):
                    results[index] = result
        return results


def _is_state_of_database(error: Exception) -> bool:
    """Return whether every item alone would fail as well, as when the connection is lost or the disk is full."""
    return isinstance(error, (OperationalError, InterfaceError)) and not is_conflict(error)


def is_conflict(error: Exception) -> bool:
    """Return whether PostgreSQL aborted this transaction because of a conflict with another one."""
    return getattr(error.__cause__, "sqlstate", None) in (_DEADLOCK, _SERIALIZATION_FAILURE)


def _copy(error: Exception) -> Exception:
    """Return a copy for one thread: one error that several threads raise would mix their tracebacks."""
    copy = type(error)(*error.args)
    copy.__cause__ = error.__cause__
    return copy


writes = Group(transaction.atomic)
"""Each group is one transaction."""

reads = Group(nullcontext)
"""For handlers that write nothing. It is separate, so that reads never wait for a commit."""
