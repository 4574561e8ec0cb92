"""Changes of tables by migrations, which do not make others wait for long."""

from __future__ import annotations

from typing import Any

from django.db.backends.postgresql import schema
from django.db.transaction import atomic

LOCK_SECONDS = 2
"""How long a change may wait for its lock. What asks for the table later waits behind it, even to read."""


class SchemaEditor(schema.DatabaseSchemaEditor):
    """Gives up if a table is in use for longer, for example by an export. `manage.py migrate` then tries again."""

    def __enter__(self) -> SchemaEditor:
        super().__enter__()
        if self.atomic_migration and not self.collect_sql:
            self._limit()
        return self

    def execute(self, sql: Any, params: Any = ()) -> None:
        # Building an index online waits for transactions by its nature, but nobody waits for it.
        if self.connection.in_atomic_block or self.collect_sql or "CONCURRENTLY" in str(sql):
            super().execute(sql, params)
            return
        with atomic(self.connection.alias):
            self._limit()
            super().execute(sql, params)

    def _limit(self) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
