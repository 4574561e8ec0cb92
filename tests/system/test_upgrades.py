"""A release takes over from the one before under traffic: nothing fails, is lost or is doubled.

The release before is the commit that `release_before` names, with the packages of today. It has the migrations from the
first release on. The new release is this code with one more migration, so that there is always one to apply.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from config.database.postgresql.base import LOCK_SECONDS
from tests.system.balancer import balanced
from tests.system.databases import for_psycopg, fresh_database
from tests.system.filling import count_filled, fill
from tests.system.server import ROOT, Server, wait_until
from tests.system.traffic import traffic

pytestmark = pytest.mark.system

RELEASE_BEFORE = (ROOT / "tests/system/release_before").read_text().strip()
EVENTS = 300_000
"""So many that a migration which locks their table for as long as it reads it makes requests wait."""
MIGRATION = """
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("events", {last!r})]
    operations = [
        migrations.AddField("event", "size", models.IntegerField(null=True)),
    ]
"""
PAUSE = 0.1
"""The processes that start meanwhile need the processor, too."""

WAITING = """
    SELECT 1 FROM pg_stat_activity
    WHERE wait_event_type = 'Lock' AND query LIKE 'ALTER TABLE "events_event"%' AND datname = current_database()
"""


@pytest.fixture
def code_before(tmp_path: Path) -> Path:
    """A folder with the code of the release before."""
    if not _has_history():
        pytest.skip("this is no clone with its history, which has the release before (see `git fetch --unshallow`)")
    archive = _git("archive", RELEASE_BEFORE)
    assert archive.returncode == 0, f"the release before is not in the history: {archive.stderr.decode().strip()}"
    folder = tmp_path / "before"
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder


@pytest.fixture
def new_code(tmp_path: Path) -> Path:
    """A folder with this code and another migration of the table of events."""
    folder = tmp_path / "after"
    shutil.copytree(ROOT, folder, symlinks=True, ignore=shutil.ignore_patterns(".*", "node_modules", "var"))
    migrations = folder / "events/migrations"
    last = max(file.stem for file in migrations.glob("0*.py"))
    (migrations / "9999_of_a_test.py").write_text(MIGRATION.format(last=last))
    return folder


def _has_history() -> bool:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        return False
    return _git("rev-parse", "--is-shallow-repository").stdout.strip() != b"true"


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    # The clone may belong to another user than that of the tests.
    return subprocess.run(["git", "-c", "safe.directory=*", *arguments], cwd=ROOT, capture_output=True, check=False)


@pytest.fixture
def make_server(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Make servers of any release on one database, each with a folder of its own. They end with the test."""
    with ExitStack() as stack:
        url = stack.enter_context(fresh_database(tmp_path))

        def make(name: str, **options: object) -> Server:
            (tmp_path / name).mkdir()
            server = Server(tmp_path / name, url, **options)
            stack.callback(server.kill)
            return server

        yield make


def export(url: str) -> None:
    """Read the events on PostgreSQL, until a migration that needs their table has waited for too long."""
    if url.startswith("sqlite"):
        return
    with psycopg.connect(for_psycopg(url)) as reading, psycopg.connect(for_psycopg(url), autocommit=True) as watching:
        reading.execute("SELECT 1 FROM events_event LIMIT 1")
        wait_until(lambda: watching.execute(WAITING).fetchone() is not None, "the migration waits", 60)
        time.sleep(LOCK_SECONDS + 1)


def outages(server: Server) -> list[str]:
    """Return the lines of the log that say why a request was answered with 503."""
    return [line for line in server.log.read_text().splitlines() if "unavailable" in line]


def test_upgrade__under_traffic__fails_loses_and_doubles_nothing(
    make_server: Callable[..., Server], code_before: Path, new_code: Path
) -> None:
    old = make_server("old", code=code_before)
    old.prepare()
    new = make_server("new", code=new_code, SECRET_KEY=old.environment["SECRET_KEY"])
    url = new.environment["DATABASE_URL"]
    fill(url, EVENTS)
    old.start()
    with balanced(old) as balancer:
        service = make_server("service", port=balancer.port)
        service.keys = old.keys
        with traffic(service, pause=PAUSE) as ledger:
            with ThreadPoolExecutor(1) as pool:
                exporting = pool.submit(export, url)
                assert "Applying events.9999_of_a_test" in new.run("manage.py", "migrate")
                exporting.result()
            ledger.wait_for_progress()  # of the release before, on the database of the new one
            new.start()
            balancer.direct(new)
            ledger.wait_for_progress()
            assert old.stop() == 0
            ledger.wait_for_progress()
    assert (ledger.lost, ledger.unavailable.total()) == (0, 0), [*outages(old), *outages(new)][:5]
    assert count_filled(url) == EVENTS
