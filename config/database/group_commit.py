"""What several threads ask of the database at one moment, asked by one: a commit takes as long for one row as for ten.

Who finds nobody at work goes ahead at once. Who finds somebody waits, and is served next, together with all who came
meanwhile. There is no timer and no thread for it: the first of those who wait does the work of all of them.

Not here: what is read and written. Each app submits with handlers of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db import InterfaceError, OperationalError, connection, transaction

_DEADLOCK, _SERIALIZATION_FAILURE = "40P01", "40001"

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Handler(Generic[Item, Result]):
    """Serves all items of one kind that came together, and answers each, in their order.

    Handlers run in the order of their `rank`, so that two transactions lock tables in the same order. One that makes a
    single statement needs no transaction where nobody else is served: neither its begin nor its end has to be sent.
    """

    serve: Callable[[Sequence[Item]], Sequence[Result]]
    rank: int
    is_one_statement: bool = False


class _Entry:
    """One item on its way. Its thread waits at the gate until the item is done, or until it has to lead."""

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
    """Serves together what threads submit at the same time, within a block of its own such as a transaction."""

    def __init__(self, block: Callable[[], AbstractContextManager[Any]]) -> None:
        self._block = block
        self._lock = threading.Lock()
        self._is_busy = False
        self._waiting: list[_Entry] = []
        """The first of them leads next. Nobody waits unless somebody is at work."""

    def submit(self, handler: Handler[Item, Result], item: Item) -> Result:
        """Have an item served, and return its result once the block has ended: what is written is committed then.

        Inside of a transaction the caller's own commit decides: the item is served in it, alone.
        """
        if connection.in_atomic_block:
            return handler.serve([item])[0]
        entry = _Entry(handler, item)
        with self._lock:
            must_wait, self._is_busy = self._is_busy, True
            self._waiting.append(entry)
        if must_wait:
            entry.gate.acquire()
        if not entry.is_done:
            self._lead()
        result: Result = entry.outcome()
        return result

    def _lead(self) -> None:
        """Serve those who wait, of whom the leader is the first. Who comes meanwhile is led by one of their own."""
        with self._lock:
            entries, self._waiting = self._waiting, []
        try:
            self._serve(entries)
        finally:  # whatever happens here: nobody waits for ever
            for entry in entries:
                if not entry.is_done:
                    entry.settle(error=OperationalError("The thread that served this one has ended."))
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
        """Serve together. Where that fails because of an item, each alone: none fails because of another."""
        try:
            results = self._serve_together(entries)
        except Exception as error:
            if _is_state_of_database(error):
                for entry in entries:
                    entry.settle(error=_copy(error))
            elif len(entries) == 1 and not is_conflict(error):
                entries[0].settle(error=error)
            else:
                self._serve_each(entries)
        else:
            for entry, result in zip(entries, results, strict=True):
                entry.settle(result)

    def _serve_each(self, entries: Iterable[_Entry]) -> None:
        for entry in entries:
            try:
                [result] = self._serve_together([entry])
            except Exception as error:  # for the entry's own thread to raise
                entry.settle(error=error)
            else:
                entry.settle(result)

    def _serve_together(self, entries: Sequence[_Entry]) -> list[Any]:
        of_handler: dict[Handler[Any, Any], list[int]] = {}
        for at, entry in enumerate(entries):
            of_handler.setdefault(entry.handler, []).append(at)
        results: list[Any] = [None] * len(entries)
        is_one_statement = len(of_handler) == 1 and entries[0].handler.is_one_statement
        with nullcontext() if is_one_statement else self._block():
            for handler in sorted(of_handler, key=lambda each: each.rank):
                places = of_handler[handler]
                served = handler.serve([entries[at].item for at in places])
                for at, result in zip(places, served, strict=True):
                    results[at] = result
        return results


def _is_state_of_database(error: Exception) -> bool:
    """Whether each alone would fail as well: the connection is lost, the disk is full."""
    return isinstance(error, (OperationalError, InterfaceError)) and not is_conflict(error)


def is_conflict(error: Exception) -> bool:
    """Whether PostgreSQL gave up this transaction in favour of another one."""
    return getattr(error.__cause__, "sqlstate", None) in (_DEADLOCK, _SERIALIZATION_FAILURE)


def _copy(error: Exception) -> Exception:
    """An error of each thread's own: raising one and the same in several of them would mix their tracebacks."""
    copy = type(error)(*error.args)
    copy.__cause__ = error.__cause__
    return copy


writes = Group(transaction.atomic)
"""Each group is one transaction."""

reads = Group(nullcontext)
"""For handlers that write nothing. Apart from the writes, so that nobody who only reads waits for a commit."""
