"""The code of each worker process of `manage.py serve`, which ends with the process that started
it.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import resource
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.util import Finalize

from granian.server import mp

import config.serving.wsgi  # first: it sets up Django, without which no model can be imported

# isort: split
from django.conf import settings

from config.api import limits
from config.database import outages
from config.database.connections import limit_process
from config.database.notifications import Listener
from config.monitoring import counting
from config.monitoring.memory import SharedMemory
from config.monitoring.starting import watch_errors, watch_requests
from config.serving import worker_process
from config.serving.follower import Follower
from config.serving.gateway.exchange import Flag
from config.serving.gateway.gateway import Gateway
from config.serving.probes import measure_state
from config.serving.saver import Saver

_ALLOCATIONS_BETWEEN_COLLECTIONS = 10_000
_SECONDS_BETWEEN_LOOKS_AT_PARENTS = 1
_THREADS_OF_EVALUATIONS = 4
"""They read and record the exposures of users of flags that an experiment drives."""


def load(
    is_stopping: Flag, stream_port: int | None, take_place: Callable[[], None], shared: SharedMemory, name: str
) -> Gateway:
    """Return what granian calls for each request, and tell the supervisor that there is a worker.

    While the server stops, each response closes its connection.
    """
    worker_process.stream_port = stream_port
    counting.join(shared, name)
    limits.share(memoryview(shared.allowances).cast("B").cast("d"))
    limit_process(settings.DATABASE_TIMEOUT)
    watch_errors()
    if write_access_log := watch_requests():
        counting.measure(write_access_log)
        worker_process.worker_ends.connect(write_access_log, weak=False)
    # A fork does not run what is registered with `atexit`.
    Finalize(None, worker_process.worker_ends.send_robust, kwargs={"sender": None}, exitpriority=0)
    follower = Follower(Listener(), Saver())
    follower.start()
    follower.wait_for_state()
    raise_limit_of_open_files()
    gateway = Gateway(config.serving.wsgi.application, is_stopping)
    gateway.start()
    counting.measure(measure_state)
    counting.start_beating()
    threading.Thread(target=end_with_parent, name="parent-watcher", daemon=True).start()
    outages.start_threads(_THREADS_OF_EVALUATIONS)
    worker_process.worker_starts.send(sender=None)
    exempt_loaded_objects_from_collection()

    # granian would call the gateway as a WSGI application, which must answer before it returns.
    mp._wsgi_call_wrap = lambda callback, *_: callback  # type: ignore[attr-defined]  # private
    take_place()
    return gateway


def exempt_loaded_objects_from_collection() -> None:
    """Let the garbage collector look only at objects of requests, and less often: it took 5 % of
    the time.
    """
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS)


def end_with_parent() -> None:
    """Wait for the supervisor or the fork server to end, and then end.

    Without the supervisor, this process would occupy the port forever. Without the fork server, the supervisor does not
    know that this process is alive, and starts another in its place.
    """
    supervisor, fork_server = multiprocessing.parent_process(), os.getppid()
    if supervisor is not None:
        while supervisor.is_alive() and os.getppid() == fork_server:
            supervisor.join(_SECONDS_BETWEEN_LOOKS_AT_PARENTS)
        os.kill(os.getpid(), signal.SIGTERM)


def raise_limit_of_open_files() -> None:
    hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with suppress(ValueError, OSError):  # a system may refuse the very limit that it reports
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
