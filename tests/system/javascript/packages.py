"""Halyard's packages for JavaScript, unpacked beside OpenFeature's, and the applications that use them."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flags.clients import npm
from tests.system.openfeature import node
from tests.system.server import Server

FOLDER = Path(__file__).parent


def install(folder: Path) -> Path:
    """Unpack the tarballs as npm does, and return the folder of an application that can import them."""
    node.node()  # sees to it that OpenFeature's packages are there
    packages = folder / "node_modules"
    for name, content in zip(npm.PACKAGES, (content for _, content in npm.tarballs()), strict=True):
        target = packages / "@halyard" / name
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            archive.extractall(folder / "unpacked" / name, filter="data")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(folder / "unpacked" / name / "package", target)
    for name in ("@openfeature", "@esbuild", "esbuild", ".bin"):
        (packages / name).symlink_to(node.PACKAGES / name)
    for file in (*FOLDER.glob("*.mjs"), FOLDER / "page.html", node.FOLDER / "methods.mjs"):
        shutil.copy(file, folder)
    module, content = npm.browser_module()
    (folder / module).write_bytes(content)
    return folder


class Application:
    """A process with the provider for Node.js."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process, self._log = process, log

    def call(self, name: str, **given: Any) -> Any:
        """Return what a call of `server.mjs` returned."""
        self.write({"call": name, **given})
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the application ended:\n{self.warnings()}"
        return json.loads(line)

    def ask(self, flag: str, default: Any, context: Any) -> dict[str, Any]:
        details: dict[str, Any] = self.call("ask", flag=flag, default=default, context=context)
        return details

    def write(self, document: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(document) + "\n")
        self._process.stdin.flush()

    def warnings(self) -> str:
        return self._log.read_text()

    def end(self) -> int:
        """Send no more calls, and return the exit status of the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait(30)


@contextmanager
def application(folder: Path, server: Server, *, scope: str = "server", **options: Any) -> Iterator[Application]:
    """An application whose provider has these options, besides the address and a key of the server."""
    log = folder / "warnings.log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [node.node(), "server.mjs"],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        try:
            running = Application(process, log)
            running.write({"url": server.url, "key": server.keys["production"][scope], **options})
            yield running
        finally:
            process.kill()
