"""A gateway as tests use it: its pools are their own, and its answers are kept."""

from __future__ import annotations

import json
from typing import Any

from config.database import connections
from config.database.connections import forbid_waiting
from config.serving.gateway.bodies import Readers
from config.serving.gateway.gateway import Gateway
from config.serving.gateway.pools import Task
from config.serving.wsgi import application
from tests.config.serving.gateway.granian import Protocol, Slow, scope_of
from tests.threads import SECONDS, Threads


class Flag:
    value = 0


class Pool:
    """Threads without a limit, or the tasks that wait for one."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self.tasks: list[Task] = []
        self.is_open = True
        self.is_full = False

    def submit(self, task: Task) -> bool:
        if self.is_full:
            return False
        self.tasks.append(task)
        if self.is_open:
            self._threads.start(task.run)
        return True


class Server:
    """A gateway whose pools are the test's own."""

    def __init__(self, threads: Threads, key: str, is_stopping: Flag) -> None:
        self.key = key
        self.gateway = Gateway(application, is_stopping)
        self.evaluations, self.others, self.together = Pool(threads), Pool(threads), Pool(threads)
        self.gateway._evaluations, self.gateway._others = self.evaluations, self.others  # type: ignore[assignment]
        self.gateway._together = self.together  # type: ignore[assignment]
        self._threads = threads

    def take(self, method: str, path: str, body: bytes = b"", raw: Any = None, **headers: str | None) -> Protocol:
        """Take a request as a thread of granian's does, and return once that thread is free again."""
        protocol = Protocol()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        scope = scope_of(method, path, body, {"Authorization": f"Bearer {self.key}", **named})
        if raw is not None:
            scope["wsgi.input"] = raw
        self._threads.start(self._take, protocol, scope).result(SECONDS)
        return protocol

    def ask(self, method: str, path: str, body: bytes = b"", raw: Any = None, **headers: str | None) -> Protocol:
        """Return the answer, which any thread may have given."""
        protocol = self.take(method, path, body, raw, **headers)
        protocol.wait()
        return protocol

    def cut(self, path: str, body: bytes, readers: Readers, **headers: str) -> Protocol:
        """Return the answer to a POST whose body arrives only after it was given up."""
        raw, protocol = Slow(), Protocol()
        scope = {**scope_of("POST", path, body, headers), "wsgi.input": raw}
        taking = self._threads.start(self._take, protocol, scope)
        assert raw.is_read.wait(SECONDS)
        [late] = readers.cut_late(float("inf"))
        assert self.gateway._cut(late.exchange) > len(protocol.body) > 0
        raw.finish(body)
        taking.result(SECONDS)
        return protocol

    def _take(self, protocol: Protocol, scope: dict[str, Any]) -> None:
        forbid_waiting()
        try:
            self.gateway._take(protocol, scope)
        finally:
            connections._thread.may_wait = True


def error_of(answer: Protocol) -> Any:
    return json.loads(answer.body)["error"]["code"]
