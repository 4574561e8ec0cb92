"""The guide's web applications in Python, run in the environment that has the client."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.system.openfeature.snippets import files
from tests.system.server import Server, free_port, wait_until

_SITE = Path(__file__).parent / "django_site.py"
_SECONDS_TO_START = 60


class Shop:
    """A running web application."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._client = httpx.Client(base_url=self.url, timeout=30)

    def answers(self) -> bool:
        try:
            return self._client.get("/").status_code == 404  # no button, which would be an exposure
        except httpx.TransportError:
            return False

    def text(self, user: str) -> str:
        """What the button shows a user."""
        text: str = self._client.get(f"/button/{user}").json()["text"]
        return text

    def close(self) -> None:
        self._client.close()

    def order(self, user: str) -> None:
        assert self._client.post(f"/orders/{user}").json() == {"ordered": True}


@contextmanager
def serving_fastapi(python: Path, folder: Path, server: Server) -> Iterator[Shop]:
    """The application for FastAPI, served by uvicorn. Its end is that of a deployment: SIGTERM."""
    (folder / "main.py").write_text(files("python", server)["main.py"])
    port = free_port()
    with _serving([python, "-m", "uvicorn", "main:app", "--port", str(port)], folder, {}, port) as shop:
        yield shop


@contextmanager
def serving_django(python: Path, folder: Path, server: Server) -> Iterator[Shop]:
    """The application for Django, in a project with nothing else."""
    (folder / "shop").mkdir()
    for name in ("shop/apps.py", "shop/views.py", "shop/urls.py"):
        (folder / name).write_text(files("python", server)[name])
    (folder / "site.py").write_text(_SITE.read_text())
    port = free_port()
    settings = {"HALYARD_URL": server.url, "HALYARD_KEY": server.keys["production"]["server"]}
    with _serving([python, "site.py", "runserver", "--noreload", str(port)], folder, settings, port) as shop:
        yield shop


@contextmanager
def _serving(command: list[str | Path], folder: Path, settings: dict[str, str], port: int) -> Iterator[Shop]:
    environment = {"PATH": os.environ["PATH"], **settings}
    with subprocess.Popen(command, cwd=folder, env=environment) as process:
        shop = Shop(port)
        try:
            wait_until(shop.answers, "the shop answers", _SECONDS_TO_START)
            yield shop
        finally:
            shop.close()
            process.send_signal(signal.SIGTERM)
            process.wait(30)
