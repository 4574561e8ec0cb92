"""The backend: connections whose statements are limited in time, and migrations that make no one wait for long.

Connections are checked by their socket, where Django would send `SELECT 1` in each request.
"""

from __future__ import annotations

import select
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.conf import settings
from django.db.backends.postgresql import base, schema
from django.db.transaction import atomic
from psycopg import IsolationLevel
from psycopg.pq import ConnStatus, TransactionStatus

from config.database.connections import seconds_of_process
from config.database.postgresql.connection import Connection, recover, settle

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


class _Route:
    """Whether the connections to a database go through a pool such as PgBouncer, which the first one finds out."""

    is_pooled: bool | None = None


_routes: defaultdict[str, _Route] = defaultdict(_Route)
"""Those of this process, by the alias of the database."""


class DatabaseWrapper(base.DatabaseWrapper):
    SchemaEditorClass = SchemaEditor
    connection: Connection | None
    _has_citus = False
    _distributed_tables: frozenset[str] = frozenset()
    _asked_in = 0

    @property
    def has_citus(self) -> bool:
        self.ensure_connection()
        return self._has_citus

    @property
    def distributed_tables(self) -> frozenset[str]:
        """The tables that Citus has spread over several servers.

        `manage.py distribute` closes the connections of its user, but a pool keeps those of its clients, and other
        users may have some. So each transaction asks once until there are some, and tables are spread only
        before or after it.
        """
        self.ensure_connection()
        opened = self.connection
        assert opened is not None  # noqa: S101 (that has opened it)
        if self._has_citus and not self._distributed_tables and self._must_ask(opened):
            with self.wrap_database_errors:
                opened.execute(f"SELECT pg_advisory_xact_lock_shared{SPREADING}")
                self._distributed_tables = _find_distributed_tables(opened)
            self._asked_in = opened.transactions
        return self._distributed_tables

    def _must_ask(self, opened: Connection) -> bool:
        status = opened.pgconn.transaction_status
        if status == TransactionStatus.INTRANS:
            return self._asked_in != opened.transactions
        return status == TransactionStatus.IDLE  # a transaction that has failed answers nothing

    def get_new_connection(self, conn_params: dict[str, Any]) -> Connection:
        seconds, idle_seconds = seconds_of_process(), settings.DATABASE_IDLE_TIMEOUT
        route = _routes[self.alias]
        opened = self._open(route, conn_params, _limits(seconds, idle_seconds))
        if route.is_pooled:
            self.settings_dict["DISABLE_SERVER_SIDE_CURSORS"] = True  # they outlive their transaction
        opened.seconds, opened.idle_seconds, opened.is_pooled = seconds, idle_seconds, bool(route.is_pooled)
        self._has_citus, self._distributed_tables = _look_for_citus(opened)
        if self._has_citus:
            opened.note_warnings()
        level = self.settings_dict["OPTIONS"].get("isolation_level")
        self.isolation_level = IsolationLevel(level or IsolationLevel.READ_COMMITTED)
        if level:
            opened.isolation_level = self.isolation_level
        return opened

    def _open(self, route: _Route, conn_params: dict[str, Any], limits: str) -> Connection:
        """Open a connection with these limits, or without them if a pool refuses or ignores them."""
        if route.is_pooled:
            return Connection.connect(**conn_params)
        options = f"{conn_params.get('options', '')} {limits}".strip()
        try:
            opened = Connection.connect(**{**conn_params, "options": options})
        except psycopg.OperationalError as error:
            if "startup parameter" not in str(error):
                raise
            route.is_pooled = True
            return Connection.connect(**conn_params)
        if route.is_pooled is None:
            route.is_pooled = _is_pooled(opened)
        return opened

    @contextmanager
    def statements_limited_to(self, seconds: int) -> Iterator[None]:
        """Limit statements until the end of the block, or if that is in a transaction, until its end."""
        self.ensure_connection()
        assert self.connection is not None  # noqa: S101 (that has opened it)
        limited, before = self.connection, self.connection.seconds
        with self.wrap_database_errors:
            limited.limit_statements(seconds)
        try:
            yield
        finally:
            limited.seconds = before
            if not self.in_atomic_block and self.errors_occurred:
                self.close()
            elif not self.in_atomic_block and limited is self.connection:
                with self.wrap_database_errors:
                    limited.limit_statements(before)

    def _commit(self) -> None:
        """Commit, and on Citus, wait for a worker that was lost meanwhile, of which Citus only warns."""
        committed = self.connection
        if committed is None or not self._has_citus:
            super()._commit()  # type: ignore[misc]  # not in the stubs
            return
        committed.has_warned = False
        super()._commit()  # type: ignore[misc]
        if committed.has_warned:
            with self.wrap_database_errors:
                settle(committed, committed.seconds or settings.DATABASE_LONG_TIMEOUT)

    def _rollback(self) -> None:
        """Roll back, and on Citus, tidy up on its workers after an error of the database."""
        rolled_back, has_failed = self.connection, self.errors_occurred
        super()._rollback()  # type: ignore[misc]  # not in the stubs
        if rolled_back is not None and has_failed and self._distributed_tables:
            recover(rolled_back)

    def is_usable(self) -> bool:
        """Return whether the next statement can be sent.

        A running server sends nothing between requests. One that ends sends a message and closes
        the connection. If it vanished silently, `SELECT 1` would get no response either.
        """
        if self.connection is None or self.errors_occurred:
            return super().is_usable()
        connection = self.connection.pgconn
        if connection.status != ConnStatus.OK:
            return False
        socket = select.poll()
        socket.register(connection.socket, select.POLLIN)
        return not socket.poll(0)


def _limits(seconds: int, idle_seconds: int) -> str:
    """Return the options with which a session begins."""
    return f"-c statement_timeout={seconds * 1000} -c idle_in_transaction_session_timeout={idle_seconds * 1000}"


def _look_for_citus(opened: Connection) -> tuple[bool, frozenset[str]]:
    """Return whether the database has the extension, and the names of the tables that are spread."""
    opened.autocommit = True
    try:
        [has_citus] = opened.execute(_HAS_CITUS).fetchone() or [False]
        return has_citus, _find_distributed_tables(opened) if has_citus else frozenset()
    finally:
        opened.autocommit = False


def _find_distributed_tables(opened: Connection) -> frozenset[str]:
    """Return the names of the tables that `manage.py distribute` has spread."""
    names = frozenset(name for (name,) in opened.execute(_DISTRIBUTED))
    if names:
        opened.execute(_ONE_CONNECTION_A_WORKER)
    return names


SPREADING = "(3, 1)"
"""The lock that transactions share which count on where tables are. Unlike those of `config.database.locks`."""
# Citus would open one for each part of a table, and close all but one. That takes longer than to write a batch.
_ONE_CONNECTION_A_WORKER = "SET citus.max_adaptive_executor_pool_size = 1"
_HAS_CITUS = "SELECT to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL"
_DISTRIBUTED = "SELECT logicalrelid::text FROM pg_catalog.pg_dist_partition WHERE partmethod = 'h'"


def _is_pooled(opened: Connection) -> bool:
    """Return whether statements reach another process than the handshake named. A pool makes up that process id."""
    opened.autocommit = True
    [pid] = opened.execute("SELECT pg_backend_pid()").fetchone() or [None]
    opened.autocommit = False
    return bool(pid != opened.info.backend_pid)
