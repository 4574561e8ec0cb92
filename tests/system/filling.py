"""Events from before a test, written by SQL, in an environment that its clients leave alone."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import psycopg

from tests.system.databases import for_psycopg

FILLED = "staging"
_COLUMNS = "id, environment_id, user_id, name, timestamp, received_at, experiment, variant, properties"
_ENVIRONMENT = f"(SELECT id FROM config_environment WHERE key = '{FILLED}')"
_POSTGRESQL = f"""
    INSERT INTO events_event ({_COLUMNS})
    SELECT gen_random_uuid(), {_ENVIRONMENT}, 'user-' || n %% 10007, 'view', moment, moment, '', '',
        jsonb_build_object('path', '/products/' || n)
    FROM (SELECT n, timestamptz '2026-01-01 00:00Z' + n * interval '1 second' AS moment
        FROM generate_series(1, %s) AS n) AS made
"""
_SQLITE = f"""
    INSERT INTO events_event ({_COLUMNS})
    WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
    SELECT lower(hex(randomblob(16))), {_ENVIRONMENT}, 'user-' || n % 10007, 'view', moment, moment, '', '',
        json_object('path', '/products/' || n)
    FROM (SELECT n, datetime('2026-01-01', n || ' seconds') AS moment FROM numbers)
"""
_COUNT = f"SELECT count(*) FROM events_event WHERE environment_id = {_ENVIRONMENT}"


def fill(database_url: str, count: int) -> None:
    """Write so many events."""
    _run(database_url, _SQLITE if _is_sqlite(database_url) else _POSTGRESQL, [count])


def count_filled(database_url: str) -> int:
    return int(_run(database_url, _COUNT, [])[0][0])


def _run(database_url: str, statement: str, parameters: list[Any]) -> list[Any]:
    if _is_sqlite(database_url):
        with closing(sqlite3.connect(database_url.removeprefix("sqlite:///"), timeout=60)) as connection, connection:
            return connection.execute(statement, parameters).fetchall()
    with psycopg.connect(for_psycopg(database_url)) as connection:
        cursor = connection.execute(statement, parameters)
        return cursor.fetchall() if cursor.description else []


def _is_sqlite(database_url: str) -> bool:
    return database_url.startswith("sqlite")
