"""Operators can follow the pages for production: their commands run in their order on a new database.

Commands for the system, such as those of systemd, have stand-ins here or are left out. Those of Docker, Helm and
Kubernetes are only read, by `test_commands.py`.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.guide.markdown import code_blocks, read_page
from tests.guide.test_tour import TESTED_BY_AN_OPERATOR
from tests.guide.transcripts import ADDRESS
from tests.system.databases import fresh_database
from tests.system.server import ROOT, Server

ELSEWHERE = {"docker", "createuser", "createdb", "useradd", "install", "chown", "chmod", "make", "cp", "journalctl"}
"""Programs that change the machine, or that are not installed everywhere."""
NEEDS_A_PROXY = "--url"
ASKS = {"createsuperuser": ["--no-input"], "changepassword": None}
"""What commands that ask get here instead; None leaves them out."""
PASSWORD = "four-sails-and-a-halyard"


def command_lines(page: str) -> Iterator[list[str]]:
    """Yield the words of each command of a page, without the user that runs it."""
    for form, code in code_blocks(read_page(page)):
        for line in code.replace("\\\n", " ").splitlines() if form == "sh" else ():
            words = shlex.split(line)
            if words[0] == "sudo":
                del words[: 3 if words[1] == "-u" else 1]
            yield words


class Operator:
    """Somebody who types what the pages say."""

    def __init__(self, server: Server, backups: Path) -> None:
        self.server, self.backups = server, backups
        self.done: list[str] = []

    def type(self, words: list[str]) -> None:
        if words[:2] == [".venv/bin/python", "manage.py"]:
            self._manage(words[2:])
        elif words[0] == "systemctl":
            self._control(words[1])
        elif words[0] in ("curl", "python3"):
            self._run([word.replace(ADDRESS, self.server.url) for word in words])
        else:
            assert words[0] in ELSEWHERE, words

    def _manage(self, words: list[str]) -> None:
        name, *arguments = words
        if (more := ASKS.get(name, [])) is None:
            return
        if NEEDS_A_PROXY in arguments:
            del arguments[arguments.index(NEEDS_A_PROXY) :]
        arguments = [word.replace("/srv/backups", str(self.backups)) for word in arguments]
        self._run([sys.executable, "manage.py", name, *arguments, *more])
        self.done.append(name)

    def _control(self, action: str) -> None:
        if action in ("stop", "restart"):
            assert self.server.stop() == 0
        if action in ("start", "restart", "enable"):
            self.server.start()

    def _run(self, command: list[str]) -> str:
        program = shutil.which(command[0])
        assert program, command
        done = subprocess.run(
            [program, *command[1:]],
            cwd=ROOT,
            env=self.server.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    user = {"DJANGO_SUPERUSER_USERNAME": "ada", "DJANGO_SUPERUSER_PASSWORD": PASSWORD}
    with fresh_database(tmp_path) as url:
        server = Server(tmp_path, url, DJANGO_SUPERUSER_EMAIL="ada@example.com", **user)
        try:
            yield Operator(server, tmp_path)
        finally:
            server.kill()


@pytest.mark.system
@pytest.mark.once
def test_pages__commands_in_their_order__all_succeed(operator: Operator) -> None:
    for page in TESTED_BY_AN_OPERATOR:
        for words in command_lines(page):
            operator.type(words)
    assert operator.done.count("migrate") > 2
    assert {"check", "createsuperuser", "create_key", "doctor", "backup", "restore", "check_results"} <= {
        *operator.done
    }
    state = json.loads(operator._run(["curl", "-s", f"{operator.server.url}/readyz"]))
    assert (state["status"], state["database"]) == ("ready", "up")
