"""Backups of the whole database: SQLite's online backup, and the client programs of PostgreSQL."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from django.conf import settings
from django.db import connection

from config.database.engines import is_distributed

_PAGES_AT_ONCE = 1000
"""After each portion, progress is reported. Each takes some milliseconds."""
_HEAD_OF_SQLITE, _HEAD_OF_DUMP = b"SQLite format 3\0", b"PGDMP"


_OF_SEVERAL_SERVERS = (
    "The tables are spread over several servers, of which no dump shows one moment. "
    "Back up the files of the coordinator and of each worker, for example with pgBackRest, and restore all of them."
)


class BackupFailed(Exception):
    """The message says why, and what to do."""


def back_up(file: Path, on_progress: Callable[[int], object] = lambda _: None) -> None:
    """Copy the database to a file, as it was at one moment. `on_progress` gets percents. Raises BackupFailed."""
    if connection.vendor == "sqlite":
        connection.ensure_connection()
        copy_sqlite(connection.connection, file, on_progress)
    elif is_distributed():
        raise BackupFailed(_OF_SEVERAL_SERVERS)
    else:
        _run(["pg_dump", "--format=custom", "--no-owner", "--no-privileges", f"--file={file}"])
        on_progress(100)


def restore(file: Path) -> None:
    """Replace the content of the database by that of a backup. Raises BackupFailed."""
    with file.open("rb") as opened:
        head = opened.read(len(_HEAD_OF_SQLITE))
    expected = _HEAD_OF_SQLITE if connection.vendor == "sqlite" else _HEAD_OF_DUMP
    if not head.startswith(expected):
        raise BackupFailed(f"{file} is no backup of {connection.display_name}, which DATABASE_URL names.")
    if connection.vendor == "sqlite":
        _restore_sqlite(file)
    elif is_distributed():
        raise BackupFailed(_OF_SEVERAL_SERVERS)
    else:
        _restore_postgresql(file)
    for left_over in ("state", "signal"):  # what workers of this host knew of the database before
        (settings.RUNTIME_DIR / left_over).unlink(missing_ok=True)


def copy_sqlite(source: sqlite3.Connection, file: Path, on_progress: Callable[[int], object]) -> None:
    """Copy a database of SQLite to a file, as it is at this moment, while others write."""
    done = 0

    def report(_status: int, remaining: int, total: int) -> None:
        nonlocal done
        percent = 100 * (total - remaining) // max(total, 1)
        on_progress(percent - done)
        done = percent

    try:
        with closing(sqlite3.connect(file)) as copy, _one_moment(source):
            source.backup(copy, pages=_PAGES_AT_ONCE, progress=report, sleep=0)
            copy.execute("PRAGMA journal_mode = DELETE")  # so that the copy is one file
    except sqlite3.Error as error:
        raise BackupFailed(f"The backup failed: {error}.") from error


@contextmanager
def _one_moment(source: sqlite3.Connection) -> Iterator[None]:
    """Let this connection see one state of the database, while others go on writing.

    Otherwise, SQLite begins the copy anew after each write of others, so that under traffic it would never end.
    """
    source.execute("BEGIN")
    try:
        source.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()  # the transaction begins with the first read
        yield
    finally:
        source.execute("ROLLBACK")


def _restore_sqlite(file: Path) -> None:
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as backup:
            [(verdict,)] = backup.execute("PRAGMA quick_check(1)").fetchall()
            if verdict != "ok":
                raise BackupFailed(f"{file} is damaged: {verdict}.")
            connection.ensure_connection()
            backup.backup(connection.connection)
    except sqlite3.Error as error:
        raise BackupFailed(f"{file} cannot be restored: {error}.") from error


_EMPTY = """
BEGIN;
SET client_min_messages = warning;
DO $$
DECLARE own record;
BEGIN
    FOR own IN
        SELECT format('%I.%I', nspname, relname) AS name,
            CASE relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'S' THEN 'SEQUENCE'
                WHEN 'f' THEN 'FOREIGN TABLE' ELSE 'TABLE' END AS kind
        FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE relkind IN ('r', 'p', 'v', 'm', 'S', 'f') AND nspname !~ '^pg_' AND nspname <> 'information_schema'
            AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = pg_class.oid AND deptype = 'e')
        ORDER BY relkind = 'S' -- those of a column go with their table
    LOOP
        -- CASCADE may have dropped it already.
        EXECUTE format('DROP %s IF EXISTS %s CASCADE', own.kind, own.name);
    END LOOP;
