"""A migration that is not safe beside the release before is refused, and a safe one is not."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from flags import migrations
from tests.migrations import ACCEPTED, find_unsafe_migrations
from tests.repository import ROOT, checksums

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(connection.vendor != "postgresql", reason="the statements for SQLite say nothing"),
]

PACKAGE = "migrations_of_a_test"
MIGRATION = """
from django.db import migrations, models

from config.database.schema import AddIndexOnline


def change(apps, schema_editor):
    pass


class Migration(migrations.Migration):
    atomic = {atomic}
    dependencies = [("flags", {last!r})]
    operations = [{operation}]
"""
NAME = "9999_of_a_test"

AddMigration = Callable[..., None]


@pytest.fixture
def add_migration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[AddMigration]:
    """Add one to those of the app flags, for this test alone."""
    folder = tmp_path / PACKAGE
    folder.mkdir()
    (folder / "__init__.py").write_text(f"__path__.append({migrations.__path__[0]!r})\n")
    monkeypatch.syspath_prepend(tmp_path)
    settings.MIGRATION_MODULES = {"flags": PACKAGE}
    last = max(file.stem for file in Path(migrations.__path__[0]).glob("0*.py"))

    def add(operation: str, *, atomic: bool = True) -> None:
        (folder / f"{NAME}.py").write_text(MIGRATION.format(atomic=atomic, last=last, operation=operation))

    yield add
    for module in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[module]


def test_migrations__of_this_project__are_safe() -> None:
    assert find_unsafe_migrations() == []


@pytest.mark.parametrize(
    "operation",
    [
        "migrations.AddField('flag', 'colour', models.CharField(max_length=9, default='red'))",
        "migrations.AddField('flag', 'colour', models.IntegerField())",
        "migrations.RemoveField('flag', 'description')",
        "migrations.RenameField('flag', 'description', 'words')",
        "migrations.DeleteModel('Segment')",
        "migrations.AddIndex('flag', models.Index(fields=['key'], name='flag_by_key'))",
        "migrations.AlterUniqueTogether('flag', {('key', 'description')})",
        "migrations.RunPython(change)",
    ],
)
def test_migration__that_harms_the_release_before__is_named(
    add_migration: AddMigration, capsys: pytest.CaptureFixture[str], operation: str
) -> None:
    add_migration(operation)
    assert find_unsafe_migrations() == [f"flags.{NAME}"]
    assert f"(flags, {NAME})... ERR" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("operation", "atomic"),
    [
        ("migrations.AddField('flag', 'colour', models.CharField(max_length=9, default='', db_default=''))", True),
        ("migrations.AddField('flag', 'colour', models.IntegerField(null=True))", True),
        ("migrations.CreateModel('Colour', [('id', models.BigAutoField(primary_key=True))])", True),
        ("migrations.RunPython(change, migrations.RunPython.noop)", False),
    ],
)
def test_migration__that_is_safe__is_not_named(add_migration: AddMigration, operation: str, atomic: bool) -> None:
    add_migration(operation, atomic=atomic)
    assert find_unsafe_migrations() == []


@pytest.mark.django_db(transaction=True)  # such an index is never made in a transaction
def test_migration__that_adds_an_index_online__is_not_named(add_migration: AddMigration) -> None:
    add_migration("AddIndexOnline('flag', models.Index(fields=['key'], name='flag_by_key'))", atomic=False)
    assert find_unsafe_migrations() == []


def test_migration__accepted_with_a_reason__is_not_named(add_migration: AddMigration) -> None:
    add_migration("migrations.RemoveField('flag', 'description')")
    assert find_unsafe_migrations(accepted={("flags", NAME): "Nothing has used it since the release before."}) == []


def test_accepted__name_migrations_that_there_are() -> None:
    names = {(Path(file).parts[0], Path(file).stem) for file in checksums(ROOT)}
    assert ACCEPTED.keys() <= names
    assert all(ACCEPTED.values())
