"""A database of its own for each server: a new SQLite file, or a new database on the PostgreSQL
server of the run.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg.sql import SQL, Identifier


@contextmanager
def fresh_database(folder: Path, template: str | None = None) -> Iterator[str]:
    """Yield the DATABASE_URL of an empty database, or of a copy of an unused one. It is dropped
    afterwards.
    """
    url = os.environ.get("DATABASE_URL", "sqlite://:memory:")
    if url.startswith("sqlite"):
        file = folder / "halyard.sqlite3"
        if template is not None:
            shutil.copyfile(template.removeprefix("sqlite:///"), file)
        yield f"sqlite:///{file}"
        return
    with fresh_postgresql(url, template) as fresh:
        yield fresh


@contextmanager
def fresh_postgresql(url: str, template: str | None = None) -> Iterator[str]:
    """The same on the server of another database."""
    name = f"halyard_{secrets.token_hex(6)}"
    original = urlsplit(template).path.strip("/") if template else "template1"
    with psycopg.connect(for_psycopg(url), autocommit=True) as connection:
        create = SQL("CREATE DATABASE {} TEMPLATE {}")
        connection.execute(create.format(Identifier(name), Identifier(original)))
    try:
        yield urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
    finally:
        with psycopg.connect(for_psycopg(url), autocommit=True) as connection:
            connection.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))


def for_psycopg(url: str) -> str:
    return urlunsplit(urlsplit(url)._replace(scheme="postgresql"))
