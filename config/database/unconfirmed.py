"""Transactions whose connection breaks during COMMIT: nobody hears then whether they were committed.

PostgreSQL remembers that by the number of the transaction. SQLite needs no connection that could break.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import DataError, InterfaceError, OperationalError, connection, transaction


class Unconfirmed(OperationalError):
    """The transaction with this number may have been committed. `was_committed` tells it later."""

    def __init__(self, number: str) -> None:
        super().__init__("The connection to the database broke during COMMIT.")
        self.number = number


@contextmanager
def traceable_transaction() -> Iterator[None]:
    """Run a transaction. Raises Unconfirmed if its COMMIT got no answer; after other errors, it was not committed."""
    number, is_whole = None, False
    try:
        with transaction.atomic():
            if connection.vendor == "postgresql":
                [number] = _ask("SELECT pg_current_xact_id()::text")
            yield
            is_whole = True
    except (OperationalError, InterfaceError) as error:
        if is_whole and number is not None:
            raise Unconfirmed(number) from error
        raise


def was_committed(number: str) -> bool:
    """Return whether a transaction was committed. Raises OperationalError while it is still under way."""
    try:
        [status] = _ask("SELECT pg_xact_status(%s::xid8)", number)
    except DataError:  # this server, which has taken over from another one, has not had such a transaction yet
        return False
    if status == "in progress":
        raise OperationalError("The database has not noticed yet that the connection broke.")
    return bool(status == "committed")


def _ask(statement: str, *parameters: str) -> tuple[str, ...]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        row: tuple[str, ...] = cursor.fetchone()
        return row
