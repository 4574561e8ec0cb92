"""The units of systemd run commands that exist, and stop the server as it wants to be stopped."""

from __future__ import annotations

import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

from config.serving import supervisor
from tests.operations import parse_command, setting_names
from tests.system.server import ROOT

FOLDER = ROOT / "config/deploy/systemd"
CODE = "/srv/halyard"
SERVICES = sorted(file.name for file in FOLDER.glob("*.service"))
HARDENING = {
    "NoNewPrivileges": "yes",
    "CapabilityBoundingSet": "",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "RestrictSUIDSGID": "yes",
    "SystemCallFilter": "@system-service",
}
pytestmark = pytest.mark.once


def read(name: str) -> ConfigParser:
    parser = ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string((FOLDER / name).read_text())
    return parser


def test_units__all__are_known() -> None:
    assert SERVICES == ["halyard-maintain.service", "halyard.service"]
    assert [file.name for file in FOLDER.glob("*.timer")] == ["halyard-maintain.timer"]


@pytest.mark.parametrize("name", SERVICES)
def test_service__command_settings_and_paths__exist(name: str) -> None:
    service = read(name)["Service"]
    python, program, *words = service["ExecStart"].split()
    assert python == f"{CODE}/.venv/bin/python"
    assert service["WorkingDirectory"] == CODE
    assert (ROOT / program).is_file()
    parse_command(words)
    setting, _, folder = service["Environment"].partition("=")
    assert setting in setting_names()
    assert folder == f"/var/lib/{service['StateDirectory']}"


@pytest.mark.parametrize("name", SERVICES)
def test_service__user__has_no_rights(name: str) -> None:
    service = read(name)["Service"]
    assert service["User"] == service["Group"] == "halyard"
    assert {option: service[option] for option in HARDENING} == HARDENING


def test_server__stop__signals_the_supervisor_alone_and_waits_for_requests() -> None:
    service = read("halyard.service")["Service"]
    assert service["KillMode"] == "mixed"
    assert int(service["TimeoutStopSec"]) > supervisor._PATIENCE_SECONDS


def test_server__open_files__are_as_many_as_a_worker_wants() -> None:
    limit = int(read("halyard.service")["Service"]["LimitNOFILE"])
    assert limit - supervisor._OTHER_FILES >= supervisor._MAX_CONNECTIONS


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_units__systemd_analyze__finds_nothing(tmp_path: Path) -> None:
    for file in FOLDER.iterdir():
        # It looks for the program and its folder, which are elsewhere here.
        text = file.read_text().replace(f"{CODE}/.venv/bin/python", sys.executable).replace(CODE, str(ROOT))
        (tmp_path / file.name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *map(str, sorted(tmp_path.iterdir()))],
        capture_output=True,
        text=True,
        check=False,
    )
    complaints = [line for line in done.stderr.splitlines() if str(tmp_path) in line or "halyard" in line]
    assert (done.returncode, complaints) == (0, [])
