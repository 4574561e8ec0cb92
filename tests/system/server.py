"""A real `manage.py serve` with production settings: how tests start it, ask it, and end it."""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx

from tests.system.commands import Commands

ROOT = Path(__file__).resolve().parents[2]
SECONDS_TO_START = 60
SECONDS_TO_STOP = 60

PUBLIC_HOST = "flags.example.com"
PROXY_HEADERS: Mapping[str, str] = MappingProxyType({"X-Forwarded-Proto": "https"})
"""The header of a proxy that ends TLS. Without it, the server rightly redirects to https."""


Keys = dict[str, dict[str, str]]
"""Secrets by environment and scope."""

keys_of_databases: dict[str, Keys] = {}
"""Those of each database that was prepared, by its URL."""

_PREPARE = "from tests.system.prepare import main; main()"
_reservations: list[socket.socket] = []


class Server:
    """A server with its settings. `start` and `stop` may be called again: the database and the keys
    stay. `code` is the folder of another release.
    """

    def __init__(
        self,
        folder: Path,
        database_url: str,
        *,
        workers: int = 2,
        port: int | None = None,
        code: Path = ROOT,
        **settings: str,
    ):
        self.folder = folder
        self.code = code
        self.workers = workers
        self.port = port or free_port()
        self.stream_port = free_port()
        self.environment = {
            "PATH": os.environ["PATH"],
            "ENV_FILE": os.devnull,
            "DATABASE_URL": database_url,
            "RUNTIME_DIR": str(folder / "runtime"),
            "SECRET_KEY": secrets.token_urlsafe(60),
            "ALLOWED_HOSTS": f"127.0.0.1,{PUBLIC_HOST}",
            "SECURE_PROXY_SSL_HEADER": "X-Forwarded-Proto",
            "STREAM_URL": f"http://127.0.0.1:{self.stream_port}",
            "RATE_LIMIT_KEY": "1000000",  # a single key sends all that a machine can take
            # Several servers run at a time, beside the unit tests, and PostgreSQL accepts 100 connections by default.
            "THREADS": "4",
            **settings,
        }
        self.keys: Keys = {}
        self.process: subprocess.Popen[bytes] | None = None
        self._commands: Commands | None = None
        self.log = folder / "serve.log"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    # --- processes ---------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Migrate the database and make the keys."""
        self.keys = json.loads(self.run("manage.py", "shell", "--verbosity", "0", "--command", _PREPARE))
        keys_of_databases[self.environment["DATABASE_URL"]] = self.keys

    def run(self, *arguments: str) -> str:
        """Return the output of another process with the settings of this server, which has to end well."""
        done = self.try_to_run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def try_to_run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        if arguments[0] == "manage.py" and self.code == ROOT:
            self._commands = self._commands or Commands(self.folder, self.environment, code=self.code)
            return self._commands.run([*arguments[1:]])
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.code,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def start(self) -> None:
        """Start serving, in a process group of its own, and wait until every worker answers."""
        ports = ["--port", str(self.port), "--stream-port", str(self.stream_port)]
        command = [sys.executable, "manage.py", "serve", *ports, "--workers", str(self.workers)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=self.code, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )
        wait_until(self.answers, "the server answers", SECONDS_TO_START)

    def answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"the server ended:\n{self.log.read_text()}"
        try:
            return httpx.get(f"{self.url}/v1/flags", headers=PROXY_HEADERS, timeout=30).status_code == 401
        except httpx.TransportError:
            return False

    def stop(self) -> int:
        """SIGTERM, and the exit status once all has ended."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(SECONDS_TO_STOP)
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL to the main process and to every worker at once."""
        if self.process is None:
            return
        with suppress(ProcessLookupError):  # all have ended already
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(SECONDS_TO_STOP)

    def failures(self) -> str:
        """Return what the log says from the first defect on that it reports."""
        _, found, after = self.log.read_text().partition(" ERROR ")
        return f"{found}{after}"[:5000]

    def worker_pids(self) -> list[int]:
        """The processes that serve the API: the children of the main one, but for the one below."""
        return [pid for pid in self._children() if not _listens(pid, self.stream_port)]

    def replace_worker(self, killed: int) -> None:
        """SIGKILL to a worker, and wait until its successor serves."""
        replaced = self._replacements()
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: self._replacements() > replaced, "the worker is replaced", SECONDS_TO_START)

    def _replacements(self) -> int:
        return self.log.read_text().count("The successor of worker-")

    def stream_pid(self) -> int | None:
        """The process that serves event streams, if there is one at this moment."""
        return next((pid for pid in self._children() if _listens(pid, self.stream_port)), None)

    def fork_server_pids(self) -> list[int]:
        """Python's fork server, which starts the others for the main process, if there is one at this moment."""
        assert self.process is not None
        return [pid for pid in _children_of(self.process.pid) if _is_fork_server(pid)]

    def _children(self) -> list[int]:
        return [child for pid in self.fork_server_pids() for child in _children_of(pid)]

    def pids(self) -> list[int]:
        """The main process and those that serve."""
        assert self.process is not None
        return [self.process.pid, *self.worker_pids()]

    # --- requests ----------------------------------------------------------------------------------------------------

    def headers(self, scope: str = "manage", *, key: str | None = None) -> dict[str, str]:
        """Return the headers of every request: the given key, or one for production with this
        scope.
        """
        return {**PROXY_HEADERS, "Authorization": f"Bearer {key or self.keys['production'][scope]}"}

    def client(self, scope: str = "manage", *, key: str | None = None) -> httpx.Client:
        """A client on connections that it keeps."""
        return httpx.Client(base_url=self.url, headers=self.headers(scope, key=key), timeout=60, verify=_no_tls)

    def ask(self, method: str, path: str, *, key: str | None = None, **options: Any) -> httpx.Response:
        """One request, on a connection of its own."""
        with self.client(key=key) as client:
            return client.request(method, path, **options)

    def ask_after_outage(self, method: str, path: str, **options: Any) -> httpx.Response:
        """The first answer of a worker that writes again. Each finds that out by itself, and answers 503 until then."""
        deadline = time.monotonic() + 30
        while (answer := self.ask(method, path, **options)).status_code == 503 and time.monotonic() < deadline:
            time.sleep(0.2)
        return answer


