"""Commands of `manage.py`, each in a fork of a process that has loaded the code of the service.

A process that loads the code by itself takes two seconds of processor time for that. Like one that has just loaded
it, the first process has one thread and no connection.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import weakref
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import IO


class Commands:
    """Runs one command after the other, with the same settings. Its process ends with this object."""

    def __init__(self, folder: Path, environment: Mapping[str, str], *, code: Path) -> None:
        self._outputs = [folder / f"commands.{name}" for name in ("stdout", "stderr")]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.system.commands", *map(str, self._outputs)],
            cwd=code,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        weakref.finalize(self, _end, self._process)

    def run(self, arguments: list[str]) -> subprocess.CompletedProcess[str]:
        """Run a command without a standard input."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(arguments) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the process that runs commands has ended; its errors stand above"
        stdout, stderr = (file.read_text() for file in self._outputs)
        return subprocess.CompletedProcess(arguments, int(answer), stdout, stderr)


def _end(process: subprocess.Popen[str]) -> None:
    with process:
        process.kill()


def main() -> None:
    import django  # noqa: PLC0415 (only the process that runs commands needs it)

    os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
    django.setup()
    import_module("config.urls")  # which the checks of a command would load
    gc.freeze()
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            sys.exit(_run(json.loads(line)))
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201 (the answer)


def _run(arguments: list[str]) -> str | int | None:
    """Run a command as `manage.py` does, with the files as its output."""
    from config.management.program import run  # noqa: PLC0415 (Django has to be set up first)

    _redirect(os.open(os.devnull, os.O_RDONLY), sys.stdin)
    for name, stream in zip(sys.argv[1:], (sys.stdout, sys.stderr), strict=True):
        _redirect(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), stream)
    sys.argv = ["manage.py", *arguments]
    return run(sys.argv)


def _redirect(descriptor: int, stream: IO[str]) -> None:
    os.dup2(descriptor, stream.fileno())
    os.close(descriptor)


if __name__ == "__main__":
    main()
