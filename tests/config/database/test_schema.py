"""The schema that this code expects, and a database that does not have it yet, or has a newer one."""

from __future__ import annotations

import pytest
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from config.database import schema
from config.database.schema import FIRST, SchemaIsBehind, SchemaWasReplaced, missing_migrations, require_schema

pytestmark = pytest.mark.django_db


def test_own__migrations__are_those_that_django_finds() -> None:
    assert set(schema._own()) == set(MigrationLoader(None).disk_migrations)


def test_require_schema__all_applied__says_nothing() -> None:
    require_schema()
    assert not missing_migrations()


def test_require_schema__some_missing__names_them() -> None:
    recorder = MigrationRecorder(connection)
    recorder.record_unapplied("events", FIRST)
    recorder.record_unapplied("flags", FIRST)
    with pytest.raises(
        SchemaIsBehind, match=r"lacks the migrations events\.0001_first_release, flags\.0001_first_release; run"
    ):
        require_schema()


def test_require_schema__many_missing__names_a_few() -> None:
    MigrationRecorder.Migration.objects.all().delete()
    with pytest.raises(SchemaIsBehind, match=r"admin\.0001_initial, .* and \d\d more; run `manage\.py migrate`"):
        require_schema()


def test_require_schema__newer_ones_applied__says_nothing() -> None:
    MigrationRecorder(connection).record_applied("events", "9999_of_a_newer_version")
    require_schema()


def test_require_schema__made_before_the_first_release__says_how_to_move() -> None:
    recorder = MigrationRecorder(connection)
    recorder.record_unapplied("flags", FIRST)
    recorder.record_applied("flags", "0001_initial")
    with pytest.raises(
        SchemaWasReplaced, match=r"before version 0\.1\.0 .*\(`manage\.py export_flags` and `export_events`"
    ):
        require_schema()
