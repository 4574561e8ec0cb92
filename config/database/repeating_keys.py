"""Tables of which many rows share the beginning of their key."""

from __future__ import annotations

from typing import Any

from django.db.migrations.operations.base import Operation


class ReplaceKeyByIndex(Operation):
    """On PostgreSQL, replace the primary key of a table by an index of its first columns that is not unique.

    Such an index holds equal values once, where a unique one holds the whole key of each row: with 13 rows of a user,
    10 bytes a row in place of 78. Other constraints of the table must keep its rows from being there twice.
    """

    reversible = True

    def __init__(self, model_name: str, columns: list[str], name: str) -> None:
        self.model_name, self.columns, self.name = model_name, columns, name

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Leave the state as it is: to Django, these columns are the key."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if schema_editor.connection.vendor != "postgresql":
            return
        table = to_state.apps.get_model(app_label, self.model_name)._meta.db_table
        schema_editor.execute(f"ALTER TABLE {table} DROP CONSTRAINT {table}_pkey")
        schema_editor.execute(f"CREATE INDEX {self.name} ON {table} ({', '.join(self.columns)})")
        # Or a publication of the table would refuse deletions.
        schema_editor.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL")

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if schema_editor.connection.vendor != "postgresql":
            return
        model = from_state.apps.get_model(app_label, self.model_name)
        table, key = model._meta.db_table, ", ".join(model._meta.pk.columns)
        schema_editor.execute(f"ALTER TABLE {table} REPLICA IDENTITY DEFAULT")
        schema_editor.execute(f"DROP INDEX {self.name}")
        schema_editor.execute(f"ALTER TABLE {table} ADD CONSTRAINT {table}_pkey PRIMARY KEY ({key})")

    def describe(self) -> str:
        return f"Replace the primary key of {self.model_name} by the index {self.name} on PostgreSQL"
