"""Another process on a server's database, which writes and waits for the test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.system.server import ROOT, Server

_PREAMBLE = """
import sys
from django.db import transaction
from django.utils import timezone
from config.snapshot import signal_file
from config.change_log.writing import Actor
from config.models import Environment, Source
from flags.changes.flag_changes import update_flag

production = Environment.objects.get(key="production")

def switch(key, enabled):
    actor, now = Actor("another process", Source.COMMAND), timezone.now()
    update_flag(key=key, environment=production, changes={"enabled": enabled}, actor=actor, now=now)

def pause():
    print("paused", flush=True)
    assert sys.stdin.readline() == "go on\\n"
"""
"""The functions for scripts: `switch(key, enabled)`, and `pause()` to wait for the test."""


class Script:
    """A script under way."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def wait_for_pause(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "paused\n"

    def go_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("go on\n")
        self._process.stdin.flush()


@contextmanager
def script(server: Server, code: str) -> Iterator[Script]:
    """Run a script in a process of its own; it has to have ended well by the end of the block."""
    command = [sys.executable, "manage.py", "shell", "--verbosity", "0", "--command", _PREAMBLE + code]
    with subprocess.Popen(
        command, cwd=ROOT, env=server.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Script(process)
            assert process.wait(60) == 0
        finally:
            process.kill()


def run_script(server: Server, code: str) -> str:
    """Return the output of a script that does not pause."""
    return server.run("manage.py", "shell", "--verbosity", "0", "--command", _PREAMBLE + code)
