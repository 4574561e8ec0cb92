"""The tables that grow with users: each app registers its own. All others stay on the coordinator."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Model

from config.database.commit_order import ArrivalField

USER = "user_id"
"""The column by whose values rows are placed, so that all rows of a user are on the same worker."""


@dataclass(frozen=True, slots=True)
class SpreadTable:
    """A table whose rows are spread by user. `key` has the columns of its primary key.

    `has_arrivals` is whether its rows store when they were written, for `config.database.commit_order`.
    """

    name: str
    key: tuple[str, ...]
    has_arrivals: bool = False


spread: list[SpreadTable] = []


def register(model: type[Model], *key: str) -> None:
    """Spread the table of a model. Citus wants the column of users in the primary key, which gets these columns."""
    assert USER in key, model  # noqa: S101 (a worker can check only what it has)
    has_arrivals = any(isinstance(field, ArrivalField) for field in model._meta.fields)
    spread.append(SpreadTable(model._meta.db_table, key, has_arrivals))
