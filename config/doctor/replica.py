"""What is examined of the replica: whether lists and exports can read it, and how far behind it is."""

from __future__ import annotations

import time
from collections.abc import Iterator

from django.db import Error, connections

from config.database.outages import first_line
from config.database.replica import REPLICA, Position, Reason, Standing, ask_primary, ask_replica, has_replica, judge
from config.doctor.examinations import Finding, Options, error, ok, register, warning

_SECONDS_TO_CATCH_UP = 2
_SECONDS_BETWEEN_POLLS = 0.1
_READ_INSTEAD = "Lists and exports are read from the primary meanwhile."


def examine_replica(_: Options) -> Iterator[Finding]:
    """Yield whether the standby at REPLICA_URL can be read instead of the primary. Without one, nothing is said."""
    if not has_replica():
        return
    try:
        position = ask_primary()
    except Error:
        return  # the examination of the database says more
    try:
        yield from _examine(position)
    except Error as problem:
        words = first_line(problem)
        yield warning(f"It does not answer: {words}", f"Check REPLICA_URL, and whether it runs. {_READ_INSTEAD}")


def _examine(position: Position) -> Iterator[Finding]:
    standing = _wait_for(position)
    if judge(position, standing) is Reason.OTHER_DATABASE:
        yield error(*_mismatch(position, standing))
        return
    is_receiving, is_paused = _ask("SELECT EXISTS (SELECT FROM pg_stat_wal_receiver), pg_is_wal_replay_paused()")
    missing = position.end - (standing.replayed or 0)
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


def _wait_for(position: Position) -> Standing:
    deadline = time.monotonic() + _SECONDS_TO_CATCH_UP
    while judge(position, standing := ask_replica()) is Reason.BEHIND and time.monotonic() < deadline:
        time.sleep(_SECONDS_BETWEEN_POLLS)
    return standing


def _mismatch(position: Position, standing: Standing) -> tuple[str, str]:
    if position.timeline is None:
        remedy = "Unset REPLICA_URL: only the standby of a primary that has all rows itself can be compared with it."
        return "DATABASE_URL is a standby, or a coordinator of Citus.", remedy
    if standing.system != position.system:
        return "It belongs to another PostgreSQL cluster.", "Set REPLICA_URL to a standby of DATABASE_URL's server."
    if standing.replayed is None:
        return "It is no standby, because it accepts writes.", "Set REPLICA_URL to a standby of DATABASE_URL's server."
    return (
        f"It follows timeline {standing.timeline}, and the primary writes timeline {position.timeline}.",
        "After a failover, run CHECKPOINT on the primary and then on the standby. If that does not help, build the "
        "standby anew.",
    )


def _behind(missing: int) -> str:
    [seconds] = _ask("SELECT extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())::bigint")
    since = "" if seconds is None else f", and last replayed a commit of {seconds:,} seconds ago"
    return f"It is {max(missing, 0):,} bytes of the log behind{since}."


def _ask(statement: str) -> tuple[int | None, ...]:
    with connections[REPLICA].cursor() as cursor:
        cursor.execute(statement)
        row: tuple[int | None, ...] = cursor.fetchone()
    return row


register("replica", examine_replica)
