"""The parent process of `manage.py serve`: owns the sockets, replaces dead workers, and loses no
request when it stops.

It extends private classes of granian, which the page `decisions/granian.md` of the guide lists.
"""

from __future__ import annotations

import logging
import resource
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from operator import setitem
from typing import Any

from django.conf import settings
from granian._granian import SocketHolder
from granian._signals import set_main_signals
from granian.constants import HTTPModes, Interfaces, RuntimeModes
from granian.log import LogLevels, logger
from granian.server.mp import MPServer, WorkerProcess

from config.monitoring import counting, metrics
from config.monitoring.memory import SharedMemory
from config.serving import fork_server, stream_worker, worker
from config.serving.fork_server import processes
from config.serving.gateway.gateway import MAX_THREADS
from config.serving.listening import BACKLOG, count_waiting, direct_new_connections, refuse_new_connections

_PATIENCE_SECONDS = 30
"""How long requests in progress may take after the server was asked to stop."""
_LULL_SECONDS = 1.0
"""During this pause of a stop, the next response on an idle connection can announce that it closes,
and a client that was just accepted can send its request.
"""
_MAX_DEATHS, _DEATH_SECONDS = 10, 60
"""If more workers die in this time, the server gives up, so that an operator or a process manager
notices.
"""

_SECONDS_BETWEEN_LOOKS = 0.05
"""How often the server looks whether the successor of a worker serves."""
_MAX_WAIT = 1.0
"""Python handles signals in the main thread, and does not wake it up for one that another thread has received."""

_MAX_CONNECTIONS, _OTHER_FILES = 100_000, 1_000
"""The connections that a worker may hold at the same time, idle ones included, and the other files that it may open."""
_MAX_STREAMS = 100_000
"""Open at the same time. The system's limit of open files comes first; clients beyond it wait in
the queue.
"""

_STREAMS = "streams"
"""What metrics call the process of the event streams."""


def _name_of(worker: int) -> str:
    """Return what metrics and the log call a worker."""
    return f"worker-{worker + 1}"


def _is_not_about_threads(record: logging.LogRecord) -> bool:
    """Drop granian's warning about more threads than cores: these threads mostly wait for commits."""
    return "Python threads, which seems quite high" not in record.getMessage()


class Supervisor(MPServer):
    """granian with sockets that outlive a worker, whose successor serves the clients that still
    wait in the queue.
    """

    def __init__(self, sockets: Sequence[socket.socket], stream_socket: socket.socket) -> None:
        host, port = sockets[0].getsockname()[:2]
        super().__init__(
            "config.serving.wsgi:application",
            address=host,
            port=port,
            interface=Interfaces.WSGI,
            http=HTTPModes.http1,
            workers=len(sockets),
            blocking_threads=MAX_THREADS,
            backpressure=_most_connections(),
            backlog=BACKLOG,
            workers_kill_timeout=_PATIENCE_SECONDS,
            log_level=LogLevels.warning,
            log_dictconfig=settings.LOGGING,
        )
        self.sockets = sockets
        self._streams = _StreamServer(stream_socket)
        self._places = _Places(sockets)
        self.is_stopping = processes.RawValue("b", 0)
        self._shared = SharedMemory([*map(_name_of, range(len(sockets))), _STREAMS, "supervisor"])
        self.has_given_up = False

    def run(self) -> None:
        """Serve until SIGTERM, SIGINT or SIGHUP."""
        # Until granian does this, Ctrl-C raises an error wherever the code is. In a callback of the garbage collector,
        # or of an import, Python would ignore that error.
        set_main_signals(self.signal_handler_interrupt, self.signal_handler_reload)  # type: ignore[no-untyped-call]
        fork_server.start()
        counting.join(self._shared, "supervisor")
        logger.addFilter(_is_not_about_threads)
        loader = partial(worker.load, self.is_stopping, self._streams.bind_port)
        self.serve(target_loader=loader, wrap_loader=False)

    def _init_shared_socket(self) -> None:
        pass  # the sockets are open already

    def _spawn_workers(self, spawn_target: Any, target_loader: Any) -> None:
        super()._spawn_workers(spawn_target, target_loader)  # type: ignore[no-untyped-call]
        # The last one serves streams. It is watched and replaced like any worker.
        streaming = self._spawn_worker(len(self.sockets), spawn_target, target_loader)
        streaming.start()  # type: ignore[no-untyped-call]
        self.wrks.append(streaming)

    def _spawn_worker(  # type: ignore[override]  # the same as MPServer's
        self, idx: int, target: Any, callback_loader: Any
    ) -> WorkerProcess:
        if idx == len(self.sockets):
            return self._streams.spawn(self, idx, self._shared)
        self._sso = self.sockets[idx]  # makes the child inherit the descriptor
        self._shd = SocketHolder(self._sso.fileno(), False, BACKLOG)  # type: ignore[assignment, call-arg]  # untyped
        loader = partial(callback_loader, self._places.taker(idx), self._shared, _name_of(idx))
        return super()._spawn_worker(idx, target, loader)

    def _serve_loop(self, spawn_target: Any, target_loader: Any) -> None:
        worker_deaths, stream_deaths = _Deaths(), _Deaths()
        streams, streams_due = len(self.sockets), float("inf")
        while True:
            self.main_loop_interrupt.wait(
                min(self._places.seconds_between_looks(), max(streams_due - time.monotonic(), 0))
            )
            self.main_loop_interrupt.clear()
            if self.interrupt_signal or self.reload_signal:
                return
            while self.interrupt_children:
                index = self.interrupt_children.pop(0)
                metrics.process_deaths.add(1, _STREAMS if index == streams else "worker")
                if index == streams:
                    streams_due = self._when_to_replace_streams(stream_deaths)
                elif worker_deaths.are_too_many():
                    logger.error(f"More than {_MAX_DEATHS} workers died within {_DEATH_SECONDS} seconds; giving up.")
                    self.has_given_up = True
                    return
                else:
                    self._places.vacate(index)
                    self._respawn_workers([index], spawn_target, target_loader)
            self._places.look()
            if streams_due <= time.monotonic():
                streams_due = float("inf")
                self._respawn_workers([streams], spawn_target, target_loader)

    def _when_to_replace_streams(self, deaths: _Deaths) -> float:
        """Return the time: at once, or later if streams keep dying. Clients can poll instead, so
        workers go on.
        """
        if not deaths.are_too_many():
            return time.monotonic()
        logger.error(
            f"The event streams ended more than {_MAX_DEATHS} times within {_DEATH_SECONDS} seconds; "
            f"they start again in {_DEATH_SECONDS} seconds."
        )
        return time.monotonic() + _DEATH_SECONDS

    def shutdown(self, exit_code: int = 0) -> None:
        """Stop without losing a request: accept queued connections, finish requests in progress,
        then close.
        """
        for process in self.wrks:
            process.interrupt_by_parent = True  # from now on, none of them ends unexpectedly
        self.wrks[-1].terminate()  # type: ignore[no-untyped-call]  # streams never end by themselves
        self.is_stopping.value = 1
        refuse_new_connections(self.sockets)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while count_waiting(self.sockets) and time.monotonic() < deadline and self._has_workers():
            time.sleep(0.01)
        time.sleep(_LULL_SECONDS)
        super().shutdown(exit_code or int(self.has_given_up))  # type: ignore[no-untyped-call]

    def _has_workers(self) -> bool:
        return any(process.inner.is_alive() for process in self.wrks[:-1])

    def _drop_shared_socket(self) -> None:
        for listening in (*self.sockets, self._streams.socket):
            listening.close()