END $$;
"""
"""Drops all tables, also those that the backup does not have, because it is of an older version."""


def _restore_postgresql(file: Path) -> None:
    """Have psql execute the statements of pg_restore, in one transaction that commits only if both programs succeed."""
    read = ["pg_restore", "--clean", "--if-exists", "--no-owner", "--no-privileges", "--file=-", str(file)]
    write = ["psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--output=/dev/null", "--file=-"]
    reader, writer = _program(read), _program(write)
    with TemporaryFile("w+") as errors:
        psql = subprocess.Popen(  # noqa: S603 (a program by its full path)
            writer, env=_environment(), stdin=subprocess.PIPE, stderr=errors, text=True
        )
        try:
            problem = _feed(psql, reader)
        finally:
            if psql.poll() is None:  # it must not take the end of its input for the end of the backup
                psql.kill()
            psql.wait()
        errors.seek(0)
        lines = errors.read().strip().splitlines()
    if psql.returncode and lines:  # then this is also why pg_restore could not go on
        raise BackupFailed(f"psql failed: {lines[0]}")
    if problem or psql.returncode:
        raise BackupFailed(problem or f"psql failed: it ended with {psql.returncode}")


def _feed(psql: subprocess.Popen[str], reader: Sequence[str]) -> str:
    """Give psql the transaction, and return the problem of pg_restore."""
    assert psql.stdin is not None  # noqa: S101 (it is a pipe)
    try:
        psql.stdin.write(_EMPTY)
        psql.stdin.flush()
        done = subprocess.run(  # noqa: S603 (a program by its full path)
            reader, stdout=psql.stdin, stderr=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            return f"pg_restore failed: {_first_line(done)}"
        psql.stdin.write("COMMIT;\n")
        psql.stdin.close()
    except BrokenPipeError:
        pass  # psql has ended, and says why
    psql.wait()
    return ""


def _run(command: Sequence[str]) -> None:
    """Run a program of PostgreSQL. It gets the password in its environment, where other users do not see it."""
    done = subprocess.run(  # noqa: S603 (a program by its full path)
        _program(command), env=_environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BackupFailed(f"{command[0]} failed: {_first_line(done)}")


def _program(command: Sequence[str]) -> list[str]:
    program = shutil.which(command[0])
    if program is None:
        raise BackupFailed(f"{command[0]} is not installed; install the client programs of PostgreSQL.")
    return [program, *command[1:]]


def _first_line(done: subprocess.CompletedProcess[str]) -> str:
    return next(iter(done.stderr.strip().splitlines()), f"it ended with {done.returncode}")


def _environment() -> dict[str, str]:
    """Return the environment with the variables by which PostgreSQL's programs find the database."""
    own: dict[str, Any] = connection.settings_dict
    names = {"HOST": "PGHOST", "PORT": "PGPORT", "USER": "PGUSER", "PASSWORD": "PGPASSWORD", "NAME": "PGDATABASE"}
    address = {variable: str(own[name]) for name, variable in names.items() if own.get(name)}
    options = own.get("OPTIONS", {})
    of_libpq = {"sslmode": "PGSSLMODE", "sslrootcert": "PGSSLROOTCERT", "sslcert": "PGSSLCERT", "sslkey": "PGSSLKEY"}
    return {
        **os.environ,
        **address,
        **{variable: str(options[name]) for name, variable in of_libpq.items() if name in options},
    }
