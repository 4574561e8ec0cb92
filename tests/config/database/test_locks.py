"""Advisory locks: one holder at a time, and none left over."""

from __future__ import annotations

import threading

import pytest
from django.db import connection, connections

from config.database.locks import advisory_lock

# Other connections hold these locks, and see only committed rows.
pytestmark = pytest.mark.django_db(transaction=True)


def try_elsewhere(name: str) -> bool:
    """Whether another thread, with connections of its own, gets the lock."""
    results = []

    def run() -> None:
        with advisory_lock(name) as is_ours:
            results.append(is_ours)
        connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return results[0]


def test_exclusively__nobody_holds_it__is_ours():
    with advisory_lock("purge") as is_ours:
        assert is_ours


def test_exclusively__somebody_holds_it__is_theirs_at_once():
    with advisory_lock("purge"):
        assert not try_elsewhere("purge")
        with advisory_lock("purge") as is_ours:
            assert not is_ours


def test_exclusively__another_name__is_ours():
    with advisory_lock("purge"):
        assert try_elsewhere("purge/../other name")


def test_exclusively__holder_has_ended__is_ours_again():
    with advisory_lock("purge"):
        pass
    assert try_elsewhere("purge")


def test_exclusively__holder_has_failed__is_ours_again_and_the_failure_goes_on():
    with pytest.raises(ZeroDivisionError), advisory_lock("purge"):
        raise ZeroDivisionError
    assert try_elsewhere("purge")


def test_exclusively__work_inside__commits_transactions_of_its_own():
    with advisory_lock("purge"):
        assert not connection.in_atomic_block
        assert connection.get_autocommit()


@pytest.mark.skipif(connection.vendor != "postgresql", reason="only PostgreSQL's locks are held by a connection")
class TestAdvisoryLock:
    def holders(self) -> list[tuple[int, bool]]:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pid, backend_xmin IS NULL AND backend_xid IS NULL "
                "FROM pg_locks JOIN pg_stat_activity USING (pid) "
                "WHERE locktype = 'advisory' AND datname = current_database()"
            )
            return cursor.fetchall()

    def test_lock__while_it_is_held__keeps_no_vacuum_from_its_work(self):
        with advisory_lock("purge"):
            [(_, holds_nothing_else)] = self.holders()
        assert holds_nothing_else
        assert self.holders() == []

    def test_lock__connection_breaks__is_let_go_and_what_was_done_stands(self):
        with advisory_lock("purge") as is_ours:
            [(pid, _)] = self.holders()
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
            assert is_ours
        assert try_elsewhere("purge")
