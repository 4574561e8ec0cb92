"""Late bodies over real sockets: the right connection is closed, after its answer."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from config.serving.gateway import timekeeper
from config.serving.gateway.bodies import SECONDS_TO_DISCARD, Body, BodyCutOff, Discarder, Readers
from config.serving.gateway.connections import Connection, bytes_sent, stop_receiving
from config.serving.gateway.exchange import Exchange
from config.serving.gateway.pools import Pool, Task
from config.serving.gateway.timekeeper import Cutter, DiscardCutter, Timekeeper
from tests.config.serving.gateway.granian import Protocol
from tests.threads import SECONDS, Threads

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports how much was sent")

LATER = 3600.0
ANSWER = b"late"


class Running:
    value = 0


class Wire:
    """Both ends of a connection; the server's end is read as granian reads it: until the body is whole or ends."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server

    def read(self, size: int) -> bytes:
        self.server.settimeout(SECONDS)
        received = b""
        while len(received) < size and (piece := self.server.recv(size - len(received))):
            received += piece
        return received


@pytest.fixture
def wires() -> Iterator[list[Wire]]:
    with ExitStack() as opened, socket.create_server(("127.0.0.1", 0)) as listening:
        made = []
        for _ in range(3):
            client = opened.enter_context(socket.create_connection(listening.getsockname(), SECONDS))
            made.append(Wire(client, opened.enter_context(listening.accept()[0])))
        yield made


def port_of(wire: Wire) -> int:
    port: int = wire.server.getsockname()[1]
    return port


def has_ended(wire: Wire) -> bool:
    wire.server.setblocking(False)
    try:
        return wire.server.recv(1) == b""
    except BlockingIOError:
        return False


def test_bytes_sent__connections_to_the_port__are_counted_without_being_closed(wires: list[Wire]) -> None:
    first, second, third = wires
    before = bytes_sent(port_of(first))
    first.server.sendall(b"12345")
    third.client.sendall(b"received")
    after = bytes_sent(port_of(first))
    grown = {connection.descriptor: after[connection].total - before[connection].total for connection in after}
    assert [grown[wire.server.fileno()] for wire in (first, second, third)] == [5, 0, 0]
    assert first.client.recv(5) == b"12345"


def test_bytes_sent__some_time_after_an_answer__says_since_when_nothing_was_sent(wires: list[Wire]) -> None:
    first, second, _ = wires
    time.sleep(0.1)
    begun = time.monotonic()
    first.server.sendall(b"12345")
    idle_since = {each.descriptor: sent.idle_since for each, sent in bytes_sent(port_of(first)).items()}
    assert idle_since[first.server.fileno()] > begun - 0.02
    assert idle_since[second.server.fileno()] < begun - 0.05


def test_stop_receiving__descriptor_was_reused__leaves_it_alone(wires: list[Wire]) -> None:
    [connection] = [each for each in bytes_sent(port_of(wires[0])) if each.descriptor == wires[0].server.fileno()]
    stop_receiving(Connection(connection.descriptor, connection.inode + 1))
    assert not has_ended(wires[0])
    stop_receiving(connection)
    assert has_ended(wires[0])


def test_timekeeper__late_body__is_answered_and_only_its_connection_ends(
    wires: list[Wire], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timekeeper, "SECONDS_TO_SEND", 0)
    late, busy, idle = wires
    begun = time.monotonic()
    time.sleep(0.1)  # so that the system tells what was sent before from what was sent since
    readers, threads, cut = Readers(9, seconds=10.0), Threads(), []

    def answer(exchange: Exchange) -> int:
        cut.append(exchange)
        late.server.sendall(ANSWER)
        busy.server.sendall(b"same")
        idle.server.sendall(b"another answer")
        return len(ANSWER)

    environ = {"SERVER_PORT": str(port_of(late)), "CONTENT_LENGTH": "9"}
    body = Body(Exchange(Protocol(), environ, Running()), late, readers, begun)
    busy.server.sendall(b"an answer meanwhile")
    reading = threads.start(body.read, 9)
    while not readers._reading:
        time.sleep(0.001)
    keeper = Timekeeper([Cutter(readers, answer)], [])
    keeper.look(begun + 9)
    assert cut == []
    keeper.look(begun + 11)
    assert cut == [body.exchange]
    assert late.client.recv(100) == ANSWER
    assert isinstance(reading.exception(SECONDS), BodyCutOff)
    assert not has_ended(busy)
    assert not has_ended(idle)
    keeper.look(begun + 12)
    assert cut == [body.exchange]
    threads.join()


def test_timekeeper__rest_of_a_refused_body_does_not_come__only_silent_connections_of_that_moment_end(
    wires: list[Wire], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timekeeper, "SECONDS_TO_SEND", 0)
    silent, talking, older = wires
    older.server.sendall(ANSWER)
    time.sleep(0.1)
    exchange = Exchange(Protocol(), {"SERVER_PORT": str(port_of(silent))}, Running())
    discarder, threads = Discarder(1), Threads()
    discarding = threads.start(discarder.discard, exchange, silent)
    while not discarder._deadlines:
        time.sleep(0.001)
    keeper, later = Timekeeper([DiscardCutter(discarder)], []), time.monotonic() + SECONDS_TO_DISCARD + 1
    keeper.look(later)  # there is no answer yet
    exchange.answered_at = time.monotonic()
    for wire in (silent, talking):
        wire.server.sendall(ANSWER)
    time.sleep(0.1)
    talking.client.sendall(b"the next request")
    keeper.look(later - 2)
    assert not discarding.done()
    keeper.look(later)
    assert discarding.result(SECONDS) is True
    assert not has_ended(older)
    assert talking.server.recv(100) == b"the next request"
    assert not has_ended(talking)
    threads.join()


def test_timekeeper__tasks_wait_too_long__are_given_up() -> None:
    pool, given_up = Pool("test", 0, most_waiting=9, seconds=SECONDS), []
    pool.submit(Task(lambda: None, lambda: given_up.append(1)))
    keeper = Timekeeper([], [pool])
    keeper.look(time.monotonic())
    assert given_up == []
    keeper.look(time.monotonic() + LATER)
    assert given_up == [1]
