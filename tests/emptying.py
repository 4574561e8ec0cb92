"""Keep the tables of PostgreSQL small while tests write and undo.

What a test rolled back or deleted stays in the file of its table until the table is vacuumed. Every later test that
reads the whole table pays for it, so the suite took half as long again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from pytest_django import DjangoDbBlocker

MOST_BYTES = 1_000_000

_LARGE = """
    SELECT relname FROM pg_class
    WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND pg_relation_size(oid) > %s
"""


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> None:
    """After tests with transactions of their own, delete the few rows. Truncating all tables takes 0.2 s."""
    if connection.vendor == "postgresql":
        connection.ops.sql_flush = _deletions  # type: ignore[method-assign]


def _deletions(style: Any, tables: list[str], **_: Any) -> list[str]:
    # The constraints of foreign keys are deferred, so any order will do.
    return [";".join(f"DELETE FROM {connection.ops.quote_name(table)}" for table in tables)] if tables else []


@pytest.fixture(scope="module", autouse=True)
def _vacuumed(request: pytest.FixtureRequest, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Vacuum what the tests of a module made large."""
    yield
    with django_db_blocker.unblock():
        if connection.vendor != "postgresql" or connection.connection is None:
            return
        with connection.cursor() as cursor:
            cursor.execute(_LARGE, [MOST_BYTES])
            for (table,) in cursor.fetchall():
                cursor.execute(f"VACUUM {connection.ops.quote_name(table)}")
