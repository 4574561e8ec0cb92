"""The suite on every database there is: `python -m tests`, and `--system` for the tests with real processes.

`--citus` runs the unit tests on Citus: on the coordinator that TEST_CITUS_URL names, or on one of its own with two
workers. Then it runs the tests that crash a cluster.

Other arguments go to pytest. PostgreSQL is the server that TEST_DATABASE_URL names, else one on 127.0.0.1:5432.
PostgreSQL runs every test. Beside it, SQLite leaves out what `tests/selection.py` says; without it, SQLite runs all.
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


def main() -> int:
    arguments = sys.argv[1:]
    if "--citus" in arguments:
        arguments.remove("--citus")
        return run_on_citus(arguments)
    suite, selection = "unit", ["-m", "not system and not citus", "--numprocesses", "auto"]
    if "--system" in arguments:
        arguments.remove("--system")
        # Three files of tests at a time: servers start, and clients wait, more than they compute.
        suite, selection = "system", ["-m", "system and not long", "--numprocesses", "3", "--dist", "loadfile"]
        selection += ["--no-loadscope-reorder", *_without("mark.system")]
    codes: dict[str, int] = {}
    tested = databases()
    for name, url in tested:
        print(f"=== {name} ===", flush=True)
        fewer = ["--beside-another-database"] if name != tested[-1][0] else []
        command = [sys.executable, "-m", "pytest", *selection, *fewer, *arguments]
        codes[name] = subprocess.run(command, env=environment(url, suite), check=False).returncode
    print("Ran on", ", ".join(f"{name}: {'failed' if code else 'passed'}" for name, code in codes.items()), flush=True)
    return int(any(codes.values()))


def run_on_citus(arguments: list[str]) -> int:
    from tests.citus.cluster import own_citus  # noqa: PLC0415 (which only this needs)

    with ExitStack() as running:
        url = os.environ.get("TEST_CITUS_URL") or running.enter_context(own_citus()).coordinator.url
        unit = [sys.executable, "-m", "pytest", "-m", "not system and not citus", "--numprocesses", "auto", *arguments]
        with_citus = {**environment(url, "unit"), "TEST_DISTRIBUTED": "true"}
        codes = [subprocess.run(unit, env=with_citus, check=False).returncode]
    cluster = [sys.executable, "-m", "pytest", "-m", "citus", *_without("mark.citus"), *arguments]
    codes.append(subprocess.run(cluster, env=environment(SQLITE, "system"), check=False).returncode)
    return int(any(codes))


def environment(url: str, suite: str) -> dict[str, str]:
    """Return the environment of a run of this suite on this database."""
    # Python then keeps the tests that pytest has compiled. Otherwise every process compiles all of them.
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, "DATABASE_URL": url, "TEST_SUITE": suite}


def databases() -> list[tuple[str, str]]:
    """Return the name and URL of each database to test on. The last one runs every test."""
    databases = [("SQLite", SQLITE)]
    if url := os.environ.get("TEST_DATABASE_URL"):
        databases.append(("PostgreSQL", url))
    elif _answers(LOCAL_POSTGRESQL):
        databases.append(("PostgreSQL on 127.0.0.1:5432", LOCAL_POSTGRESQL))
    else:
        print("No PostgreSQL here: set TEST_DATABASE_URL to test on one too.", flush=True)
    return databases


def _without(text: str) -> list[str]:
    """Options that spare pytest the reading of files without this text."""
    return [f"--ignore={file}" for file in Path("tests").rglob("test_*.py") if text not in file.read_text()]


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url.replace("postgres://", "postgresql://"), connect_timeout=3).close()
    except psycopg.OperationalError as error:
        print(f"PostgreSQL on 127.0.0.1:5432: {error}", flush=True)
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
