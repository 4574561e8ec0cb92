"""Which kind of database this process uses, where SQL differs between them."""

from __future__ import annotations

from enum import StrEnum

from django.db import connection
from django.db.models import Model


class Engine(StrEnum):
    """The kinds of databases. Citus is PostgreSQL whose largest tables are spread over several servers."""

    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"
    CITUS = "citus"


def engine() -> Engine:
    """Return the kind of the database. On PostgreSQL, this opens the connection."""
    if connection.vendor == "sqlite":
        return Engine.SQLITE
    return Engine.CITUS if connection.distributed_tables else Engine.POSTGRESQL  # type: ignore[attr-defined]


def may_be_distributed() -> bool:
    """Return whether the database has Citus, so that `manage.py distribute` may spread its tables at any moment.

    Where statements depend on that, they need a transaction, which keeps the answer of `engine` true.
    """
    return connection.vendor == "postgresql" and connection.has_citus  # type: ignore[attr-defined]


def is_distributed() -> bool:
    return engine() is Engine.CITUS


def is_spread(model: type[Model]) -> bool:
    """Return whether the rows of the model's table are on several servers."""
    return is_distributed() and model._meta.db_table in connection.distributed_tables  # type: ignore[attr-defined]
