"""Cases of one test that write to the database: each finds it as it was before the first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import transaction

from config import snapshot


@contextmanager
def undone(subtests: pytest.Subtests, **case: Any) -> Iterator[None]:
    """Run a case as a subtest in a savepoint, and roll back what it wrote."""
    with subtests.test(**case), transaction.atomic():
        yield
        transaction.set_rollback(True)
    snapshot.reset()
