"""What runs in the process of `manage.py serve` that serves event streams, which stay open for hours."""

from __future__ import annotations

import atexit
import os
import resource
import signal
import threading
import time
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, Protocol

from config.serving.worker import end_with_parent  # first: it sets up Django, which an application may need at import

# isort: split
from django.conf import settings
from django.utils.module_loading import import_string

_ENDINGS = (signal.SIGTERM, signal.SIGINT)
_PATIENCE_SECONDS = 3
"""How long a client that does not read may keep the end of its stream waiting."""


class StreamApplication(Protocol):
    """An ASGI application that can be asked to end its answers, which have no end of their own."""

    def end(self) -> None: ...

    def __call__(self, scope: Any, receive: Any, send: Any) -> Awaitable[None]: ...


def load() -> StreamApplication:
    """Make the application, and see to it that the process ends when it is asked to, or when its parent is gone."""
    # As in every worker.
    atexit.register(os._exit, 0)
    _allow_as_many_connections_as_possible()
    application: StreamApplication = import_string(settings.STREAM_APPLICATION)
    # granian stops once every answer is complete. So the signal is not for granian before the streams have heard of it;
    # threads that are started later, granian's too, take this over.
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDINGS)
    threading.Thread(target=_end_when_asked, args=(application,), name="stream-ender", daemon=True).start()
    threading.Thread(target=end_with_parent, name="parent-watcher", daemon=True).start()
    return application


def _end_when_asked(application: StreamApplication) -> None:
    asked = signal.sigwait(_ENDINGS)
    application.end()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDINGS)
    os.kill(os.getpid(), asked)
    time.sleep(_PATIENCE_SECONDS)
    os._exit(0)


def _allow_as_many_connections_as_possible() -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with suppress(ValueError, OSError):  # a system may refuse what it calls its own limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
