"""`manage.py distribute`: what it refuses on one server, and what it does once all tables are spread."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection

from config.database.backups import BackupFailed, back_up, restore
from config.distribution import plan
from config.distribution.tables import spread

pytestmark = pytest.mark.django_db


def distribute(*options: str) -> str:
    written = StringIO()
    call_command("distribute", *options, stdout=written, stderr=written)
    return written.getvalue()


@pytest.mark.one_server
@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_distribute__database_without_citus__is_refused_and_says_what_to_do(options: tuple[str, ...]) -> None:
    with pytest.raises(CommandError) as refused:
        distribute(*options)
    expected = "CREATE EXTENSION citus" if connection.vendor == "postgresql" else "DATABASE_URL names another database"
    assert expected in str(refused.value)
    assert "Nothing was changed." in str(refused.value)


def test_spread__every_table__has_the_user_in_its_key() -> None:
    assert [table.name for table in spread] == [
        "events_event",
        "experiments_exposure",
        "experiments_usertotal",
        "experiments_seriesuser",
    ]
    assert all("user_id" in table.key for table in spread)


@pytest.mark.distributed
def test_distribute__again__has_nothing_to_do() -> None:
    assert distribute("--dry-run") == distribute() == "All tables that grow with users are spread.\n"


@pytest.mark.distributed
def test_distribute__version_that_no_test_ran_on__is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "SUPPORTED", (99,))
    with pytest.raises(CommandError, match="install a newer release of Citus"):
        distribute()


@pytest.mark.distributed
def test_distribute__unique_index_without_the_user__is_refused() -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE seen (id bigint UNIQUE, user_id text)")
    table = plan.SpreadTable("seen", ("id", "user_id"))
    [obstacle] = plan._obstacles_of(table)
    assert obstacle.startswith("The unique index seen_id_key lacks the column user_id")


@pytest.mark.distributed
def test_backup__tables_on_several_servers__is_refused(tmp_path) -> None:
    file = tmp_path / "backup.dump"
    with pytest.raises(BackupFailed, match="of which no dump shows one moment"):
        back_up(file)
    file.write_bytes(b"PGDMP" * 10)
    with pytest.raises(BackupFailed, match="of which no dump shows one moment"):
        restore(file)
