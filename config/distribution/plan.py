"""What is to be done so that a Citus coordinator has the tables as `tables.spread` says, and what stands against it.

Each step is one transaction, and a plan has only what is not done yet. So a command that was interrupted goes on where
it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction

from config.database.schema import missing_migrations
from config.database.timeouts import long_statements
from config.distribution.tables import USER, SpreadTable, spread

SUPPORTED = (12, 13)
"""The major versions of Citus whose catalog says which transactions a worker still has to commit."""
SHARDS = 32
"""How many parts a table has. With more workers than parts, some would have none."""

_TRANSACTIONS = "SELECT 1 FROM pg_attribute WHERE attrelid = 'pg_dist_transaction'::regclass AND attname = 'outer_xid'"
_WORKERS = "SELECT COUNT(*) FROM pg_dist_node WHERE noderole = 'primary' AND isactive AND shouldhaveshards"
_PREPARED = """
    SELECT nodename || ':' || nodeport, CASE WHEN success THEN result END
    FROM run_command_on_all_nodes('SHOW max_prepared_transactions') JOIN pg_dist_node USING (nodeid)
"""
_SPREAD = "SELECT 1 FROM pg_dist_partition WHERE logicalrelid = %s::regclass AND partmethod = 'h'"
_REFERENCES = "SELECT conname FROM pg_constraint WHERE contype = 'f' AND conrelid = %s::regclass ORDER BY 1"
_REFERRING = "SELECT conrelid::regclass::text FROM pg_constraint WHERE contype = 'f' AND confrelid = %s::regclass"
_KEY = """
    SELECT conname, ARRAY(
        SELECT attname::text FROM unnest(conkey) WITH ORDINALITY AS part (number, place)
        JOIN pg_attribute ON attrelid = conrelid AND attnum = number ORDER BY place
    ) FROM pg_constraint WHERE contype = 'p' AND conrelid = %s::regclass
"""
_OTHER_UNIQUE = """
    SELECT indexrelid::regclass::text FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attname = %s
    WHERE indrelid = %s::regclass AND indisunique AND NOT indisprimary AND attnum <> ALL (indkey)
"""
_SIZE = """
    SELECT GREATEST(reltuples, 0)::bigint, pg_size_pretty(pg_total_relation_size(oid))
    FROM pg_class WHERE oid = %s::regclass
"""
# A connection finds out at its beginning whether tables are spread.
_END_OTHERS = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND usename = current_user AND backend_type = 'client backend'
        AND pid <> pg_backend_pid() AND application_name NOT LIKE 'citus%'
"""


@dataclass(frozen=True, slots=True)
class Step:
    """One transaction: its statements, and the words for it."""

    table: str
    words: str
    statements: Sequence[str]


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps in their order, or the obstacles, each of which is a sentence that says what to do."""

    obstacles: Sequence[str]
    steps: Sequence[Step]


def make_plan() -> Plan:
    """Look at the database, and change nothing."""
    obstacles = [*_obstacles()]
    return Plan(obstacles, [] if obstacles else [*_steps()])


def carry_out(plan: Plan, on_step: Callable[[Step], object]) -> None:
    """Execute the steps. Each waits for the transactions that use its table, and makes others wait."""
    with long_statements():
        for step in plan.steps:
            on_step(step)
            with transaction.atomic(), connection.cursor() as cursor:
                for statement in step.statements:
                    cursor.execute(statement)
        if plan.steps:
            _rows(_END_OTHERS)


def _obstacles() -> Iterator[str]:
    if connection.vendor != "postgresql":
        yield "Only PostgreSQL with Citus can be distributed; DATABASE_URL names another database."
        return
    version = _value("SELECT extversion FROM pg_extension WHERE extname = 'citus'")
    if version is None:
        yield "The database lacks Citus; execute CREATE EXTENSION citus here and in the same database of each worker."
        return
    if int(version.partition(".")[0]) not in SUPPORTED or _value(_TRANSACTIONS) is None:
        yield f"The database has Citus {version}; install a newer release of Citus 12 or 13."
        return
    if not _value("SELECT citus_is_coordinator()"):
        yield "This is a worker; let DATABASE_URL name the coordinator."
        return
    yield from _obstacles_of_nodes()
    if missing_migrations():
        yield "Migrations are missing; run `manage.py migrate` before."
        return
    for table in spread:
        yield from _obstacles_of(table)


def _obstacles_of_nodes() -> Iterator[str]:
    if not _value(_WORKERS):
        yield "Citus has no worker; add each with SELECT citus_add_node('host', 5432)."
    for node, most in _rows(_PREPARED):
        if most is None:
            yield f"The node {node} does not answer; start it, or remove it with citus_remove_node."
        elif int(most) == 0:
            yield f"The node {node} prepares no transactions; set max_prepared_transactions to max_connections there."


def _obstacles_of(table: SpreadTable) -> Iterator[str]:
    for (index,) in _rows(_OTHER_UNIQUE, USER, table.name):
        yield f"The unique index {index} lacks the column {USER}, so that no worker alone could check it; drop it."
    for (other,) in _rows(_REFERRING, table.name):
        yield f"The table {other} refers to {table.name}, which would be on other servers; drop that foreign key."


def _steps() -> Iterator[Step]:
    first, *_ = spread
    for table in spread:
        if _value(_SPREAD, table.name) is None:
            beside = "" if table is first else f", colocate_with := '{first.name}'"
            shards = f", shard_count := {SHARDS}" if table is first else ""
            [(rows, size)] = _rows(_SIZE, table.name)
            yield Step(
                table.name,
                f"Spread {table.name} by {USER}: about {rows:,} rows, {size}",
                [
                    *_without_references(table),
                    *_with_key(table),
                    f"SELECT create_distributed_table('{table.name}', '{USER}'{shards}{beside})",
                    f"SELECT truncate_local_data_after_distributing_table('{table.name}')",
                ],
            )


def _without_references(table: SpreadTable) -> Iterator[str]:
    """Yield statements that drop references to tables of the coordinator, which workers cannot check.

    The service checks them: it never deletes an environment or an experiment that has rows.
    """
    for (name,) in _rows(_REFERENCES, table.name):
        yield f'ALTER TABLE {table.name} DROP CONSTRAINT "{name}"'


def _with_key(table: SpreadTable) -> Iterator[str]:
    [(name, columns)] = _rows(_KEY, table.name)
    if set(columns) != set(table.key):
        yield f'ALTER TABLE {table.name} DROP CONSTRAINT "{name}"'
        yield f'ALTER TABLE {table.name} ADD CONSTRAINT "{name}" PRIMARY KEY ({", ".join(table.key)})'


def _rows(statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters or None)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def _value(statement: str, *parameters: Any) -> Any:
    return next((value for (value,) in _rows(statement, *parameters)), None)
