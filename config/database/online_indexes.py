"""Adding indexes to large tables while servers go on writing to them."""

from __future__ import annotations

from typing import Any

from django.db.migrations import AddIndex


class AddIndexOnline(AddIndex):
    """Add an index without blocking writers; its migration must set `atomic = False`.

    On PostgreSQL, the index is built concurrently. If that was interrupted before, an invalid index is left, which is
    replaced. On other databases, this is a plain `AddIndex`.
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
