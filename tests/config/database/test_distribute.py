"""`manage.py distribute`: what it refuses on one server, and what it does once all tables are spread."""

from __future__ import annotations

import re
from io import StringIO
from unittest.mock import Mock

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import OperationalError, connection

from config.database import distribution as plan
from config.database.backups import BackupFailed, back_up, restore
from config.database.distribution import spread

pytestmark = pytest.mark.django_db


def distribute(*options: str) -> str:
    written = StringIO()
    call_command("distribute", *options, stdout=written, stderr=written)
    return written.getvalue()


@pytest.mark.one_server("a database without Citus")
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
        "experiments_uservalue",
        "experiments_dayvalue",
    ]
    with connection.cursor() as cursor:
        keys = {
            table.name: connection.introspection.get_primary_key_columns(cursor, table.name)
            for table in spread
            if connection.vendor == "postgresql"
        }
    assert [table.name for table in spread if not table.key] == ["experiments_uservalue"]
    assert all("user_id" in table.key or keys.get(table.name) is None for table in spread)


@pytest.mark.distributed
def test_distribute__again__has_nothing_to_do() -> None:
    assert distribute("--dry-run") == distribute() == "All tables that grow with users are spread.\n"


@pytest.mark.distributed
@pytest.mark.parametrize(("options", "number"), [((), 4), (("--shards", "6"), 6)])
def test_distribute__new_table__has_two_parts_for_each_worker_or_as_many_as_asked(
    options: tuple[str, ...], number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE seen (id bigint, user_id text, PRIMARY KEY (id, user_id))")
    monkeypatch.setattr(plan, "spread", [plan.SpreadTable("seen", ("id", "user_id"))])
    distribute(*options)
    assert plan._value("SELECT COUNT(*) FROM pg_dist_shard WHERE logicalrelid = 'seen'::regclass") == number


@pytest.mark.distributed
def test_distribute__other_number_of_parts_than_there_are__is_refused_and_says_what_changes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE seen (id bigint, user_id text, PRIMARY KEY (id, user_id))")
        cursor.execute("CREATE TABLE heard (id bigint, user_id text, PRIMARY KEY (id, user_id))")
    seen, heard = (plan.SpreadTable(name, ("id", "user_id")) for name in ("seen", "heard"))
    monkeypatch.setattr(plan, "spread", [seen])
    distribute("--shards=4")
    assert distribute("--shards=4") == distribute() == "All tables that grow with users are spread.\n"

    monkeypatch.setattr(plan, "spread", [seen, heard])
    for options in (["--shards=8"], ["--shards=8", "--dry-run"]):
        with pytest.raises(CommandError, match=r"has 4 parts already.*\nNothing was changed\.$") as refused:
            distribute(*options)
    assert plan._value(plan._SPREAD, "heard") is None
    distribute("--shards=4")
    [change] = re.findall(r"SELECT alter_distributed_table\(.*?\)", str(refused.value))
    with connection.cursor() as cursor:
        cursor.execute(change)
    assert [plan._value(plan._SHARDS, name) for name in ("seen", "heard")] == [8, 8]
    distribute("--shards=8")


@pytest.mark.parametrize("number", ["0", "-1", "x", "64001"])
def test_distribute__number_of_parts_that_citus_refuses__is_refused_before(number: str) -> None:
    with pytest.raises(CommandError, match="--shards"):
        distribute(f"--shards={number}")


@pytest.mark.distributed
def test_distribute__version_that_no_test_ran_on__is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "SUPPORTED", (99,))
    with pytest.raises(CommandError, match="install Citus 12 or 13"):
        distribute()


@pytest.mark.distributed
def test_distribute__role_that_owns_nothing_and_that_workers_refuse__is_told_both() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL ROLE pg_monitor")  # which is on every server, and cannot log in
    with pytest.raises(CommandError) as refused:
        distribute()
    *nodes, tables, _ = str(refused.value).splitlines()
    assert len(nodes) == 3  # the coordinator connects to itself, too
    assert all("as pg_monitor; start it, let this role in there" in node for node in nodes)
    assert tables.startswith("Another role owns these tables: events_event, experiments_exposure, ")


@pytest.mark.distributed
def test_distribute__coordinator_without_servers__says_how_to_add_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "_NODES", "SELECT 0")
    with pytest.raises(CommandError, match="Citus knows no servers; on the coordinator, execute"):
        distribute()


@pytest.fixture
def table_with_trigger(monkeypatch: pytest.MonkeyPatch) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE seen (id bigint, user_id text, PRIMARY KEY (id, user_id))")
        cursor.execute("CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'")
        cursor.execute("CREATE TRIGGER keep BEFORE INSERT ON seen FOR EACH ROW EXECUTE FUNCTION keep()")
    monkeypatch.setattr(plan, "spread", [plan.SpreadTable("seen", ("id", "user_id"))])


@pytest.mark.distributed
@pytest.mark.usefixtures("table_with_trigger")
def test_distribute__table_with_a_trigger__is_refused_before_anything_is_copied() -> None:
    with pytest.raises(CommandError, match=r"The table seen has the trigger keep, .*; drop it"):
        distribute("--dry-run")


@pytest.mark.distributed
@pytest.mark.usefixtures("table_with_trigger")
def test_distribute__step_that_citus_refuses__is_one_line_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "_TRIGGERS", "SELECT '' WHERE %s IS NULL")
    with pytest.raises(CommandError, match=r'"seen" because it has triggers[^$]*Nothing was changed\.$'):
        distribute()
    assert plan._value(plan._SPREAD, "seen") is None


@pytest.mark.distributed
def test_distribute__server_lost_on_the_way__says_what_holds_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = Mock(side_effect=OperationalError("connection to the remote node failed\nmore"))
    monkeypatch.setattr("config.management.commands.distribute.carry_out", lost)
    with pytest.raises(CommandError, match=r"^A server was lost: connection [a-z ]*\.\nEither all tables are spread"):
        distribute()


@pytest.mark.distributed
def test_distribute__large_table__may_take_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = []

    def look(_: plan.Step) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SHOW statement_timeout")
            limits.append(cursor.fetchone())

    monkeypatch.setattr(plan, "_END_OTHERS", "SELECT 1")
    plan.carry_out(plan.Plan([], [plan.Step("config_environment", "any", ["SELECT 1"], [])]), look)
    assert limits == [("0",)]


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
