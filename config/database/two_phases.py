"""Committing on several servers of Citus together."""

from __future__ import annotations

from typing import Any

from django.db import connection

from config.database.engines import is_distributed


def commit_in_two_phases() -> None:
    """On Citus, commit this transaction on the coordinator and its workers, or on none of them.

    Call it where a transaction writes rows of one user and others on the coordinator, such as counts. If all rows on
    workers are in one part of a table, Citus commits on that worker first. If the coordinator crashed then, it would
    lack its own rows. Where a copy begins, even of no row, Citus commits in two phases.
    """
    if not is_distributed():
        return
    wrapper: Any = connection
    copy = f"COPY {min(wrapper.distributed_tables)} (user_id) FROM STDIN"
    with connection.cursor() as cursor, connection.wrap_database_errors, cursor.copy(copy):
        pass
