"""A database of its own for each server: a new SQLite file, or a new database on the PostgreSQL server of the run."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg.sql import SQL, Identifier


@contextmanager
def fresh_database(folder: Path) -> Iterator[str]:
    """The DATABASE_URL of an empty database, which is gone afterwards."""
    url = os.environ.get("DATABASE_URL", "sqlite://:memory:")
    if url.startswith("sqlite"):
        yield f"sqlite:///{folder / 'halyard.sqlite3'}"
        return
    with fresh_postgresql(url) as fresh:
        yield fresh


@contextmanager
def fresh_postgresql(url: str) -> Iterator[str]:
    """The DATABASE_URL of an empty database on the server of another one, which is gone afterwards."""
    name = f"halyard_{secrets.token_hex(6)}"
    with psycopg.connect(_for_psycopg(url), autocommit=True) as connection:
        connection.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
    try:
        yield urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
    finally:
        with psycopg.connect(_for_psycopg(url), autocommit=True) as connection:
            connection.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))


def _for_psycopg(url: str) -> str:
    return urlunsplit(urlsplit(url)._replace(scheme="postgresql"))
