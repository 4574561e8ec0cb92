"""What the doctor examines of the database: its settings, its clock, the tables on Citus, and the replica."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, Error, connection, connections
from django.utils import timezone

from config.database.distribution import make_plan, spread
from config.database.engines import Engine, engine
from config.database.outages import first_line
from config.database.replica import (
    REPLICA,
    PrimaryLog,
    Reason,
    ReplicaLog,
    compare_logs,
    has_replica,
    read_primary_log,
    read_replica_log,
)
from config.database.schema import SchemaIsBehind, SchemaWasReplaced, require_schema
from config.management.examinations import Finding, Options, error, ok, warning
from config.models import Change

_CONNECTIONS_BESIDE_THREADS = 7
"""How many more connections a worker may hold, as the guide says under sizing."""
_RESERVED = 10
"""For commands, `psql` and PostgreSQL's own superusers."""
_TOLERANCE = timedelta(seconds=2)
_SYNCHRONISE = "Synchronise the clocks of all hosts by NTP, for example with chrony."


def examine_database(_: Options) -> Iterator[Finding]:
    """Check that the database answers, has the schema of this version, and keeps what it acknowledges."""
    try:
        connection.ensure_connection()
    except Error as problem:
        words = first_line(problem)
        yield error(
            f"It does not answer: {words}",
            "Check DATABASE_URL, and whether it runs. Flags are evaluated from the last known state meanwhile.",
        )
        return
    yield ok(f"{connection.display_name} answers.")
    try:
        require_schema()
        yield ok("All migrations of this version are applied.")
    except SchemaWasReplaced as problem:
        yield error(f"{problem}.", "Until then, run the code that made it.")
    except SchemaIsBehind as problem:
        yield error(f"{problem}.", "Start the server after that, or start it with `serve --migrate`.")
    yield from _examine_postgresql() if connection.vendor == "postgresql" else _examine_sqlite()


def _examine_postgresql() -> Iterator[Finding]:
    if _value("SHOW fsync") != "on" or _value("SHOW full_page_writes") != "on":
        yield error("PostgreSQL may lose or damage data in a power cut.", "Set fsync and full_page_writes to on.")
    if _value("SHOW synchronous_commit") == "off":
        remedy = "Set synchronous_commit to on, or accept that."
        yield warning("PostgreSQL may lose events that were acknowledged just before a crash.", remedy)
    if _value("SELECT pg_is_in_recovery()"):
        yield error("This is a standby, which accepts no writes.", "Point DATABASE_URL to the primary.")
    workers = os.cpu_count() or 1
    needed = workers * (settings.THREADS + _CONNECTIONS_BESIDE_THREADS) + _RESERVED
    most = int(_value("SHOW max_connections"))
    words = f"max_connections is {most}, and {workers} workers may hold {needed - _RESERVED} connections."
    if most >= needed:
        yield ok(words)
    else:
        yield warning(words, f"Set max_connections to {needed} or more for this host alone, or lower THREADS.")


def _examine_sqlite() -> Iterator[Finding]:
    if not connection.is_in_memory_db() and _value("PRAGMA journal_mode") != "wal":  # type: ignore[attr-defined]
        yield error(
            "SQLite cannot use a write-ahead log here.", "Put the file on a disk of this host, not on a network."
        )


def examine_clock(_: Options) -> Iterator[Finding]:
    """Check that the clocks of this host, of the database and of the hosts that made changes agree."""
    agree = True
    if connection.vendor == "postgresql":
        before = timezone.now()
        there = _value("SELECT clock_timestamp()")
        after = timezone.now()
        if not before - _TOLERANCE <= there <= after + _TOLERANCE:
            agree = False
            seconds = abs((there - before).total_seconds())
            yield error(f"The clocks of this host and of the database differ by {seconds:,.0f} seconds.", _SYNCHRONISE)
    newest: datetime | None = Change.objects.order_by("-revision").values_list("at", flat=True).first()
    if newest is not None and newest > timezone.now() + _TOLERANCE:
        agree = False
        yield warning(f"The newest change was made in the future, at {newest:%Y-%m-%d %H:%M:%S} UTC.", _SYNCHRONISE)
    if agree:
        yield ok("The clock agrees with the database.")


_NODES = """
    SELECT nodename || ':' || nodeport, COUNT(shardid), pg_size_pretty(COALESCE(SUM(shard_size), 0))
    FROM pg_dist_node LEFT JOIN citus_shards USING (nodename, nodeport)
    WHERE noderole = 'primary' AND shouldhaveshards AND isactive GROUP BY nodename, nodeport ORDER BY 1
"""
_MOVES = "SELECT COUNT(*) FROM get_rebalance_table_shards_plan()"
# Citus copies a shard while others write to it by logical decoding. Without it, moving fails in the background.
_LEVELS = "SELECT DISTINCT result FROM run_command_on_workers('SHOW wal_level')"


