"""The server conforms to its OpenAPI document, as thousands of generated requests check."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from drf_spectacular.generators import SchemaGenerator

from tests.selection import is_in_share
from tests.system.server import Server

pytestmark = pytest.mark.system

CONFIGURATION = Path(__file__).with_name("conformance.toml")
METRIC = {"type": "count", "event": "view"}
EXPERIMENT = {"variants": [{"key": "a", "weight": 1}, {"key": "b", "weight": 1}], "metrics": ["buy"]}


def cursor(server: Server, path: str) -> str:
    """Of the second page of a list, as `Link` gives it."""
    link = server.ask("GET", path, params={"limit": 1}).headers["Link"]
    [cursor] = re.findall(r"[?&]cursor=([A-Za-z0-9_-]+)", link)
    return str(cursor)


def operations(config: pytest.Config) -> list[str]:
    """Return the ids of the operations to test: a tenth of them where another database runs them
    all.
    """
    paths = SchemaGenerator().get_schema(request=None, public=True)["paths"]
    ids = [operation["operationId"] for methods in paths.values() for operation in methods.values()]
    assert len(ids) > 60
    return list(filter(is_in_share, ids)) if config.getoption("beside_another_database") else ids


def test_server__asked_all_kinds_of_things__answers_as_its_schema_says(
    server: Server, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    for at in range(2):
        server.ask("POST", "/v1/flags", json={"key": f"flag-{at}"}).raise_for_status()
        server.ask("POST", "/v1/segments", json={"key": f"segment-{at}"}).raise_for_status()
        server.ask("POST", "/v1/metrics", json={"key": f"metric-{at}", **METRIC}).raise_for_status()
        server.ask("POST", "/v1/experiments", json={"key": f"experiment-{at}", **EXPERIMENT}).raise_for_status()
        server.ask("POST", "/v1/events", json={"event": "buy", "userId": "u"}).raise_for_status()
    token = server.run("manage.py", "create_kill_switch", "flag-0", "--name", "conformance").strip()
    environment = {
        "HALYARD_KILL_SWITCH_TOKEN": token,
        "HALYARD_KILL_SWITCH": server.run("manage.py", "list_kill_switches").splitlines()[1].split()[0],
        "PATH": server.environment["PATH"],
        "HALYARD_KEY": server.keys["production"]["manage"],
        "HALYARD_FLAG_CURSOR": cursor(server, "/v1/flags"),
        "HALYARD_SEGMENT_CURSOR": cursor(server, "/v1/segments"),
        "HALYARD_METRIC_CURSOR": cursor(server, "/v1/metrics"),
        "HALYARD_CHANGE_CURSOR": cursor(server, "/v1/audit"),
        "HALYARD_ENVIRONMENT_CURSOR": cursor(server, "/v1/environments"),
        "HALYARD_KEY_CURSOR": cursor(server, "/v1/keys"),
        "HALYARD_EXPERIMENT_CURSOR": cursor(server, "/v1/experiments"),
        "HALYARD_EVENT_CURSOR": cursor(server, "/v1/events"),
    }
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIGURATION), "run"]
    tested = operations(pytestconfig)
    command += [f"--include-operation-id={operation}" for operation in tested]
    done = subprocess.run(
        [*command, f"{server.url}/v1/schema"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    report = "\n".join(line[:1000] for line in done.stdout.splitlines())
    assert done.returncode == 0, f"{report}\n{done.stderr}"
    assert f"Tested: {len(tested)}" in report
    [generated] = re.findall(r"(\d+) generated", report)
    assert int(generated) > 20 * len(tested)
