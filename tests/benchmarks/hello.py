"""Minimal WSGI applications, which measure the cost of granian alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.system.server import ROOT, free_port, wait_until

BODY = b'{"data":{"enabled":true,"reason":"rule_match"}}'
HEADERS = [("Content-Type", "application/json"), ("Content-Length", str(len(BODY)))]


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    start_response("200 OK", HEADERS)
    return [BODY]


def reading(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    """Read the body as well: every operation with a body has at least this cost."""
    environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH", 0)))
    return application(environ, start_response)


@contextmanager
def serving_hello(*, workers: int, threads: int, name: str = "application") -> Iterator[tuple[str, list[int]]]:
    """Its address and its processes, while it runs under granian with as many workers and threads
    as the service.
    """
    environment = {"PATH": os.environ["PATH"]}
    target = f"tests.benchmarks.hello:{name}"
    with serving_wsgi(target, environment, workers=workers, threads=threads) as served:
        yield served


@contextmanager
def serving_wsgi(
    target: str, environment: Mapping[str, str], *options: str, workers: int, threads: int
) -> Iterator[tuple[str, list[int]]]:
    """The same for any application, with further options of granian."""
    port = free_port()
    fixed = ["--interface", "wsgi", "--http", "1", "--no-ws", "--log-level", "warning", "--backlog", "1024"]
    sizes = ["--workers", str(workers), "--blocking-threads", str(threads), "--port", str(port)]
    process = subprocess.Popen(
        [sys.executable, "-m", "granian", *fixed, *sizes, *options, target],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    url = f"http://127.0.0.1:{port}/"
    try:
        wait_until(lambda: _answers(url), f"{target} answers", 30)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        yield url, [process.pid, *map(int, children.split())]
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _answers(url: str) -> bool:
    try:
        httpx.get(url)
    except httpx.TransportError:
        return False
    return True
