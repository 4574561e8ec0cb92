"""The tables that grow with users: each app registers its own. All others stay on the coordinator."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Model

USER = "user_id"
"""The column by whose values rows are placed, so that all rows of a user are on the same worker."""


@dataclass(frozen=True, slots=True)
class SpreadTable:
    """A table whose rows are spread by user. `key` has the columns of its primary key."""

    name: str
    key: tuple[str, ...]


spread: list[SpreadTable] = []


def register(model: type[Model], *key: str) -> None:
    """Spread the table of a model. Citus wants the column of users in the primary key, which gets these columns."""
    assert USER in key, model  # noqa: S101 (a worker can check only what it has)
    spread.append(SpreadTable(model._meta.db_table, key))