_no_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # shared, because httpx would load certificates for every client


def _children_of(pid: int) -> list[int]:
    with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _is_fork_server(pid: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return "multiprocessing.forkserver" in Path(f"/proc/{pid}/cmdline").read_text()
    return False


def _listens(pid: int, port: int) -> bool:
    """Whether a process holds the socket that listens on this port."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    sockets = {f"socket:[{row[9]}]" for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "0A"}
    links = Path(f"/proc/{pid}/fd").iterdir()
    with suppress(FileNotFoundError, PermissionError):  # it has ended meanwhile
        return any(os.readlink(link) in sockets for link in links)
    return False


def free_port() -> int:
    """A port that no other test gets, and that nothing takes while its owner is away: systems give ports over 32767
    to outgoing connections.
    """
    # Each test begins with the same random numbers, with which tests side by side would ask for the same ports.
    for port in random.SystemRandom().sample(range(20000, 30000), 100):
        reservation = socket.socket(type=socket.SOCK_DGRAM)
        with socket.socket() as probe, suppress(OSError):
            # Servers listen by TCP. Tests of other processes see by UDP that the number is given, until this one ends.
            reservation.bind(("127.0.0.1", port))
            probe.bind(("127.0.0.1", port))
            _reservations.append(reservation)
            return port
        reservation.close()
    raise AssertionError("of a hundred ports, none is free")


def wait_until(condition: Callable[[], bool], what: str, seconds: float) -> None:
    """Ask again and again, more rarely the longer it takes, and fail after so many seconds."""
    begun = time.monotonic()
    while not condition():
        waited = time.monotonic() - begun
        assert waited < seconds, f"waited {seconds} seconds in vain until {what}"
        time.sleep(min(max(0.05, waited / 10), 0.5))


@contextmanager
def serving(folder: Path, database_url: str, *, keys: Keys | None = None, **options: Any) -> Iterator[Server]:
    """A server on a database, running until the end of the block. Without `keys`, a database that was not prepared yet
    is prepared.
    """
    server = Server(folder, database_url, **options)
    if keys := keys or keys_of_databases.get(database_url):
        server.keys = keys_of_databases[database_url] = keys
    else:
        server.prepare()
    try:
        server.start()
        yield server
    finally:
        server.kill()
