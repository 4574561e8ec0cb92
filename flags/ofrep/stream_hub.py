"""The open streams of each environment, and when each gets a message. All code runs in one event loop."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from config.monitoring import metrics
from flags.ofrep.stream_follower import Status
from flags.ofrep.stream_messages import HEARTBEAT, EnvironmentStatus
from flags.ofrep.tokens import Ticket

SECONDS_BETWEEN_MESSAGES = 1.0
"""The minimum for an environment. A burst of changes sends a message at its beginning and one at its end."""
SECONDS_BETWEEN_HEARTBEATS = 15.0


class Listener:
    """One open stream. Of unsent messages it keeps the newest, which replaces the others."""

    def __init__(self, ticket: Ticket, last_revision: int | None) -> None:
        self.ticket = ticket
        self._revision, self._at = last_revision, ticket.since
        self._message: bytes | None = None
        self._is_over = False
        self._woken: asyncio.Future[None] | None = None

    def send(self, status: EnvironmentStatus, message: bytes) -> None:
        """Send the message of a status that the client does not know.

        The client may know it from its answer, or from joining while the message was delayed.
        """
        scheduled_at = status.scheduled_at or self._at
        if status.revision != self._revision or scheduled_at > self._at:
            self._revision, self._at = status.revision, max(scheduled_at, self._at)
            self._message = message
            self._wake()

    def end(self) -> None:
        self._is_over = True
        self._wake()

    async def next(self) -> bytes | None:
        """Wait for the next message and return it. Return None when the stream ends."""
        if self._message is None and not self._is_over:
            await self._sleep()
        if self._is_over:
            return None
        message, self._message = self._message or HEARTBEAT, None
        return message

    async def _sleep(self) -> None:
        loop = asyncio.get_running_loop()
        self._woken = loop.create_future()
        timer = loop.call_later(SECONDS_BETWEEN_HEARTBEATS, self._wake)
        try:
            await self._woken
        finally:
            timer.cancel()
            self._woken = None

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)


class Channel:
    """The listeners of an environment, and its last published status."""

    def __init__(self) -> None:
        self.listeners: set[Listener] = set()
        self.status: EnvironmentStatus | None = None
        self._sent_at = float("-inf")
        self._timer: asyncio.TimerHandle | None = None

    def publish(self, status: EnvironmentStatus) -> None:
        """Send a status to all listeners, at once or when the last message is old enough."""
        is_first, self.status = self.status is None, status
        if is_first or self._timer is not None:
            return
        loop = asyncio.get_running_loop()
        due = self._sent_at + SECONDS_BETWEEN_MESSAGES
        if due <= loop.time():
            self._send()
        else:
            self._timer = loop.call_at(due, self._send)

    def _send(self) -> None:
        assert self.status is not None  # noqa: S101 (called only after the first status)
        self._timer, self._sent_at = None, asyncio.get_running_loop().time()
        message = self.status.message
        for listener in self.listeners:
            listener.send(self.status, message)


class Hub:
    """All listeners. Nobody is admitted before the first status is published."""

    def __init__(self) -> None:
        self.status: Status | None = None
        self.is_closed = False
        self._is_ready = asyncio.Event()
        self._open = 0
        self._channels: defaultdict[str, Channel] = defaultdict(Channel)

    def publish(self, status: Status) -> None:
        """Send a message to the listeners of changed environments, and end streams whose key is no longer live."""
        before, self.status = self.status, status
        for key, environment in status.environments.items():
            if before is None or before.environments.get(key) != environment:
                self._channels[key].publish(environment)
        if before is None or before.environment_of_key != status.environment_of_key:
            for listener in self._listeners():
                if not status.admits(listener.ticket.key_id, listener.ticket.environment):
                    listener.end()
        self._is_ready.set()

    async def admits(self, ticket: Ticket) -> bool:
        """Return whether the bearer of a ticket may listen, by the last published status."""
        await self._is_ready.wait()
        return self.status is None or self.status.admits(ticket.key_id, ticket.environment)

    def join(self, ticket: Ticket, *, last_revision: int | None = None) -> Listener:
        """Add a listener, and send at once what the client may have missed since `last_revision`.

        Without it, a recent change is sent even if the client's answer was newer.
        """
        listener = Listener(ticket, last_revision)
        channel = self._channels[ticket.environment]
        channel.listeners.add(listener)
        self._count(1)
        if channel.status is not None and channel.status.is_newer_than(ticket.since, last_revision):
            listener.send(channel.status, channel.status.message)
        if self.is_closed:
            listener.end()
        return listener

    def leave(self, listener: Listener) -> None:
        self._channels[listener.ticket.environment].listeners.discard(listener)
        self._count(-1)

    def _count(self, change: int) -> None:
        self._open += change
        metrics.streams.set(self._open)

    def close(self) -> None:
        """End all streams, and any stream that is opened later."""
        self.is_closed = True
        self._is_ready.set()
        for listener in self._listeners():
            listener.end()

    def _listeners(self) -> list[Listener]:
        return [listener for channel in self._channels.values() for listener in channel.listeners]
