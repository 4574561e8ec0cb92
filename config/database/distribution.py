"""Spreading the tables that grow with users over the workers of a Citus coordinator, where all others stay.

Each app registers its own tables. A plan has what is still to be done, such as for a table of a later release, and what
stands against it. All of its steps are one transaction, because statements that use several tables must not find one of
them elsewhere. So a command that was interrupted has changed nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import OperationalError, connection, transaction
from django.db.models import Model

from config.database.commit_order import ArrivalField, forget_restored_rows, has_restored_rows
from config.database.connections import UNLIMITED
from config.database.group_commit import is_conflict
from config.database.postgresql.base import SPREADING
from config.database.schema import missing_migrations

USER = "user_id"
"""The column by whose values rows are placed, so that all rows of a user are on the same worker."""


@dataclass(frozen=True, slots=True)
class SpreadTable:
    """A table whose rows are spread by user. `key` has the columns of its primary key, if it has one.

    `has_arrivals` is whether its rows store when they were written, for `config.database.commit_order`.
    """

    name: str
    key: tuple[str, ...]
    has_arrivals: bool = False


spread: list[SpreadTable] = []


def spread_by_user(model: type[Model], *key: str) -> None:
    """Spread the table of a model, which has no primary key or gets one of these columns.

    Citus wants the column of users in it.
    """
    assert not key or USER in key, model  # noqa: S101 (a worker can check only what it has)
    has_arrivals = any(isinstance(field, ArrivalField) for field in model._meta.fields)
    spread.append(SpreadTable(model._meta.db_table, key, has_arrivals))


SUPPORTED = (12, 13)
"""The major versions of Citus that were tried."""
SHARDS_A_WORKER = 2
"""How many parts a table has at first. A statement on all users is sent to each, and a new worker takes some."""
MAX_SHARDS = 64_000
"""The most that Citus allows."""
_MAX_ATTEMPTS = 20
"""To lock the tables. Each that fails takes the second after which PostgreSQL looks for deadlocks."""

_WORKERS = "SELECT COUNT(*) FROM pg_dist_node WHERE noderole = 'primary' AND isactive AND shouldhaveshards"
_NODES = "SELECT COUNT(*) FROM pg_dist_node"
_PREPARED = """
    SELECT nodename || ':' || nodeport, CASE WHEN success THEN result END
    FROM run_command_on_all_nodes('SHOW max_prepared_transactions') JOIN pg_dist_node USING (nodeid)
"""
_SPREAD = "SELECT 1 FROM pg_dist_partition WHERE logicalrelid = %s::regclass AND partmethod = 'h'"
_SHARDS = "SELECT COUNT(*) FROM pg_dist_shard WHERE logicalrelid = %s::regclass"
_REFERENCES = """
    SELECT conname, confrelid::regclass::text FROM pg_constraint WHERE contype = 'f' AND conrelid = %s::regclass
    ORDER BY 1
"""
_REFERRING = "SELECT conrelid::regclass::text FROM pg_constraint WHERE contype = 'f' AND confrelid = %s::regclass"
_KEY = """
    SELECT conname, ARRAY(
        SELECT attname::text FROM unnest(conkey) WITH ORDINALITY AS part (number, place)
        JOIN pg_attribute ON attrelid = conrelid AND attnum = number ORDER BY place
    ) FROM pg_constraint WHERE contype = 'p' AND conrelid = %s::regclass
"""
_IS_OURS = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass(%s)"
_OTHER_UNIQUE = """
    SELECT indexrelid::regclass::text FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attname = %s
    WHERE indrelid = %s::regclass AND indisunique AND NOT indisprimary AND attnum <> ALL (indkey)
"""
_TRIGGERS = "SELECT tgname::text FROM pg_trigger WHERE tgrelid = %s::regclass AND NOT tgisinternal ORDER BY 1"
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
    """The statements for one table, the words for it, and the tables that it refers to until then."""

    table: str
    words: str
    statements: Sequence[str]
    referred: Sequence[str]


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps in their order, or the obstacles, each of which is a sentence that says what to do."""

    obstacles: Sequence[str]
    steps: Sequence[Step]


def make_plan(shards: int | None = None) -> Plan:
    """Look at the database, and change nothing. `shards` is into how many parts a table is to be divided."""
    obstacles = [*_obstacles(shards)]
    return Plan(obstacles, [] if obstacles else [*_steps(shards)])


def carry_out(plan: Plan, on_step: Callable[[Step], object]) -> None:
    """Execute the steps. They wait for the transactions that use the tables, and then make others wait.

    A step takes as long as copying its table does. The operator watches it.
    """
    if not plan.steps:
        return
    wrapper: Any = connection
    with wrapper.statements_limited_to(UNLIMITED):
        with transaction.atomic(), connection.cursor() as cursor:
            # First, so that nobody can be in the way of a later step, when an earlier one has taken hours.
            _lock(cursor, sorted({table for step in plan.steps for table in (step.table, *step.referred)}))
            for step in plan.steps:
                on_step(step)
                for statement in step.statements:
                    cursor.execute(statement)
        _rows(_END_OTHERS)


