"""The code of the process that serves event streams, which stay open for hours."""

from __future__ import annotations

import os
import signal
import threading
import time
from multiprocessing.util import Finalize

from granian import _signals
from granian._granian import WorkerSignal

# First: it sets up Django, which an application may need at import.
from config.serving.worker import end_with_parent, raise_limit_of_open_files

# isort: split
from django.conf import settings
from django.utils.module_loading import import_string

from config.database.connections import limit_process
from config.monitoring import counting, metrics
from config.monitoring.access_log import AccessLog, LoggedStreams, StreamApplication
from config.monitoring.memory import SharedMemory
from config.monitoring.starting import make_access_log, watch_errors
from config.serving.probes import measure_state

_ENDINGS = (signal.SIGTERM, signal.SIGINT)
_PATIENCE_SECONDS = 3
"""How long a client that does not read may delay the end of the process."""


def load(shared: SharedMemory, name: str) -> StreamApplication:
    """Return the application, and make the process end on a signal or when its parent is gone."""
    counting.join(shared, name)
    metrics.streams.set(0)  # of the process before, there may have been many
    raise_limit_of_open_files()
    limit_process(settings.DATABASE_TIMEOUT)
    watch_errors()
    counting.measure(measure_state)
    application: StreamApplication = import_string(settings.STREAM_APPLICATION)
    access_log = make_access_log()
    if access_log is not None:
        application = LoggedStreams(application, access_log)
        counting.measure(access_log.write)
        Finalize(None, access_log.write, exitpriority=0)  # a fork does not run what is registered with `atexit`
    # granian stops only once every response is complete, so the streams must end before it begins to stop.
    # Threads that start later, granian's included, inherit the blocked signals.
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDINGS)
    stop = _take_stop()
    counting.start_beating()
    ender = threading.Thread(
        target=_end_on_signal, args=(application, stop, access_log), name="stream-ender", daemon=True
    )
    ender.start()
    threading.Thread(target=end_with_parent, name="parent-watcher", daemon=True).start()
    return application


def _take_stop() -> WorkerSignal:
    """Return what makes granian stop, in place of its own handlers of signals.

    It holds one call of `set` until granian looks for it. Another one waits without letting other threads run, so the
    handlers stopped the process for ever when Ctrl-C and the supervisor's SIGTERM came before that.
    """
    stop = WorkerSignal()
    _signals.set_loop_signals = lambda _loop: stop
    return stop


def _end_on_signal(application: StreamApplication, stop: WorkerSignal, access_log: AccessLog | None) -> None:
    signal.sigwait(_ENDINGS)
    application.end()
    stop.set()
    time.sleep(_PATIENCE_SECONDS)
    if access_log is not None:
        access_log.write()
    os._exit(0)
