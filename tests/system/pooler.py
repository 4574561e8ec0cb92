"""PgBouncer between servers and PostgreSQL, in transaction mode."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from tests.system.cluster import own_folder, owner
from tests.system.databases import for_psycopg
from tests.system.server import free_port, wait_until

CONNECTIONS = 6
"""How many PgBouncer has for all of its clients: fewer than the threads of two servers."""


@contextmanager
def pooled(url: str) -> Iterator[str]:
    """Yield the address of the same database through PgBouncer."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.fail("PgBouncer is not installed here: `apt-get install pgbouncer`.")
    parts, port = urlsplit(url), free_port()
    name = parts.path.strip("/")
    through = urlunsplit(parts._replace(netloc=f"{parts.username}@127.0.0.1:{port}"))
    with own_folder() as folder:
        access = f"host={parts.hostname} port={parts.port or 5432} user={parts.username}"
        secret = f" password={parts.password}" if parts.password else ""
        options = {
            "listen_addr": "127.0.0.1",
            "listen_port": port,
            "unix_socket_dir": "",
            "auth_type": "any",
            "pool_mode": "transaction",
            "default_pool_size": CONNECTIONS,
            "max_client_conn": 200,
            "logfile": folder / "pgbouncer.log",
        }
        lines = ["[databases]", f"{name} = {access}{secret} dbname={name}", "[pgbouncer]"]
        configuration = folder / "pgbouncer.ini"
        configuration.write_text("\n".join([*lines, *(f"{key} = {value}" for key, value in options.items()), ""]))
        configuration.chmod(0o644)
        process = subprocess.Popen([program, "--quiet", str(configuration)], cwd="/", **owner())
        try:
            wait_until(lambda: _answers(through), "PgBouncer answers", 30)
            yield through
        finally:
            process.terminate()
            process.wait(30)


def _answers(url: str) -> bool:
    try:
        psycopg.connect(for_psycopg(url), connect_timeout=3).close()
    except psycopg.OperationalError:
        return False
    return True
