"""Objects that many tests share: they are built once for a module, and each test undoes what it does to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction
from pytest_django import DjangoDbBlocker


@contextmanager
def rolled_back(blocker: DjangoDbBlocker) -> Iterator[None]:
    """Write to the database in a fixture of a module, and undo it at the end of the block.

    Tests of such a module run in savepoints. None of them may need an empty database or transactions of its own.
    """
    with blocker.unblock(), transaction.atomic():
        yield
        transaction.set_rollback(True)
