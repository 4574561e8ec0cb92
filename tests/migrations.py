"""Whether migrations are safe beside the release before: `python -m tests.deployment -m tests.migrations`.

While a new release migrates the database, servers of the release before go on. So a migration removes and renames
nothing that they use, gives each new column a default in the database or lets it be null, and locks no table for long.
django-migration-linter reads that from the statements for PostgreSQL, so it needs a server. It changes nothing there.
For SQLite, Django makes a table anew for each column, which says nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import django

from tests.__main__ import postgresql

if TYPE_CHECKING:
    from django.db.migrations import Migration

ROOT = Path(__file__).resolve().parents[1]

ACCEPTED: Mapping[tuple[str, str], str] = {}
"""Migrations that the linter refuses, by app and name, and why each is safe all the same. For example, one drops a
column that the release before does not use any more.
"""


def main() -> int:
    url = postgresql()
    if url is None:
        print("Migrations are not checked, because that needs PostgreSQL.")
        return 0
    os.environ["DATABASE_URL"] = url
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    unsafe = find_unsafe_migrations()
    if unsafe:
        print(f"Not safe beside the release before: {', '.join(unsafe)}. The guide says how to divide a migration.")
    return int(bool(unsafe))


def find_unsafe_migrations(accepted: Mapping[tuple[str, str], str] = ACCEPTED) -> list[str]:
    """Return the migrations that the linter refuses and nobody accepted. It prints what it finds in each."""
    from django_migration_linter import MigrationLinter  # noqa: PLC0415 (it reads the settings)

    linter = MigrationLinter(str(ROOT), no_cache=True, all_warnings_as_errors=True, quiet=["ok"])
    unsafe: list[str] = []
    for (app, name), migration in sorted(linter.migration_loader.disk_migrations.items()):
        if not _is_of_project(migration) or (app, name) in accepted:
            continue
        linter.reset_counters()
        linter.lint_migration(migration)
        if linter.has_errors:
            unsafe.append(f"{app}.{name}")
    return unsafe


def _is_of_project(migration: Migration) -> bool:
    """Return whether a migration is one of ours, and not one of a package."""
    from django.apps import apps  # noqa: PLC0415 (apps are there only after django.setup)

    folder = Path(apps.get_app_config(migration.app_label).path)
    return folder.parent == ROOT


if __name__ == "__main__":
    sys.exit(main())
