"""OpenFeature's client for Node.js, in a process that answers one question after the other."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.system.server import Server

FOLDER = Path(__file__).parent
PACKAGES = FOLDER / "node_modules"


def node() -> str:
    """The command, where it and the packages are installed."""
    found = shutil.which("node")
    assert found, "Node.js is missing: `make test-system` says what it needs"
    assert (PACKAGES / "@openfeature").is_dir(), "OpenFeature's clients are missing: `make test-system` installs them"
    return found


class NodeClient:
    """A client under way."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, flag: str, default: Any, context: Mapping[str, Any]) -> dict[str, Any]:
        """The details that the method for the type of the default returns."""
        self.write({"flag": flag, "default": default, "context": context})
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the client ended; its errors stand above"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def write(self, document: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(document) + "\n")
        self._process.stdin.flush()


@contextmanager
def node_client(server: Server, headers: Mapping[str, str]) -> Iterator[NodeClient]:
    with subprocess.Popen(
        [node(), "server.mjs"], cwd=FOLDER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            client = NodeClient(process)
            client.write({"address": server.url, "headers": headers})
            yield client
        finally:
            process.kill()
