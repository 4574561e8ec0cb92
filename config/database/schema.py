"""The schema: whether the database has the one that this code expects, and indexes that are added under traffic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pkgutil import iter_modules
from typing import Any

from django.apps import apps
from django.db import connection
from django.db.migrations import AddIndex
from django.db.migrations.recorder import MigrationRecorder

FIRST = "0001_first_release"
"""The first migration of each app, where upgrades begin. Those of databases made before it were replaced."""

_HOW_TO_MOVE = (
    "The database was made before version 0.1.0 and cannot be migrated, so write its content to files with the old "
    "code (`manage.py export_flags` and `export_events`), make a new database with this version (`manage.py migrate`), "
    "and read the files (`manage.py import_flags` and `import_events`), as the page Upgrading of the guide describes"
)


class SchemaIsBehind(Exception):
    """Migrations of this code are not applied; the message names them. Newer migrations do no harm."""


class SchemaWasReplaced(SchemaIsBehind):
    """The database has migrations from before the first release; the message says how to move."""


def require_migratable() -> None:
    """Raise SchemaWasReplaced if the database was made before the first release."""
    applied = MigrationRecorder(connection).applied_migrations()
    own = {app for app, name in _own() if name == FIRST}
    if any(app in own and (app, FIRST) not in applied for app, _ in applied):
        raise SchemaWasReplaced(_HOW_TO_MOVE)


def require_schema() -> None:
    """Raise SchemaIsBehind if the database lacks migrations that this code contains."""
    require_migratable()
    if missing := missing_migrations():
        names = ", ".join(f"{app}.{name}" for app, name in missing[:5])
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise SchemaIsBehind(f"The database lacks the migrations {names}{more}; run `manage.py migrate`")


def missing_migrations() -> Sequence[tuple[str, str]]:
    """Return the migrations that are not applied, each as the label of its app and its name."""
    applied = MigrationRecorder(connection).applied_migrations()
    return [migration for migration in _own() if migration not in applied]


def _own() -> Iterator[tuple[str, str]]:
    """Yield the migrations of all apps, by their files. Importing them would delay the start of a worker."""
    for app in apps.get_app_configs():
        folder = f"{app.path}/migrations"
        yield from ((app.label, module.name) for module in iter_modules([folder]) if module.name[0] not in "_~")


class AddIndexOnline(AddIndex):
    """Add an index without blocking writers. Its migration must set `atomic = False`.

    On PostgreSQL, the index is built concurrently. An invalid index that an interrupted migration has left is replaced.
    On other databases, this is a plain `AddIndex`.
    """

    atomic = False

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if schema_editor.connection.vendor != "postgresql":
            super().database_forwards(app_label, schema_editor, from_state, to_state)
            return
        model = to_state.apps.get_model(app_label, self.model_name)
        if self.allow_migrate_model(schema_editor.connection.alias, model):
            _leave_no_transaction_open(schema_editor)
            schema_editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {schema_editor.quote_name(self.index.name)}")
            schema_editor.add_index(model, self.index, concurrently=True)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if schema_editor.connection.vendor != "postgresql":
            super().database_backwards(app_label, schema_editor, from_state, to_state)
            return
        model = from_state.apps.get_model(app_label, self.model_name)
        if self.allow_migrate_model(schema_editor.connection.alias, model):
            _leave_no_transaction_open(schema_editor)
            schema_editor.remove_index(model, self.index, concurrently=True)


def _leave_no_transaction_open(schema_editor: Any) -> None:
    if schema_editor.connection.in_atomic_block:
        raise TypeError("AddIndexOnline works outside of transactions alone; set atomic = False in the migration.")
