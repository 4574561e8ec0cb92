"""A key that is replaced by an index, which holds equal values once."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from django.apps import apps
from django.db import IntegrityError, connection, transaction
from django.db.migrations.state import ProjectState

from config.database.repeating_keys import ReplaceKeyByIndex
from experiments.models import EXPOSURE, UserValue

TABLE, NAME = "experiments_uservalue", "value_by_user"
OPERATION = ReplaceKeyByIndex("uservalue", ["state_id", "user_id"], NAME)
KEY = ["metric", "state_id", "user_id"]
is_postgresql = connection.vendor == "postgresql"
pytestmark = [pytest.mark.django_db, pytest.mark.one_server("only a table on one server has its key changed")]


def key_and_indexes() -> tuple[list[str] | None, dict[str, Any]]:
    """The columns of the primary key in the order of their names, and the columns of each index."""
    with connection.cursor() as cursor:
        constraints = connection.introspection.get_constraints(cursor, TABLE)
        key = connection.introspection.get_primary_key_columns(cursor, TABLE)
    indexes = {name: constraint["columns"] for name, constraint in constraints.items() if constraint["index"]}
    return key and sorted(key), indexes


def replica_identity() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT relreplident::text FROM pg_class WHERE oid = %s::regclass", [TABLE])
        [identity] = cursor.fetchone()
    return str(identity)


def apply(method: str) -> None:
    state = ProjectState.from_apps(apps)
    with connection.schema_editor(atomic=False) as editor:
        getattr(OPERATION, method)("experiments", editor, state, state)


def test_values__after_migrations__have_an_index_in_place_of_their_key() -> None:
    key, indexes = key_and_indexes()
    if is_postgresql:
        assert (key, indexes[NAME], replica_identity()) == (None, ["state_id", "user_id"], "f")
    else:
        assert key == KEY
        assert NAME not in indexes


@pytest.mark.django_db(transaction=True)
def test_replace_key__backwards_and_forwards__makes_the_key_and_the_index() -> None:
    before = key_and_indexes()
    apply("database_backwards")
    key, indexes = key_and_indexes()
    assert key == KEY
    assert NAME not in indexes
    assert not is_postgresql or replica_identity() == "d"
    apply("database_forwards")
    assert key_and_indexes() == before


def test_replace_key__leaves_the_state_of_the_model() -> None:
    state = ProjectState.from_apps(apps)
    OPERATION.state_forwards("experiments", state)
    assert state == ProjectState.from_apps(apps)
    assert NAME in OPERATION.describe()


def test_values__exposure_of_a_user_twice__is_refused() -> None:
    row = UserValue(state_id=1, user_id="u", metric=EXPOSURE, variant_number=0, phase=1, day=date(2026, 1, 1))
    UserValue.objects.bulk_create([row])
    with pytest.raises(IntegrityError), transaction.atomic():
        UserValue.objects.bulk_create([row])
