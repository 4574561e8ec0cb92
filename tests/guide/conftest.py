"""A server as `make run` starts it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.databases import fresh_database
from tests.system.server import Server


@pytest.fixture
def development_server(tmp_path: Path) -> Iterator[Server]:
    """Serve a database that was just set up, with the settings that `make run` writes to `.env`."""
    with fresh_database(tmp_path) as url:
        server = Server(tmp_path, url, DEBUG="true", ANONYMOUS_SCOPE="manage")
        server.run("manage.py", "setup")
        server.start()
        try:
            yield server
        finally:
            server.kill()
