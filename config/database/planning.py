"""Settings of PostgreSQL's planner for statements whose tables it has no statistics of, as right after a large load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.db import connection
from django.db.models import Model

from config.database.engines import is_distributed

BY_INDEX = {
    **dict.fromkeys(("enable_hashjoin", "enable_mergejoin", "enable_seqscan", "enable_sort"), "off"),
    "work_mem": "64MB",
}
"""For the rows of some users: an index lookup for each user."""
IN_ONE_PASS = {
    **dict.fromkeys(("enable_nestloop", "enable_mergejoin", "jit"), "off"),
    "work_mem": "256MB",
}
"""For the rows of all users: one scan of each table, joined by a hash table."""
WITHOUT_JIT = {"jit": "off"}
"""Compiling many sums takes longer than computing them."""


def gather_statistics(*models: type[Model]) -> None:
    """Update PostgreSQL's statistics of tables, which it would do only a minute later and plan badly until then."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"ANALYZE {', '.join(model._meta.db_table for model in models)}")


@contextmanager
def planned(**settings: str) -> Iterator[None]:
    """Have PostgreSQL execute statements with these planner settings, until the end of the block or a rollback."""
    if connection.vendor != "postgresql":
        yield
        return
    with connection.cursor() as cursor:
        before = _set(cursor, [*settings], [*settings.values()])
        yield
        _set(cursor, [*settings], before)


def _set(cursor: Any, names: Sequence[str], values: Sequence[str]) -> Sequence[str]:
    """Change settings until the transaction ends, and return what they were before."""
    if is_distributed():
        return _set_on_workers(cursor, names, values)
    cursor.execute(
        "WITH wanted AS MATERIALIZED (SELECT name, value, current_setting(name) AS before "
        "FROM unnest(%s::text[], %s::text[]) AS wanted (name, value)) "
        "SELECT array_agg(before), array_agg(set_config(name, value, true)) FROM wanted",
        [names, values],
    )
    before: Sequence[str] = cursor.fetchone()[0]
    return before


def _set_on_workers(cursor: Any, names: Sequence[str], values: Sequence[str]) -> Sequence[str]:
    """Do the same by commands, which Citus passes on to its workers, unlike functions."""
    cursor.execute("SELECT ARRAY(SELECT current_setting(name) FROM unnest(%s::text[]) AS name)", [names])
    before: Sequence[str] = cursor.fetchone()[0]
    cursor.execute("SET LOCAL citus.propagate_set_commands = 'local'")
    for name, value in zip(names, values, strict=True):
        cursor.execute(f"SET LOCAL {name} = %s", [value])
    return before
