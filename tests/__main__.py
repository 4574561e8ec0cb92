"""The unit tests on SQLite: `python -m tests`. `--postgresql` runs them on PostgreSQL, which is the server that
TEST_DATABASE_URL names, else one on 127.0.0.1:5432.

SQLite runs every unit test, and PostgreSQL those that use the database, as `tests/selection.py` says.

`--system` runs the tests with real processes on both, and on SQLite alone where there is no PostgreSQL.

`--citus` runs the unit tests on Citus: on the coordinator that TEST_CITUS_URL names, or on one of its own with two
workers. Then it runs the tests that crash a cluster.

Other arguments go to pytest.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import psycopg

SQLITE = "sqlite://:memory:"
LOCAL_POSTGRESQL = "postgres://postgres@127.0.0.1:5432/postgres"
NO_POSTGRESQL = "No PostgreSQL answers: start one on 127.0.0.1:5432, or name one in TEST_DATABASE_URL."
UNIT = ("-m", "not system and not citus", "--numprocesses", "auto")
# Three files of tests at a time: servers start, and clients wait, more than they compute.
SYSTEM = ("-m", "system and not long", "--numprocesses", "3", "--dist", "loadfile", "--no-loadscope-reorder")
BESIDE_ANOTHER = "--beside-another-database"


def main() -> int:
    arguments = sys.argv[1:]
    for option, run in (("--citus", run_on_citus), ("--system", run_system), ("--postgresql", run_on_postgresql)):
        if option in arguments:
            arguments.remove(option)
            return run(arguments)
    code = run_pytest(SQLITE, "unit", *UNIT, *arguments)
    print("These were the unit tests on SQLite. `make test-postgresql` runs them on PostgreSQL.", flush=True)
    return code


def run_on_postgresql(arguments: list[str]) -> int:
    url = postgresql()
    if url is None:
        print(NO_POSTGRESQL, file=sys.stderr)
        return 1
    return run_pytest(url, "unit", *UNIT, BESIDE_ANOTHER, *arguments)


def run_system(arguments: list[str]) -> int:
    """Run the system tests. PostgreSQL, where there is one, runs all; beside it, SQLite leaves some out."""
    options = [*SYSTEM, *_without("mark.system"), *arguments]
    url = postgresql()
    if url is None:
        print(NO_POSTGRESQL, "The system tests run on SQLite alone.", flush=True)
        return run_pytest(SQLITE, "system", *options)
    codes = {}
    for name, database, fewer in (("SQLite", SQLITE, [BESIDE_ANOTHER]), ("PostgreSQL", url, [])):
        print(f"=== {name} ===", flush=True)
        codes[name] = run_pytest(database, "system", *fewer, *options)
    print("Ran on", ", ".join(f"{name}: {'failed' if code else 'passed'}" for name, code in codes.items()), flush=True)
    return int(any(codes.values()))


def run_on_citus(arguments: list[str]) -> int:
    from tests.citus.cluster import own_citus  # noqa: PLC0415 (which only this needs)

    with ExitStack() as running:
        url = os.environ.get("TEST_CITUS_URL") or running.enter_context(own_citus()).coordinator.url
        codes = [run_pytest(url, "unit", *UNIT, *arguments, TEST_DISTRIBUTED="true")]
    codes.append(run_pytest(SQLITE, "system", "-m", "citus", *_without("mark.citus"), *arguments))
    return int(any(codes))


def run_pytest(url: str, suite: str, *options: str, **more: str) -> int:
    """Run tests on this database, and return the exit status."""
    # Python then keeps the tests that pytest has compiled. Otherwise every process compiles all of them.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"DATABASE_URL": url, "TEST_SUITE": suite, **more}
    return subprocess.run([sys.executable, "-m", "pytest", *options], env=environment, check=False).returncode


def postgresql() -> str | None:
    """Return the URL of the server to test on, or None where none answers."""
    if url := os.environ.get("TEST_DATABASE_URL"):
        return url
    try:
        psycopg.connect(LOCAL_POSTGRESQL.replace("postgres://", "postgresql://"), connect_timeout=3).close()
    except psycopg.OperationalError as error:
        print(f"PostgreSQL on 127.0.0.1:5432: {error}", flush=True)
        return None
    return LOCAL_POSTGRESQL


def _without(text: str) -> list[str]:
    """Options that spare pytest the reading of files without this text."""
    return [f"--ignore={file}" for file in Path("tests").rglob("test_*.py") if text not in file.read_text()]


if __name__ == "__main__":
    sys.exit(main())
