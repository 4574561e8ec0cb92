"""Commands as programs: what an operator can cause is said in lines that say what to do, without a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command, load_command_class
from django.db import DatabaseError, IntegrityError, NotSupportedError, OperationalError, ProgrammingError, connection
from django.db.migrations.recorder import MigrationRecorder

from config.database import connections
from config.management import migrating, program
from config.management.commands import serve
from tests.config.test_checks import SECURE
from tests.deployment import PRODUCTION

NOBODY_LISTENS = "postgres://halyard:secret@127.0.0.1:1/halyard"


RUN_EACH = """
import sys
from config.management.program import run
for command in sys.argv[1:]:
    try:
        sys.exit(run(["manage.py", command]))
    except SystemExit as end:
        print(isinstance(end.code, str) or end.code)  # a text is printed, and the status is 1
        print(end.code, file=sys.stderr)
"""


def manage(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return python(folder, "manage.py", *arguments, **environment)


def python(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=settings.BASE_DIR,
        env={
            **os.environ,
            **PRODUCTION,
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "RUNTIME_DIR": str(folder),
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.once
def test_run__database_away__says_so_in_two_lines(tmp_path: Path) -> None:
    """In one process, because each takes a second or two to load the service."""
    commands = ("migrate", "list_keys", "maintain", "setup")
    done = python(tmp_path, "-c", RUN_EACH, *commands, DATABASE_URL=NOBODY_LISTENS)
    assert {*done.stdout.splitlines()} <= {"True", "1"}, done.stdout
    assert len(done.stdout.splitlines()) == len(commands)
    assert "Traceback" not in done.stderr
    assert "secret" not in done.stderr


@pytest.mark.once
def test_manage__database_without_tables__names_the_command(tmp_path: Path) -> None:
    done = manage(tmp_path, "list_keys", DATABASE_URL=f"sqlite:///{tmp_path}/empty.sqlite3")
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("The database lacks the migrations admin.0001_initial, ")
    assert line.endswith("run `manage.py migrate`.")


@pytest.mark.once
def test_manage__file_that_is_no_database__says_so(tmp_path: Path) -> None:
    file = tmp_path / "letter.txt"
    file.write_text("Dear operator, " * 100)
    done = manage(tmp_path, "list_keys", DATABASE_URL=f"sqlite:///{file}")
    assert done.stderr.startswith("The database cannot be used: file is not a database.\n")


@pytest.mark.once
def test_manage__runtime_folder_that_is_a_file__is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    done = manage(file, "migrate")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"RUNTIME_DIR must be a folder; {file} cannot be one: File exists.\n"


@pytest.mark.once
def test_manage__traceback_wanted__is_shown(tmp_path: Path) -> None:
    done = manage(tmp_path, "list_keys", "--traceback", DATABASE_URL=NOBODY_LISTENS)
    assert done.stderr.startswith("Traceback")


@pytest.mark.django_db
def test_explain__what_an_operator_can_cause__is_said() -> None:
    for error, words in [
        (OperationalError("disk full"), "The database does not answer: disk full."),
        (DatabaseError("file is not a database"), "The database cannot be used: file is not a database."),
        (NotSupportedError("PostgreSQL 14 or later is required"), "The database cannot be used: PostgreSQL 14"),
        (PermissionError(13, "Permission denied", "out.csv"), "out.csv: Permission denied."),
        (OSError(28, "No space left on device", "out.csv"), "out.csv: No space left on device."),
        (OSError(36, "File name too long", "xx"), "xx: File name too long."),
    ]:
        assert (program.explain(error, needs_schema=True) or "").startswith(words), error


@pytest.mark.django_db
@pytest.mark.parametrize(
    "error", [IntegrityError("x"), ProgrammingError("x"), FileNotFoundError(2, "No such file", "x"), ConnectionError()]
)
def test_explain__defect__is_not(error: Exception) -> None:
    assert program.explain(error, needs_schema=True) is None


@pytest.mark.django_db
def test_explain__statement_that_fails_in_an_old_schema__is_said_unless_the_command_migrates() -> None:
    MigrationRecorder(connection).record_unapplied("events", "0001_first_release")
    words = program.explain(ProgrammingError("no such column"), needs_schema=True)
    assert words == "The database lacks the migrations events.0001_first_release; run `manage.py migrate`."
    assert program.explain(ProgrammingError("no such column"), needs_schema=False) is None


def test_run__interrupted__ends_like_a_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "execute_from_command_line", interrupt)
    assert program.run(["manage.py", "maintain"]) == 130


def test_run__input_that_ended__is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(_: object) -> None:
        raise EOFError

    monkeypatch.setattr(program, "execute_from_command_line", ask)
    assert str(program.run(["manage.py", "restore"])).startswith("Nothing was changed")


# --- serve -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def started(settings: Any, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether a server has been started, which does not run."""
    for name, value in SECURE.items():
        setattr(settings, name, value)
    started: list[bool] = []

    class Server:
        def __init__(self, *_: object) -> None:
            pass

        def run(self) -> None:
            started.append(True)

    listening = SimpleNamespace(getsockname=lambda: ("127.0.0.1", 8000))
    monkeypatch.setattr(serve, "listen", lambda *_, count: [listening] * count)
    monkeypatch.setattr(serve, "listen_for_streams", lambda *_, **__: listening)
    monkeypatch.setattr(serve, "Supervisor", Server)
    monkeypatch.setattr(serve, "limit_process", lambda _: None)
    monkeypatch.setattr(serve.connection, "close", lambda: None)
    return started


