"""Whether a transaction was committed, by its number."""

from __future__ import annotations

import pytest
from django.db import OperationalError, connection, transaction

from config.database.unconfirmed import traceable_transaction, was_committed

pytestmark = pytest.mark.django_db(transaction=True)
on_postgresql = pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no such numbers")


def own_number() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_xact_id()::text")
        [number] = cursor.fetchone()
        return str(number)


@on_postgresql
def test_was_committed__transaction_under_way__is_asked_again_later() -> None:
    with transaction.atomic():
        number = own_number()
        with pytest.raises(OperationalError):
            was_committed(number)
    assert was_committed(number)


@on_postgresql
def test_was_committed__transaction_rolled_back_or_of_the_future__is_false() -> None:
    with transaction.atomic():
        number = own_number()
        transaction.set_rollback(True)
    assert not was_committed(number)
    assert not was_committed(str(int(number) + 1_000_000))


def test_transaction__error_before_commit__is_that_error() -> None:
    with pytest.raises(OperationalError, match="of the statement"), traceable_transaction():
        raise OperationalError("of the statement")
