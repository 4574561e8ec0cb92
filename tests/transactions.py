"""Objects that many tests share. They are built once per module, and each test undoes its changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction
from pytest_django import DjangoDbBlocker

from config import snapshot


@contextmanager
def rolled_back(blocker: DjangoDbBlocker) -> Iterator[None]:
    """Write to the database in a fixture of a module, and undo it at the end of the block.

    Tests of such a module run in savepoints. None of them may need an empty database or
    transactions of its own.
    """
    with blocker.unblock(), undone():
        yield


@contextmanager
def undone() -> Iterator[None]:
    """Undo the writes of the block. Like a test's own transaction, it encloses others and holds no
    lock.
    """
    enclosing = transaction.atomic()
    enclosing._from_testcase = True  # as Django's TestCase marks its transactions
    with enclosing:
        yield
        transaction.set_rollback(True)


@contextmanager
def case_undone() -> Iterator[None]:
    """Undo what one case of a table changed, in the database and in the snapshot, before the next one."""
    try:
        with undone():
            yield
    finally:
        snapshot.reset()
