"""Who listens to which environment, and when they are told. All of it runs in the thread of one event loop."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from flags.ofrep.tokens import Ticket
from flags.streaming.follower import Outlook
from flags.streaming.messages import HEARTBEAT, News

SECONDS_BETWEEN_MESSAGES = 1.0
"""At least, of one environment: a burst of changes is told of at its beginning and at its end."""
SECONDS_BETWEEN_HEARTBEATS = 15.0


class Listener:
    """One open stream. Of messages not taken yet only the newest is kept: each says all."""

    def __init__(self, ticket: Ticket, known: int | None) -> None:
        self.ticket = ticket
        self._revision, self._at = known, ticket.since
        self._message: bytes | None = None
        self._is_over = False
        self._woken: asyncio.Future[None] | None = None

    def tell(self, news: News, message: bytes) -> None:
        """Send the message of news, unless they are known already: those that were held back may have been told before.

        A worker, too, may have been faster with its answer.
        """
        moment = news.moment or self._at
        if news.revision != self._revision or moment > self._at:
            self._revision, self._at = news.revision, max(moment, self._at)
            self._message = message
            self._wake()

    def end(self) -> None:
        self._is_over = True
        self._wake()

    async def next(self) -> bytes | None:
        """What to send now, as soon as there is something; None once the stream is over."""
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
    """One environment: its listeners, and what they were told last."""

    def __init__(self) -> None:
        self.listeners: set[Listener] = set()
        self.news: News | None = None
        self._told_at = float("-inf")
        self._timer: asyncio.TimerHandle | None = None

    def tell(self, news: News) -> None:
        """Pass news on, at once or as soon as the last ones are old enough."""
        is_first, self.news = self.news is None, news
        if is_first or self._timer is not None:
            return
        loop = asyncio.get_running_loop()
        due = self._told_at + SECONDS_BETWEEN_MESSAGES
        if due <= loop.time():
            self._pass_on()
        else:
            self._timer = loop.call_at(due, self._pass_on)

    def _pass_on(self) -> None:
        assert self.news is not None  # noqa: S101 (only called once there are some)
        self._timer, self._told_at = None, asyncio.get_running_loop().time()
        message = self.news.message
        for listener in self.listeners:
            listener.tell(self.news, message)


class Hub:
    """All listeners. Until it has been told how things stand, nobody can be let in."""

    def __init__(self) -> None:
        self.outlook: Outlook | None = None
        self.is_closed = False
        self._is_ready = asyncio.Event()
        self._channels: defaultdict[str, Channel] = defaultdict(Channel)

    def tell(self, outlook: Outlook) -> None:
        """Tell the listeners of each environment that no longer stands as it did, and end those admitted no more."""
        before, self.outlook = self.outlook, outlook
        for environment, news in outlook.news.items():
            if before is None or before.news.get(environment) != news:
                self._channels[environment].tell(news)
        if before is None or before.environment_of_key != outlook.environment_of_key:
            for listener in self._listeners():
                if not outlook.admits(listener.ticket.key_id, listener.ticket.environment):
                    listener.end()
        self._is_ready.set()

    async def admits(self, ticket: Ticket) -> bool:
        """Whether the bearer of a ticket may listen, as far as is known here."""
        await self._is_ready.wait()
        return self.outlook is None or self.outlook.admits(ticket.key_id, ticket.environment)

    def join(self, ticket: Ticket, *, known: int | None = None) -> Listener:
        """Let somebody listen, who is told at once of what they may have missed: they last heard of revision `known`.

        Who heard of none is told of a change that may be younger than the answer that sent them here.
        """
        listener = Listener(ticket, known)
        channel = self._channels[ticket.environment]
        channel.listeners.add(listener)
        if channel.news is not None and channel.news.is_newer_than(ticket.since, known):
            listener.tell(channel.news, channel.news.message)
        if self.is_closed:
            listener.end()
        return listener

    def leave(self, listener: Listener) -> None:
        self._channels[listener.ticket.environment].listeners.discard(listener)

    def close(self) -> None:
        """End all streams, and every one that comes."""
        self.is_closed = True
        self._is_ready.set()
        for listener in self._listeners():
            listener.end()

    def _listeners(self) -> list[Listener]:
        return [listener for channel in self._channels.values() for listener in channel.listeners]
