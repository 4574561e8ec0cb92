"""The targets of `make` that prepare a checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder in which everything is installed already."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "requirements.lock").touch()
    binaries = tmp_path / ".venv" / "bin"
    binaries.mkdir(parents=True)
    (binaries / "python").symlink_to(sys.executable)
    (tmp_path / ".venv" / "installed").touch()
    return tmp_path


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Nothing of a `make` that runs these tests is passed on.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("target", [(), ("help",)], ids=["none", "help"])
def test_help__also_without_a_target__lists_every_one_with_its_words(checkout, target):
    [phony] = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    printed = make(checkout, *target).stdout.splitlines()
    assert [line.split(maxsplit=2)[:2] for line in printed] == [["make", target] for target in phony.split()]
    assert all(line.endswith(".") for line in printed)


def test_env__new_checkout__is_for_development_and_readable_by_its_owner_alone(checkout):
    assert make(checkout, ".env").returncode == 0
    written = checkout / ".env"
    settings = dict(line.split("=", maxsplit=1) for line in written.read_text().splitlines())
    assert written.stat().st_mode & 0o777 == 0o600
    assert len(settings.pop("SECRET_KEY")) >= 50
    assert settings == {"DEBUG": "true", "ANONYMOUS_SCOPE": "manage"}


def test_env__that_exists__stays_as_it_is(checkout):
    (checkout / ".env").write_text("DEBUG=false\n")
    assert make(checkout, ".env").returncode == 0
    assert (checkout / ".env").read_text() == "DEBUG=false\n"


def test_env__two_checkouts__have_different_secrets(checkout):
    make(checkout, ".env")
    first = (checkout / ".env").read_text()
    (checkout / ".env").unlink()
    make(checkout, ".env")
    assert (checkout / ".env").read_text() != first


def test_run__port_given__sets_up_and_then_serves_there(checkout):
    printed = make(checkout, "--dry-run", "run", "PORT=9000").stdout.splitlines()
    assert printed[-2:] == [
        ".venv/bin/python manage.py setup --port 9000",
        "exec .venv/bin/python manage.py serve --port 9000",
    ]


def test_install__python_too_old__is_refused_before_anything_is_made(checkout):
    shutil.rmtree(checkout / ".venv")
    old = checkout / "python3.10"
    old.write_text(f'#!/bin/sh\nexec {sys.executable} -c "import sys; sys.version_info = (3, 10, 13)\n$2"\n')
    old.chmod(0o700)
    refused = make(checkout, "install", f"PYTHON={old}")
    assert refused.returncode != 0
    assert "Halyard needs Python 3.11 or newer" in refused.stderr
    assert not (checkout / ".venv").exists()


def test_install__folder_that_cannot_be_written_to__is_refused_with_a_sentence() -> None:
    with tempfile.TemporaryDirectory() as name:  # those of pytest are closed to other users
        folder = Path(name)
        shutil.copy(ROOT / "Makefile", folder)
        (folder / "requirements.lock").touch()
        folder.chmod(0o555)
        other_user = 65534 if os.geteuid() == 0 else None  # root may write everywhere
        refused = subprocess.run(
            ["make", "install"], cwd=folder, capture_output=True, text=True, check=False, user=other_user
        )
        folder.chmod(0o755)
        assert refused.returncode != 0
        assert refused.stderr.startswith(f"You may not write to {folder}: copy it to a folder of yours")
        assert not (folder / ".venv").exists()


@pytest.mark.parametrize("target", ["run", "test", "check"])
def test_targets__of_a_machine_without_node__ask_for_none(checkout, target):
    (checkout / "requirements-dev.lock").touch()
    assert "npm" not in make(checkout, "--dry-run", target).stdout


def test_test_system__clients_not_installed__are_installed_as_they_are_locked(checkout):
    (checkout / "requirements-dev.lock").touch()
    for name in ("openfeature", "next"):
        folder = checkout / "tests" / "system" / name
        folder.mkdir(parents=True)
        (folder / "package-lock.json").touch()
    printed = make(checkout, "--dry-run", "test-system").stdout
    assert "cd tests/system/openfeature && npm ci " in printed
    assert "cd tests/system/next && npm ci " in printed


def test_bench__peers_not_installed__are_installed_as_they_are_locked_without_what_they_ask_for(checkout):
    for lock in ("requirements-dev.lock", "requirements-bench.lock"):
        (checkout / lock).touch()
    folder = checkout / "tests" / "benchmarks" / "typescript"
    folder.mkdir(parents=True)
    (folder / "package-lock.json").touch()
    printed = make(checkout, "--dry-run", "bench").stdout
    assert "--no-deps --require-hashes --requirement requirements-bench.lock" in printed
    assert "cd tests/benchmarks/typescript && npm ci " in printed


@pytest.mark.parametrize("target", ["run", "test", "check"])
def test_targets__other_than_bench__install_no_peers_to_measure_against(checkout, target):
    for lock in ("requirements-dev.lock", "requirements-bench.lock"):
        (checkout / lock).touch()
    assert "requirements-bench.lock" not in make(checkout, "--dry-run", target).stdout
