"""`manage.py maintain`: every task once, each by one process at a time, and none stopped by
another's failure.
"""

from __future__ import annotations

from datetime import datetime
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import OperationalError

from config.database.locks import advisory_lock
from config.management import maintenance
from tests.conftest import NOON

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_tasks(monkeypatch):
    monkeypatch.setattr(maintenance, "tasks", {})


def run() -> tuple[str, str, str]:
    """Run the command, and return its stdout, stderr and error."""
    out, err, failure = StringIO(), StringIO(), ""
    try:
        call_command("maintain", stdout=out, stderr=err)
    except CommandError as error:
        failure = str(error)
    return out.getvalue(), err.getvalue(), failure


def fail(_: datetime) -> str:
    raise OperationalError("password=hunter2")


def test_maintain__several_tasks__run_once_in_the_order_of_their_registration(time_machine):
    time_machine.move_to(NOON, tick=False)
    done = []
    for name in ("second", "first"):
        maintenance.register(name, lambda now, name=name: done.append((name, now)) or f"deleted 2 of {name}")
    assert run() == ("second: deleted 2 of second\nfirst: deleted 2 of first\n", "", "")
    assert done == [("second", NOON), ("first", NOON)]


def test_maintain__a_task_runs_elsewhere__is_skipped_and_the_others_run():
    maintenance.register("purge", fail)
    maintenance.register("counts", lambda _: "nothing to do")
    with advisory_lock("maintain purge"):
        assert run() == ("purge: skipped, because another process is running it\ncounts: nothing to do\n", "", "")


def test_maintain__a_task_fails__the_others_run_and_the_command_fails_without_its_words(caplog):
    maintenance.register("purge", lambda _: int("password=hunter2"))
    maintenance.register("counts", lambda _: "nothing to do")
    out, err, failure = run()
    assert out == "counts: nothing to do\n"
    assert err == "purge: failed (ValueError); see the log\n"
    assert failure == "These tasks failed: purge."
    assert "hunter2" not in out + err + failure
    assert caplog.records[0].exc_info is not None


def test_maintain__the_database_is_away__is_said_without_a_traceback(caplog):
    maintenance.register("purge", fail)
    assert run()[1] == "purge: failed, because the database does not answer\n"
    assert not caplog.records


def test_maintain__a_task_has_failed__its_lock_is_free_again():
    maintenance.register("purge", fail)
    run()
    with advisory_lock("maintain purge") as is_ours:
        assert is_ours


def test_register__name_of_another_task__is_refused():
    maintenance.register("purge", fail)
    maintenance.register("purge", fail)
    with pytest.raises(AssertionError, match="purge"):
        maintenance.register("purge", lambda _: "")


def test_do_each__one_fails__does_the_others_and_names_it(caplog):
    done = []
    with pytest.raises(RuntimeError, match=r"failed for 0$"):
        maintenance.do_each([2, 0, 1], lambda number: done.append(6 // number))
    assert done == [3, 6]
    assert "A periodic task failed for 0" in caplog.text


def test_do_each__database_away__tries_no_more():
    tried = []

    def ask(number: int) -> None:
        tried.append(number)
        raise OperationalError("gone")

    with pytest.raises(OperationalError):
        maintenance.do_each([1, 2], ask)
    assert tried == [1]