@pytest.mark.django_db
def test_serve__migrations_missing__is_refused_and_the_command_named(started: list[bool]) -> None:
    MigrationRecorder(connection).record_unapplied("events", "0001_first_release")
    with pytest.raises(CommandError) as refused:
        call_command("serve", port=0, stdout=StringIO())
    assert str(refused.value) == (
        "The database lacks the migrations events.0001_first_release; run `manage.py migrate`, or serve with --migrate."
    )
    assert not started


@pytest.mark.django_db
def test_commands__of_an_operator_on_a_database_made_before_the_first_release__do_nothing_but_say_how_to_move(
    capsys: pytest.CaptureFixture[str],
) -> None:
    recorder = MigrationRecorder(connection)
    recorder.record_unapplied("events", "0001_first_release")
    recorder.record_applied("events", "0001_initial")
    command = load_command_class("config", "maintain")
    with pytest.raises(SystemExit, match="1"):
        command.run_from_argv(["manage.py", "maintain"])
    written = capsys.readouterr()
    assert written.err.startswith("CommandError: The database was made before version 0.1.0 and cannot be migrated")
    assert written.out == ""


@pytest.mark.django_db
def test_commands__database_made_before_the_first_release__say_how_to_move_and_change_nothing(
    started: list[bool],
) -> None:
    recorder = MigrationRecorder(connection)
    for app in ("config", "events", "experiments", "flags"):
        recorder.record_unapplied(app, "0001_first_release")
        recorder.record_applied(app, "0001_initial")
    before, tables = recorder.applied_migrations().keys(), connection.introspection.table_names()
    for command in (["migrate"], ["setup"], ["serve"], ["serve", "--migrate"]):
        with pytest.raises(CommandError) as refused:
            call_command(*command, **({"port": 0} if command[0] == "serve" else {}), stdout=StringIO())
        [sentence] = str(refused.value).splitlines()
        assert sentence.startswith("The database was made before version 0.1.0 and cannot be migrated, so write its")
        assert ". " not in sentence
    assert (recorder.applied_migrations().keys(), connection.introspection.table_names()) == (before, tables)
    assert not started
    assert not User.objects.exists()


@pytest.mark.django_db
def test_serve__newer_migrations_applied__serves(started: list[bool]) -> None:
    MigrationRecorder(connection).record_applied("events", "9999_of_a_newer_version")
    call_command("serve", port=0, stdout=StringIO())
    assert started


@pytest.mark.django_db
def test_serve__asked_to_migrate__does_so_first(started: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = MigrationRecorder(connection)
    recorder.record_unapplied("events", "0001_first_release")
    monkeypatch.setattr(serve, "migrate", lambda _: recorder.record_applied("events", "0001_first_release"))
    call_command("serve", "--migrate", port=0, stdout=StringIO())
    assert started


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite does not limit statements")
def test_serve__told_to_migrate__gives_migrations_the_time_of_commands(
    started: list[bool], monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    limits: list[str] = []

    def read_limit(*_: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SHOW statement_timeout")
            limits.append(cursor.fetchone()[0])

    settings.DATABASE_TIMEOUT, settings.DATABASE_LONG_TIMEOUT = 7, 77
    monkeypatch.setattr(connections._Process, "seconds", None)
    monkeypatch.setattr(serve, "limit_process", connections.limit_process)
    monkeypatch.setattr(serve, "migrate", read_limit)
    monkeypatch.setattr(serve, "require_schema", read_limit)
    try:
        call_command("serve", "--migrate", port=0, stdout=StringIO())
    finally:
        connections.limit_process(connections.UNLIMITED)
    assert limits == ["77s", "7s"]


@pytest.mark.django_db
@pytest.mark.parametrize("options", [[], ["--migrate"]])
def test_serve__database_away__warns_and_serves(
    started: list[bool], monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    def fail(*_: object) -> None:
        raise OperationalError("connection refused")

    monkeypatch.setattr(serve, "require_schema", fail)
    monkeypatch.setattr(serve, "migrate", fail)
    errors = StringIO()
    call_command("serve", *options, port=0, stdout=StringIO(), stderr=errors)
    assert started
    assert "The database does not answer: connection refused. This server starts from the last" in errors.getvalue()


# --- migrating on several hosts --------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_migrate__another_process_migrates__waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = migrating.advisory_lock("migrate")
    assert lock.__enter__()
    waits: list[float] = []

    def release(seconds: float) -> None:
        waits.append(seconds)
        lock.__exit__(None, None, None)

    monkeypatch.setattr(migrating.time, "sleep", release)
    out = StringIO()
    assert migrating.migrate(out, verbosity=0) == 0  # type: ignore[arg-type]
    assert waits == [1.0]
    assert out.getvalue() == "Another process is migrating the database; waiting for it."


# --- users -----------------------------------------------------------------------------------------------------------


CREATE_A_SUPERUSER = """
import sys
from config.management.program import run
assert run(["manage.py", "migrate"]) is None
assert run(["manage.py", "createsuperuser", "--no-input", "--username", "ada", "--email", "ada@example.com"]) is None
from config.models import Change
print(*Change.objects.filter(kind="user").values_list("key", "source"))
"""


@pytest.mark.once
def test_run__command_that_changes_users__is_in_the_change_log(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/halyard.sqlite3"
    done = python(
        tmp_path, "-c", CREATE_A_SUPERUSER, DATABASE_URL=url, DJANGO_SUPERUSER_PASSWORD="correct-horse-battery"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("('ada', 'command')\n")
