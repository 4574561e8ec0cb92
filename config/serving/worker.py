"""What runs in each worker process of `manage.py serve`: the application, until the process that started it ends."""

from __future__ import annotations

import atexit
import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import config.serving.wsgi  # first: it sets up Django, without which no model can be imported
from config.serving import signals
from config.serving.signals import worker_ends, worker_starts
from config.serving.watcher import watch_other_hosts

_ALLOCATIONS_BETWEEN_COLLECTIONS = 10_000

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Flag(Protocol):
    """A byte of shared memory: 1 once the server is stopping."""

    value: int


def load(is_stopping: Flag, stream_port: int | None = None) -> Application:
    """Make the WSGI application of a worker. While the server stops, each answer is the last one on its connection."""
    signals.port = stream_port
    # A thread of granian's that woke up while Python winds itself up would abort the process.
    atexit.register(os._exit, 0)
    atexit.register(worker_ends.send_robust, sender=None)  # what is registered later runs earlier
    # In every worker, not once for all: where the runtime folder is removed under a server, its processes find each
    # other again in the file that is made anew, each by itself.
    watch_other_hosts()
    threading.Thread(target=end_with_parent, name="parent-watcher", daemon=True).start()
    worker_starts.send(sender=None)
    spare_what_is_loaded()

    application = config.serving.wsgi.application

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if is_stopping.value:
            return application(environ, _closing(start_response))
        return application(environ, start_response)

    return serve


def spare_what_is_loaded() -> None:
    """Let the garbage collector look at what requests leave behind only, and less often: it took 5 % of the time."""
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS)


def _closing(start_response: Callable[..., Any]) -> Callable[..., Any]:
    def start_last_response(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
        return start_response(status, [*headers, ("Connection", "close")], *rest)

    return start_last_response


def end_with_parent() -> None:
    """A worker whose parent was killed would hold the port for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
