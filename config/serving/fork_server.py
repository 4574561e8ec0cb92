"""Starts the processes of a server as forks of one that has loaded the code, so that a new one serves almost at once.

That one is Python's fork server. It has a single thread, no connection and no random numbers of its own, so what its
forks share is code. A process that loads the code by itself takes two seconds of CPU time for that.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import forkserver, resource_tracker, util
from multiprocessing.context import ForkServerProcess
from typing import Any

from granian._granian import SocketHolder
from granian.server.mp import WorkerProcess

from config.serving.listening import BACKLOG

processes = multiprocessing.get_context("forkserver")
_LOADED = ("config.serving.stream_worker", "config.urls")
"""The modules whose code all processes use. The first one sets up Django."""
_ATTEMPTS, _SECONDS_BETWEEN_ATTEMPTS = 100, 0.05


def start() -> None:
    """Begin to load the code in the background. Processes that are started later wait until it is loaded."""
    # Python 3.11.0 listens on a socket that any user of the machine may connect to, unless it cannot.
    util.abstract_sockets_supported = False  # type: ignore[misc]  # final
    # Before Python 3.14.1, the fork server looks for modules in the current folder alone.
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    forkserver.set_forkserver_preload([*_LOADED])
    _ensure_running()


def _ensure_running() -> None:
    """Start the fork server if there is none. It must not see Ctrl-C, which goes to all processes of a terminal.

    While it loads the code, Ctrl-C would end it with a traceback, and the supervisor would start it once more only to
    stop. A process inherits what is blocked. Here, the signal waits until the fork server is started.
    """
    resource_tracker.ensure_running()  # which the fork server would start, and this would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Fork(ForkServerProcess):
    def start(self) -> None:
        """Ask again if the fork server is ending just now: for a moment, it seems to be alive."""
        for _ in range(_ATTEMPTS):
            with suppress(ConnectionError, EOFError):
                _ensure_running()
                super().start()
                return
            time.sleep(_SECONDS_BETWEEN_ATTEMPTS)
        super().start()


def _fork(process: WorkerProcess, target: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    process.inner = _Fork(name="granian-worker", target=_run, args=(target, *arguments))


def _run(
    target: Callable[..., None], worker_id: int, name: str | None, loader: Any, sockets: Any, *arguments: Any
) -> None:
    """Call what granian wants to run in the process, with the socket that has another descriptor here."""
    _, listening = sockets
    holder = SocketHolder(listening.fileno(), False, BACKLOG)  # type: ignore[call-arg]  # untyped
    target(worker_id, name, loader, ((None, holder), listening), *arguments)


# granian would spawn a process, because it hands over descriptors by their numbers.
WorkerProcess._spawn = _fork  # type: ignore[method-assign]