def _lock(cursor: Any, tables: Sequence[str]) -> None:
    """Have all transactions wait that use the tables, or that ask where they are.

    A transaction may have read an experiment, and then ask: it waits for this one, which waits for it. PostgreSQL
    ends the wait of one of the two.
    """
    for attempt in range(1, _MAX_ATTEMPTS + 1):
        try:
            with transaction.atomic():  # whose savepoint gives the locks back
                cursor.execute(f"SELECT pg_advisory_xact_lock{SPREADING}")
                cursor.execute(f"LOCK TABLE {', '.join(tables)} IN ACCESS EXCLUSIVE MODE")
            return
        except OperationalError as error:
            if attempt == _MAX_ATTEMPTS or not is_conflict(error):
                raise


def _obstacles(shards: int | None) -> Iterator[str]:
    if connection.vendor != "postgresql":
        yield "Only PostgreSQL with Citus can be distributed; DATABASE_URL names another database."
        return
    version = _value("SELECT extversion FROM pg_extension WHERE extname = 'citus'")
    if version is None:
        yield "The database lacks Citus; execute CREATE EXTENSION citus here and in the same database of each worker."
        return
    if int(version.partition(".")[0]) not in SUPPORTED:
        yield f"The database has Citus {version}; install Citus 12 or 13."
        return
    if not _value(_NODES):
        yield (
            "Citus knows no servers; on the coordinator, execute SELECT citus_set_coordinator_host('host', 5432), and "
            "SELECT citus_add_node('host', 5432) for each worker."
        )
        return
    if not _value("SELECT citus_is_coordinator()"):
        yield "This is a worker; let DATABASE_URL name the coordinator."
        return
    yield from _obstacles_of_nodes()
    if others := [table.name for table in spread if _value(_IS_OURS, table.name) is False]:
        yield f"Another role owns these tables: {', '.join(others)}; let DATABASE_URL name it."
        return
    if missing_migrations():
        yield "Migrations are missing; run `manage.py migrate` before."
        return
    for table in spread:
        yield from _obstacles_of(table)
    if shards is not None:
        yield from _obstacles_to(shards)


def _obstacles_to(shards: int) -> Iterator[str]:
    first, *_ = spread  # with which all others share the number
    number = _value(_SHARDS, first.name)
    if number not in (0, shards):
        yield (
            f"Each table has {number} parts already, and this command does not change that; execute SELECT "
            f"alter_distributed_table('{first.name}', shard_count := {shards}, cascade_to_colocated := true), which "
            "writes all tables anew while writers wait."
        )


def _obstacles_of_nodes() -> Iterator[str]:
    if not _value(_WORKERS):
        yield "Citus has no worker; add each with SELECT citus_add_node('host', 5432)."
    for node, most in _rows(_PREPARED):
        if most is None:
            role = _value("SELECT current_user")
            yield (
                f"The coordinator cannot connect to the node {node} as {role}; start it, let this role in there, "
                "or remove it with citus_remove_node."
            )
        elif int(most) == 0:
            yield f"The node {node} prepares no transactions; set max_prepared_transactions to max_connections there."


def _obstacles_of(table: SpreadTable) -> Iterator[str]:
    for (index,) in _rows(_OTHER_UNIQUE, USER, table.name):
        yield f"The unique index {index} lacks the column {USER}, so that no worker alone could check it; drop it."
    for (other,) in _rows(_REFERRING, table.name):
        yield f"The table {other} refers to {table.name}, which would be on other servers; drop that foreign key."
    if _value(_SPREAD, table.name) is None:  # Citus adds triggers of its own
        for (trigger,) in _rows(_TRIGGERS, table.name):
            yield f"The table {table.name} has the trigger {trigger}, and Citus runs none on several servers; drop it."


def _steps(shards: int | None) -> Iterator[Step]:
    first, *_ = spread
    number = shards or SHARDS_A_WORKER * _value(_WORKERS)
    for table in spread:
        if _value(_SPREAD, table.name) is None:
            placed = f"shard_count := {number}" if table is first else f"colocate_with := '{first.name}'"
            [(rows, size)] = _rows(_SIZE, table.name)
            references = _rows(_REFERENCES, table.name)
            yield Step(
                table.name,
                f"Spread {table.name} by {USER}: about {rows:,} rows, {size}",
                [
                    *(_without_reference(table, name) for name, _ in references),
                    *_with_key(table),
                    *_with_own_arrivals(table),
                    f"SELECT create_distributed_table('{table.name}', '{USER}', {placed})",
                    f"SELECT truncate_local_data_after_distributing_table('{table.name}')",
                ],
                [referred for _, referred in references],
            )


def _without_reference(table: SpreadTable, name: str) -> str:
    """Return the statement that drops a reference to a table of the coordinator, which workers cannot check.

    The service checks them: it never deletes an environment or an experiment that has rows.
    """
    return f'ALTER TABLE {table.name} DROP CONSTRAINT "{name}"'


def _with_key(table: SpreadTable) -> Iterator[str]:
    for name, columns in _rows(_KEY, table.name):
        if set(columns) != set(table.key):
            yield f'ALTER TABLE {table.name} DROP CONSTRAINT "{name}"'
            yield f'ALTER TABLE {table.name} ADD CONSTRAINT "{name}" PRIMARY KEY ({", ".join(table.key)})'


def _with_own_arrivals(table: SpreadTable) -> Iterator[str]:
    """Yield statements for rows that were restored from another server, whose transactions had other numbers."""
    if table.has_arrivals and has_restored_rows(table.name):
        yield forget_restored_rows(table.name)


def _rows(statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters or None)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def _value(statement: str, *parameters: Any) -> Any:
    return next((value for (value,) in _rows(statement, *parameters)), None)
