"""A connection that was opened before `manage.py distribute` finds out that tables are spread."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection, transaction

from config.database.engines import is_distributed
from config.database.postgresql import base

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.distributed]

_NONE_YET = "SELECT NULL::text WHERE false"


@pytest.fixture(autouse=True)
def opened_before(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The connection of the test does not know yet."""
    is_distributed()
    found = base._DISTRIBUTED
    monkeypatch.setattr(base, "_DISTRIBUTED", _NONE_YET)
    connection._distributed_tables = frozenset()
    assert not is_distributed()
    monkeypatch.setattr(base, "_DISTRIBUTED", found)


def test_is_distributed__outside_of_transactions__is_known_at_once() -> None:
    assert is_distributed()


def test_is_distributed__transaction_that_asked_before__keeps_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched, transaction.atomic():
        patched.setattr(base, "_DISTRIBUTED", _NONE_YET)
        assert not is_distributed()
        patched.undo()
        assert not is_distributed()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        assert is_distributed()


def test_is_distributed__transaction_that_has_failed__is_not_asked() -> None:
    with transaction.atomic():
        with pytest.raises(Exception, match="does not exist"), connection.cursor() as cursor:
            cursor.execute("SELECT * FROM nothing")
        assert not is_distributed()
        transaction.set_rollback(True)
    assert is_distributed()
