"""Adding an index while others write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.db import connection, models, transaction
from django.db.migrations.state import ProjectState

from config.database.schema import AddIndexOnline

NAME = "values_for_a_test"
_TABLE = "experiments_uservalue"
_of_postgresql = pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no concurrent indexes")
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def operation() -> Iterator[AddIndexOnline]:
    yield AddIndexOnline("uservalue", models.Index(fields=["state", "phase"], name=NAME))
    with connection.cursor() as cursor:
        cursor.execute(f"DROP INDEX IF EXISTS {NAME}")


def states(operation: AddIndexOnline) -> tuple[Any, Any]:
    before = ProjectState.from_apps(apps)
    after = before.clone()
    operation.state_forwards("experiments", after)
    return before, after


def forwards(operation: AddIndexOnline) -> None:
    with connection.schema_editor(atomic=False) as editor:
        operation.database_forwards("experiments", editor, *states(operation))


def index_names() -> set[str]:
    with connection.cursor() as cursor:
        return {*connection.introspection.get_constraints(cursor, _TABLE)}


def test_add_index_online__forwards_and_backwards__adds_and_removes_the_index(operation: AddIndexOnline) -> None:
    forwards(operation)
    assert NAME in index_names()

    before, after = states(operation)
    with connection.schema_editor(atomic=False) as editor:
        operation.database_backwards("experiments", editor, after, before)
    assert NAME not in index_names()


@_of_postgresql
def test_add_index_online__left_by_an_attempt_that_broke_off__is_replaced(operation: AddIndexOnline) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE INDEX {NAME} ON {_TABLE} (variant_number)")
    forwards(operation)

    with connection.cursor() as cursor:
        cursor.execute("SELECT indexdef FROM pg_indexes WHERE indexname = %s", [NAME])
        assert "(state_id, phase)" in cursor.fetchone()[0]


@_of_postgresql
def test_add_index_online__in_a_transaction__is_refused(operation: AddIndexOnline) -> None:
    with transaction.atomic(), pytest.raises(TypeError, match="atomic = False"):
        forwards(operation)
