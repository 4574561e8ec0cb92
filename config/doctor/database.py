"""What is examined of the database and of the clocks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import Error, connection
from django.utils import timezone

from config.database.outages import first_line
from config.database.schema import SchemaIsBehind, SchemaWasReplaced, require_schema
from config.doctor.examinations import Finding, Options, error, ok, register, warning
from config.models import Change

_CONNECTIONS_BESIDE_THREADS = 7
"""How many more connections a worker may hold, as the guide says under sizing."""
_RESERVED = 10
"""For commands, `psql` and PostgreSQL's own superusers."""
_TOLERANCE = timedelta(seconds=2)
_SYNCHRONISE = "Synchronise the clocks of all hosts by NTP, for example with chrony."


def examine_database(_: Options) -> Iterator[Finding]:
    """Yield whether the database answers, has the schema of this version, and keeps what it acknowledges."""
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
    """Yield whether the clocks of this host, of the database and of the hosts that made changes agree."""
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


def _value(statement: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        [value] = cursor.fetchone()
    return value


register("database", examine_database)
register("clock", examine_clock, needs_schema=True)
