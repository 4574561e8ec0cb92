"""How the tables are spread: what the doctor says of a Citus database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db import Error, connection

from config.database.engines import Engine, engine
from config.database.outages import first_line
from config.distribution.plan import make_plan
from config.distribution.tables import spread
from config.doctor.examinations import Finding, Options, error, ok, register, warning

_NODES = """
    SELECT nodename || ':' || nodeport, COUNT(shardid), pg_size_pretty(COALESCE(SUM(shard_size), 0))
    FROM pg_dist_node LEFT JOIN citus_shards USING (nodename, nodeport)
    WHERE noderole = 'primary' AND shouldhaveshards AND isactive GROUP BY nodename, nodeport ORDER BY 1
"""
_MOVES = "SELECT COUNT(*) FROM get_rebalance_table_shards_plan()"
# Citus copies a shard while others write to it by logical decoding. Without it, moving fails in the background.
_LEVELS = "SELECT DISTINCT result FROM run_command_on_workers('SHOW wal_level')"


def examine_distribution(_: Options) -> Iterator[Finding]:
    """Yield how the tables are spread over workers, if they are."""
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


def _rows(statement: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


register("distribution", examine_distribution, needs_schema=True)