def _most_connections() -> int:
    """Return how many connections a worker may hold. More would wait in the queue of its socket."""
    hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard_limit == resource.RLIM_INFINITY:
        return _MAX_CONNECTIONS
    return min(_MAX_CONNECTIONS, max(hard_limit - _OTHER_FILES, hard_limit // 2))


class _Places:
    """Which workers serve. No new client waits for a worker that died, unless all of them did."""

    def __init__(self, sockets: Sequence[socket.socket]) -> None:
        self._sockets = sockets
        self._are_taken = processes.RawArray("b", [1] * len(sockets))
        self._vacant: set[int] = set()

    def taker(self, index: int) -> Callable[[], None]:
        """Return what a worker calls when it begins to serve."""
        return partial(setitem, self._are_taken, index, 1)

    def vacate(self, index: int) -> None:
        """Have the other workers serve new clients until this one has a successor that serves."""
        self._are_taken[index] = 0
        self._vacant.add(index)
        self._direct()

    def seconds_between_looks(self) -> float:
        return _SECONDS_BETWEEN_LOOKS if self._vacant else _MAX_WAIT

    def look(self) -> None:
        """Have successors that serve by now get new clients again."""
        if taken := {index for index in self._vacant if self._are_taken[index]}:
            self._vacant -= taken
            self._direct()
            for index in taken:
                logger.warning(f"The successor of {_name_of(index)} serves.")

    def _direct(self) -> None:
        everywhere = range(len(self._sockets))
        direct_new_connections(
            self._sockets, [index for index in everywhere if index not in self._vacant] or everywhere
        )


class _Deaths:
    """The recent deaths of processes of one kind."""

    def __init__(self) -> None:
        self._moments: deque[float] = deque(maxlen=_MAX_DEATHS)

    def are_too_many(self) -> bool:
        """Record a death, and return whether there were more than _MAX_DEATHS in _DEATH_SECONDS."""
        now = time.monotonic()
        are_too_many = len(self._moments) == _MAX_DEATHS and now - self._moments[0] < _DEATH_SECONDS
        self._moments.append(now)
        return are_too_many


class _StreamServer(MPServer):
    """The settings from which granian starts the process of the event streams. It serves nothing by
    itself.
    """

    def __init__(self, listening: socket.socket) -> None:
        host, port = listening.getsockname()[:2]
        super().__init__(
            settings.STREAM_APPLICATION,
            address=host,
            port=port,
            interface=Interfaces.ASGI,
            http=HTTPModes.http1,
            websockets=False,
            runtime_mode=RuntimeModes.mt,
            backlog=BACKLOG,
            backpressure=_MAX_STREAMS,
            log_level=LogLevels.warning,
            log_dictconfig=settings.LOGGING,
        )
        self.socket = self._sso = listening
        self._shd = SocketHolder(listening.fileno(), False, BACKLOG)  # type: ignore[assignment, call-arg]  # untyped

    def spawn(self, parent: Supervisor, idx: int, shared: SharedMemory) -> WorkerProcess:
        """Return the process. `parent` watches it as its worker of this number."""
        process = super()._spawn_worker(
            idx, MPServer._spawn_asgi_lifespan_worker, partial(stream_worker.load, shared, _STREAMS)
        )
        process.parent = parent
        return process
