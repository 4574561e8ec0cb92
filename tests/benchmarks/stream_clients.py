"""The clients of `bench_streams`, in a process of their own: bare sockets, so that they are hardly what is measured.

Run as `python -m tests.benchmarks.stream_clients <port> <path> <revision> <count>`. It prints a line once all streams
are open, and for each message that all have received the moments of arrival, in nanoseconds of the monotonic clock.
"""

from __future__ import annotations

import asyncio
import json
import sys
from time import monotonic_ns

AT_ONCE = 50


class Client(asyncio.Protocol):
    """One stream. It puts the moment of each message into its list."""

    def __init__(self, path: str, revision: str, arrivals: asyncio.Queue[int]) -> None:
        self.path, self.revision, self.arrivals = path, revision, arrivals
        self.is_open = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        lines = [f"GET {self.path} HTTP/1.1", "Host: localhost", f"Last-Event-ID: {self.revision}", "", ""]
        transport.write("\r\n".join(lines).encode())

    def data_received(self, data: bytes) -> None:
        if b"refetchEvaluation" in data:
            self.arrivals.put_nowait(monotonic_ns())
        elif b"retry: " in data:
            self.is_open.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        sys.exit("a stream was closed")


async def main(port: int, path: str, revision: str, count: int) -> None:
    loop = asyncio.get_running_loop()
    arrivals: asyncio.Queue[int] = asyncio.Queue()
    for _ in range(0, count, AT_ONCE):
        opening = [
            loop.create_connection(lambda: Client(path, revision, arrivals), "127.0.0.1", port) for _ in range(AT_ONCE)
        ]
        await asyncio.gather(*(client.is_open for _, client in await asyncio.gather(*opening)))
    print("open", flush=True)
    while True:
        print(json.dumps([await arrivals.get() for _ in range(count)]), flush=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])))
