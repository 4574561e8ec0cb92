"""The Dockerfile starts a command that exists, as a user without rights, with exactly what the lock file names."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from dockerfile_parse import DockerfileParser

from tests.operations import OF_PYTHON, parse_command, setting_names
from tests.system.server import ROOT

FILE = ROOT / "config/deploy/Dockerfile"
TEXT = FILE.read_text()
LAST = TEXT.rpartition("\nFROM ")[2]
pytestmark = pytest.mark.once


def values(instruction: str) -> list[str]:
    """Return the values of all instructions of this name."""
    steps = DockerfileParser(path=str(FILE)).structure
    return [step["value"] for step in steps if step["instruction"] == instruction]


def command() -> list[str]:
    """Return what a container runs: the entry point and the command."""
    [entry_point], [arguments] = values("ENTRYPOINT"), values("CMD")
    return [*json.loads(entry_point), *json.loads(arguments)]


def test_command__of_a_container__exists_with_its_options() -> None:
    words = command()
    assert words[:4] == ["tini", "--", "python", "manage.py"]
    parse_command(words[4:])


def test_ports__exposed_and_probed__are_those_of_the_command() -> None:
    words = command()
    ports = [words[words.index(option) + 1] for option in ("--port", "--stream-port")]
    assert values("EXPOSE") == [" ".join(ports)]
    [probe] = values("HEALTHCHECK")
    script = json.loads(probe.partition(" CMD ")[2])[2]
    compile(script, "HEALTHCHECK", "exec")
    assert f"'127.0.0.1', {ports[0]}," in script
    assert "'/livez'" in script


def test_environment__every_variable__is_a_setting() -> None:
    names = {name for value in values("ENV") for name in re.findall(r"(\w+)=", value)}
    assert "RUNTIME_DIR" in names
    assert names - OF_PYTHON <= setting_names()


def test_user__of_the_last_stage__has_no_rights_and_owns_the_volume() -> None:
    assert re.findall(r"^USER (\S+)$", LAST, re.MULTILINE) == ["10001:10001"]
    [volume] = values("VOLUME")
    assert f"--owner=halyard --group=halyard --mode=0700 {volume}" in LAST
    assert f"RUNTIME_DIR={volume}/" in LAST


def test_packages__of_the_service__are_installed_by_their_hashes_from_no_named_index() -> None:
    [install] = [value for value in values("RUN") if "pip install" in value]
    assert "--require-hashes --requirement requirements.lock" in install
    assert "--only-binary :all:" in install
    assert "://" not in TEXT
    assert "index-url" not in TEXT


def test_base__version_of_python__is_the_oldest_that_is_supported_in_each_stage() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    stages = re.findall(r"^FROM python:(\S+)-slim-", TEXT, re.MULTILINE)
    assert [f">={version}" for version in stages] == [project["requires-python"]] * 2


def kept() -> list[str]:
    lines = (FILE.parent / "Dockerfile.dockerignore").read_text().splitlines()
    return [line.removeprefix("!") for line in lines if line.startswith("!")]


def test_context__all_of_it__is_left_out_but_for_what_exists_and_is_needed() -> None:
    lines = [line for line in (FILE.parent / "Dockerfile.dockerignore").read_text().splitlines() if line[0] != "#"]
    assert lines[0] == "*"
    assert all((ROOT / path).exists() for path in kept())
    apps = {manifest.parent.name for manifest in ROOT.glob("*/apps.py")}
    assert {*kept()} == {*apps, "LICENSE", "manage.py", "pyproject.toml", "requirements.lock", "templates"}


def test_steps__of_the_build__run_modules_that_exist() -> None:
    steps = " ".join(values("RUN"))
    assert "python -m flags.clients" in steps
    [compiled] = re.findall(r"python -m compileall -q ([\w ]+)", steps)
    assert set(compiled.split()) == {manifest.parent.name for manifest in ROOT.glob("*/apps.py")}


@pytest.mark.system
def test_context__alone_and_read_only__has_all_that_commands_need(tmp_path: Path) -> None:
    context = tmp_path / "context"
    context.mkdir()
    for path in kept():
        copy = shutil.copytree if (ROOT / path).is_dir() else shutil.copy
        copy(ROOT / path, context / path)
    settings = {
        "SECRET_KEY": "only-for-this-test-0123456789-abcdefghijklmnopqrstuvwxyz",
        "ALLOWED_HOSTS": "flags.example.com",
        "SECURE_PROXY_SSL_HEADER": "X-Forwarded-Proto",
        "RUNTIME_DIR": str(tmp_path / "runtime"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    run_python(context, settings, "-m", "flags.clients")  # as the Dockerfile does
    folders = [context, *filter(Path.is_dir, context.rglob("*"))]
    for folder in folders:
        folder.chmod(0o555)
    try:
        run_python(context, settings, "manage.py", "check", "--deploy", "--fail-level", "WARNING")
        run_python(context, settings, "manage.py", "migrate", "--plan")
    finally:
        for folder in folders:
            folder.chmod(0o755)


def run_python(folder: Path, settings: dict[str, str], *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=settings, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_hadolint__dockerfile__finds_nothing() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("hadolint"), str(FILE)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
