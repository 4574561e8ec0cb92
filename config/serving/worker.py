"""The code of each worker process of `manage.py serve`, which ends with the process that started
it.
"""

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
from config.database import outages
from config.database.notifications import Listener
from config.serving import worker_process
from config.serving.follower import Follower
from config.serving.saver import Saver

_ALLOCATIONS_BETWEEN_COLLECTIONS = 10_000
_THREADS_OF_EVALUATIONS = 4
"""They read and record the exposures of users of flags that an experiment drives."""

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Flag(Protocol):
    """A byte of shared memory: 1 once the server is stopping."""

    value: int


def load(is_stopping: Flag, stream_port: int | None = None) -> Application:
    """Return the WSGI application of a worker. While the server stops, each response closes its
    connection.
    """
    worker_process.stream_port = stream_port
    # A thread of granian's that wakes up while Python shuts down would abort the process.
    atexit.register(os._exit, 0)
    # What is registered later runs earlier.
    atexit.register(worker_process.worker_ends.send_robust, sender=None)
    follower = Follower(Listener(), Saver())
    follower.start()
    follower.wait_for_state()
    threading.Thread(target=end_with_parent, name="parent-watcher", daemon=True).start()
    outages.start_threads(_THREADS_OF_EVALUATIONS)
    worker_process.worker_starts.send(sender=None)
    exempt_loaded_objects_from_collection()

    application = config.serving.wsgi.application

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if is_stopping.value:
            return application(environ, _closing(start_response))
        return application(environ, start_response)

    return serve


def exempt_loaded_objects_from_collection() -> None:
    """Let the garbage collector look only at objects of requests, and less often: it took 5 % of
    the time.
    """
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS)


def _closing(start_response: Callable[..., Any]) -> Callable[..., Any]:
    def start_last_response(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
        return start_response(status, [*headers, ("Connection", "close")], *rest)

    return start_last_response


def end_with_parent() -> None:
    """Wait for the parent to end, and then end: an orphaned worker would occupy the port forever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
