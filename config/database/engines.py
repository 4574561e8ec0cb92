"""Which kind of database this process uses, where SQL differs between them."""

from __future__ import annotations

from enum import StrEnum

from django.db import connection


class Engine(StrEnum):
    """The kinds of databases. Citus is PostgreSQL whose largest tables are spread over several servers."""

    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"
    CITUS = "citus"


def engine() -> Engine:
    """Return the kind of the database. On PostgreSQL, this opens the connection."""
    if connection.vendor == "sqlite":
        return Engine.SQLITE
    connection.ensure_connection()
    return Engine.CITUS if connection.distributed_table else Engine.POSTGRESQL  # type: ignore[attr-defined]


def is_distributed() -> bool:
    return engine() is Engine.CITUS
