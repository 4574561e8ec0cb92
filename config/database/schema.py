"""Whether the database has the schema that this code expects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pkgutil import iter_modules

from django.apps import apps
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder


class SchemaIsBehind(Exception):
    """Migrations of this code are not applied; the message names them. Newer migrations do no harm."""


def require_schema() -> None:
    """Raise SchemaIsBehind if the database lacks migrations that this code contains."""
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
