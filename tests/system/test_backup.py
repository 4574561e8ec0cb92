"""Backups of a database that is served, and what is there after one is restored."""

from __future__ import annotations

import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.system.databases import fresh_database
from tests.system.filling import count_filled, fill
from tests.system.load import ANSWERED
from tests.system.recorders import stored_events
from tests.system.server import Keys, Server
from tests.system.traffic import evaluating, make_flags, traffic

pytestmark = pytest.mark.system

EVENTS = 1_000_000
PAUSE = 0.3
"""Between two requests of a client. All that they record is read again afterwards."""


def run(server: Server, *arguments: str) -> subprocess.CompletedProcess[str]:
    return server.try_to_run("manage.py", *arguments)


def track(server: Server, count: int) -> None:
    events = {"events": [{"event": "e", "userId": f"u{number}"} for number in range(count)]}
    assert server.ask("POST", "/v1/events/batch", json=events).status_code == 202


def count_events(server: Server) -> int:
    return len(server.ask("GET", "/v1/events?event=e&limit=1000").json()["data"])


def test_backup__of_a_served_database__is_restored_as_it_was(
    start_server: Callable[..., Server], tmp_path: Path
) -> None:
    server, file = start_server(), tmp_path / "halyard.backup"
    make_flags(server)
    track(server, 300)
    with evaluating(server) as answers:
        done = run(server, "backup", str(file))
    assert done.returncode == 0, done.stderr
    assert {*answers} == {ANSWERED}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir() if "unfinished" in path.name] == []
    flags = [flag["key"] for flag in server.ask("GET", "/v1/flags").json()["data"]]
    track(server, 100)
    assert server.ask("POST", "/v1/flags", json={"key": "made-later"}).status_code == 201
    assert server.stop() == 0
    restored = run(server, "restore", str(file), "--no-input")
    assert restored.returncode == 0, restored.stderr
    server.start()
    assert count_events(server) == 300
    assert [flag["key"] for flag in server.ask("GET", "/v1/flags").json()["data"]] == flags
    assert server.ask("POST", "/v1/flags/made-later/evaluate", json={"userId": "ada"}).status_code == 404
    track(server, 50)
    assert count_events(server) == 350


@pytest.mark.faults
@pytest.mark.long
def test_backup__of_a_million_events_under_traffic__fails_nothing_and_has_what_was_acknowledged(
    start_server: Callable[..., Server], tmp_path: Path
) -> None:
    server, file = start_server(), tmp_path / "halyard.backup"
    fill(server.environment["DATABASE_URL"], EVENTS)
    with traffic(server, pause=PAUSE) as ledger:
        with ledger.lock:
            acknowledged = {*ledger.events}
        done = run(server, "backup", str(file))
        ledger.wait_for_progress()
    assert done.returncode == 0, done.stderr
    assert (ledger.lost, ledger.unavailable.total()) == (0, 0)
    assert server.stop() == 0
    restored = run(server, "restore", str(file), "--no-input")
    assert restored.returncode == 0, restored.stderr
    server.start()
    assert acknowledged <= {event["id"] for event in stored_events(server)} <= {*ledger.events}
    assert count_filled(server.environment["DATABASE_URL"]) == EVENTS


def query(server: Server, statement: str) -> str:
    """Execute a statement, and return its first row as text."""
    code = f"from django.db import connection as c; u = c.cursor(); u.execute({statement!r})"
    done = run(server, "shell", "--no-imports", "-c", f"{code}; print(u.description and u.fetchone())")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def ended(tmp_path: Path, demo: tuple[str, Keys]) -> Iterator[Server]:
    """A server that does not run, with the flags of the demo."""
    with fresh_database(tmp_path, demo[0]) as url:
        yield Server(tmp_path, url)


def test_restore__into_the_database_of_a_newer_version__leaves_none_of_its_tables(
    ended: Server, tmp_path: Path
) -> None:
    server, file = ended, tmp_path / "halyard.backup"
    assert run(server, "backup", str(file)).returncode == 0
    flags = query(server, "SELECT count(*) FROM flags_flag")
    query(server, "CREATE TABLE newer (id integer PRIMARY KEY, flag uuid REFERENCES flags_flag (id))")
    query(server, "INSERT INTO newer SELECT 1, id FROM flags_flag LIMIT 1")
    query(server, "CREATE VIEW newer_view AS SELECT id FROM flags_flag")

    damaged = tmp_path / "damaged.backup"
    damaged.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    refused = run(server, "restore", str(damaged), "--no-input")
    assert refused.returncode == 1
    assert len(refused.stderr.splitlines()) == 1
    assert query(server, "SELECT count(*) FROM newer") == "(1,)"

    restored = run(server, "restore", str(file), "--no-input")
    assert restored.returncode == 0, restored.stderr
    for name in ("newer", "newer_view"):
        assert f"class {name.replace('_', '')}(" not in run(server, "inspectdb", name, "--include-views").stdout.lower()
    assert query(server, "SELECT count(*) FROM flags_flag") == flags
    assert run(server, "migrate", "--check").returncode == 0


def test_restore__that_cannot_ask__changes_nothing(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "halyard.backup"
    assert run(server, "backup", str(file)).returncode == 0
    done = run(server, "restore", str(file))
    assert (done.returncode, done.stderr.startswith("Nothing was changed")) == (1, True)


def test_backup__that_cannot_be__says_why_in_one_line(server: Server, tmp_path: Path) -> None:
    existing, other = tmp_path / "existing", tmp_path / "other"
    existing.write_text("mine")
    other.write_bytes(b"no backup of anything")
    for arguments, words in (
        (("backup", str(existing)), f"{existing} exists; name a new file."),
        (("backup", str(tmp_path / "none" / "file")), "No such file or directory."),
        (("backup", str(existing / "file")), "Not a directory."),
        (("backup", str(tmp_path / ("x" * 250))), "File name too long."),
        (("restore", str(tmp_path / "none")), "is no file."),
        (("restore", str(other), "--no-input"), f"{other} is no backup of "),
    ):
        refused = run(server, *arguments)
        assert refused.returncode == 1
        [line] = refused.stderr.splitlines()
        assert words in line
    assert existing.read_text() == "mine"
