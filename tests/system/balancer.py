"""A proxy in front of servers of two releases, which passes each new connection on to one of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from tests.system.server import Server


class Balancer:
    """Connections that are open stay with their server. `direct` says where new ones go."""

    def __init__(self, server: Server) -> None:
        self._target = server.port
        self._loop = asyncio.new_event_loop()
        self._open: set[asyncio.Task[None] | None] = set()  # which the loop itself does not keep
        # The thread of the tests may have a loop that runs: that of a browser.
        self._thread = threading.Thread(target=self._loop.run_forever, name="balancer", daemon=True)
        self._thread.start()
        starting = asyncio.start_server(self._pass_on, "127.0.0.1", backlog=256)
        self._listening = asyncio.run_coroutine_threadsafe(starting, self._loop).result()

    @property
    def port(self) -> int:
        port: int = self._listening.sockets[0].getsockname()[1]
        return port

    def direct(self, server: Server) -> None:
        self._target = server.port

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        self._listening.close()
        for task in (opened := asyncio.all_tasks() - {asyncio.current_task()}):
            task.cancel()
        await asyncio.gather(*opened, return_exceptions=True)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._open.add(task)
        with closing(writer), suppress(ConnectionError):  # which the other end sees, too
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
            with closing(far_writer):
                await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
        self._open.discard(task)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(2**16):
        writer.write(piece)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


@contextmanager
def balanced(server: Server) -> Iterator[Balancer]:
    """A balancer whose connections go to this server first, until the block ends."""
    balancer = Balancer(server)
    try:
        yield balancer
    finally:
        balancer.close()