def examine_distribution(_: Options) -> Iterator[Finding]:
    """Check how tables are spread over the workers of Citus, if they are."""
    if engine() is not Engine.CITUS:
        yield ok("All tables are on one server.")
        return
    if steps := make_plan().steps:
        names = ", ".join(step.table for step in steps)
        yield error(f"Not spread yet: {names}.", "Run `manage.py distribute`, which spreads what is left.")
        return
    try:
        nodes = _rows(_NODES)
        [[moves]] = _rows(_MOVES)
    except Error as problem:
        yield error(f"A worker does not answer: {first_line(problem)}", "Start it again.")
        return
    placed = ", ".join(f"{name} has {shards} shards with {size}" for name, shards, size in nodes)
    yield ok(f"{len(spread)} tables are spread over {len(nodes)} workers: {placed}.")
    if moves:
        yield warning(f"{moves} shards would be better on other workers.", _how_to_move())


def _how_to_move() -> str:
    if {level for (level,) in _rows(_LEVELS)} == {"logical"}:
        return "Execute SELECT citus_rebalance_start()."
    return (
        "Execute SELECT citus_rebalance_start(shard_transfer_mode := 'block_writes'); writers wait meanwhile. Or first "
        "set wal_level to logical on each worker, and leave out this argument."
    )


_SECONDS_TO_CATCH_UP = 2
_SECONDS_BETWEEN_POLLS = 0.1
_READ_INSTEAD = "Lists and exports are read from the primary meanwhile."


def examine_replica(_: Options) -> Iterator[Finding]:
    """Check that the standby at REPLICA_URL, if there is one, can be read instead of the primary."""
    if not has_replica():
        return
    try:
        primary = read_primary_log()
    except Error:
        return  # the examination of the database says more
    try:
        yield from _examine_replication(primary)
    except Error as problem:
        words = first_line(problem)
        yield warning(f"It does not answer: {words}", f"Check REPLICA_URL, and whether it runs. {_READ_INSTEAD}")


def _examine_replication(primary: PrimaryLog) -> Iterator[Finding]:
    replica = _wait_for(primary)
    if compare_logs(primary, replica) is Reason.OTHER_DATABASE:
        yield error(*_mismatch(primary, replica))
        return
    is_receiving, is_paused = _ask("SELECT EXISTS (SELECT FROM pg_stat_wal_receiver), pg_is_wal_replay_paused()")
    missing = primary.end - (replica.replayed or 0)
    if is_paused:
        yield warning(f"Replay is paused. {_behind(missing)}", f"Run `SELECT pg_wal_replay_resume()`. {_READ_INSTEAD}")
    elif not is_receiving:
        remedy = f"Look into the log of the standby, and at its primary_conninfo. {_READ_INSTEAD}"
        yield warning(f"It does not stream from the primary. {_behind(missing)}", remedy)
    elif missing > 0:
        remedy = f"Look for a slow disk or network, or for a long query on the standby. {_READ_INSTEAD}"
        yield warning(f"It streams, but slowly. {_behind(missing)}", remedy)
    else:
        yield ok("It streams, and has replayed what the primary had when this began.")


def _wait_for(primary: PrimaryLog) -> ReplicaLog:
    deadline = time.monotonic() + _SECONDS_TO_CATCH_UP
    while compare_logs(primary, replica := read_replica_log()) is Reason.BEHIND and time.monotonic() < deadline:
        time.sleep(_SECONDS_BETWEEN_POLLS)
    return replica


def _mismatch(primary: PrimaryLog, replica: ReplicaLog) -> tuple[str, str]:
    if primary.timeline is None:
        remedy = "Unset REPLICA_URL: only the standby of a primary that has all rows itself can be compared with it."
        return "DATABASE_URL is a standby, or a coordinator of Citus.", remedy
    if replica.system != primary.system:
        return "It belongs to another PostgreSQL cluster.", "Set REPLICA_URL to a standby of DATABASE_URL's server."
    if replica.replayed is None:
        return "It is no standby, because it accepts writes.", "Set REPLICA_URL to a standby of DATABASE_URL's server."
    return (
        f"It follows timeline {replica.timeline}, and the primary writes timeline {primary.timeline}.",
        "After a failover, run CHECKPOINT on the primary and then on the standby. If that does not help, build the "
        "standby anew.",
    )


def _behind(missing: int) -> str:
    [seconds] = _ask("SELECT extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())::bigint")
    since = "" if seconds is None else f", and last replayed a commit of {seconds:,} seconds ago"
    return f"It is {max(missing, 0):,} bytes of the log behind{since}."


def _rows(statement: str, database: str = DEFAULT_DB_ALIAS) -> list[tuple[Any, ...]]:
    with connections[database].cursor() as cursor:
        cursor.execute(statement)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def _value(statement: str) -> Any:
    [[value]] = _rows(statement)
    return value


def _ask(statement: str) -> tuple[Any, ...]:
    [row] = _rows(statement, REPLICA)
    return row
