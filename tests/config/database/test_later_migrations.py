"""Migrations of later releases: which changes the tables that are spread allow, and that no model asks for another."""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import apps
from django.db import connection, models
from django.db.migrations import AddField, Migration
from django.db.migrations.loader import MigrationLoader

from config.database.distribution import USER, spread
from config.database.schema import AddIndexOnline
from config.models import Environment
from events.models import Event
from tests.factories import EventFactory

REFERENCES_FROM_BEFORE = {("events_event", "environment_id"), ("experiments_exposure", "experiment_id")}
"""Those that `manage.py distribute` drops. Citus refuses to add others."""


def spread_models() -> list[Any]:
    tables = {table.name: table for table in spread}
    return [model for model in apps.get_models() if model._meta.db_table in tables]


def test_models__of_spread_tables__have_no_new_references() -> None:
    found = {
        (model._meta.db_table, field.column)
        for model in spread_models()
        for field in model._meta.local_fields
        if isinstance(field, models.ForeignKey) and field.db_constraint
    }
    assert found == REFERENCES_FROM_BEFORE


def test_models__of_all_tables__do_not_refer_to_spread_ones() -> None:
    found = [
        field
        for model in apps.get_models()
        for field in model._meta.local_fields
        if isinstance(field, models.ForeignKey) and field.related_model in spread_models()
    ]
    assert found == []


def test_models__of_spread_tables__are_unique_for_each_user_alone() -> None:
    """A worker knows the rows of some users, and could not tell whether others have the same value."""
    for model in spread_models():
        assert [field for field in model._meta.local_fields if field.unique and not field.primary_key] == []
        assert all(USER in constraint.fields for constraint in model._meta.total_unique_constraints)


@pytest.mark.distributed
@pytest.mark.django_db(transaction=True)
def test_migration__that_adds_columns_and_an_index__changes_every_part(production: Environment) -> None:
    EventFactory(user_id="u")
    added = Migration("9999_columns", "events")
    added.operations = [
        AddField("event", "colour", models.CharField(max_length=9, db_default="red")),
        AddField("event", "size", models.IntegerField(null=True)),
    ]
    indexed = Migration("9999_index", "events")
    indexed.atomic = False
    index = models.Index(fields=["environment", "colour"], name="event_by_colour", condition=models.Q(size=None))
    indexed.operations = [AddIndexOnline("event", index)]
    before = MigrationLoader(connection).project_state()
    with connection.schema_editor() as editor:
        between = added.apply(before.clone(), editor)
    try:
        with connection.schema_editor(atomic=False) as editor:
            after = indexed.apply(between.clone(), editor)
        EventFactory(user_id="v")
        changed = after.apps.get_model("events", "Event")
        assert set(changed.objects.values_list("user_id", "colour", "size")) == {("u", "red", None), ("v", "red", None)}
        assert not invalid_indexes()
    finally:
        with connection.schema_editor() as editor:
            added.unapply(before.clone(), editor)
    assert Event.objects.count() == 2


def invalid_indexes() -> list[Any]:
    """Return those that a part of the table lacks or has only begun."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT result FROM run_command_on_shards('events_event', "
            "$$SELECT COUNT(*) FROM pg_index WHERE indrelid = '%s'::regclass AND indisvalid "
            "AND indexrelid::regclass::text LIKE '%%event_by_colour%%'$$)"
        )
        return [found for (found,) in cursor.fetchall() if found != "1"]
