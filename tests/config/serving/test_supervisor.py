"""`serve` replaces workers that die until too many do, and the stream process never ends the others."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from config.serving.listening import count_waiting, listen, listen_for_streams
from config.serving.supervisor import Supervisor

WORKERS = 2
STREAMS = WORKERS
_LONGEST = 600.0


class Clock:
    """A clock that advances only while the server waits, until a death or a planned restart, and ends after a while."""

    def __init__(self, server: Supervisor, deaths: Sequence[int]) -> None:
        self.now = 0.0
        self._server, self._deaths = server, list(deaths)

    def wait(self, seconds: float) -> None:
        assert seconds <= 1  # a signal that another thread received is handled once the wait is over
        if self._deaths and seconds > 0:
            self.now += 0.5
            self._server.interrupt_children.append(self._deaths.pop(0))
        elif self.now < _LONGEST:
            self.now += seconds
        else:
            self._server.interrupt_signal = True

    def clear(self) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervisor]:
    sockets = listen("127.0.0.1", 0, count=WORKERS)
    streams = listen_for_streams("127.0.0.1", 0, beside=sockets[0].getsockname()[1])
    yield Supervisor(sockets, streams)
    for listening in (*sockets, streams):
        listening.close()


def replaced(server: Supervisor, deaths: Sequence[int], monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, float]]:
    """Return which processes the server replaced and when, until it gave up or was asked to stop."""
    replacements: list[tuple[int, float]] = []
    clock = Clock(server, deaths)
    monkeypatch.setattr(time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(server, "main_loop_interrupt", clock)

    def respawn(which: list[int], *_: Any) -> None:
        replacements.extend((index, clock.now) for index in which)
        for index in {*which} - {STREAMS}:
            server._places.taker(index)()

    monkeypatch.setattr(server, "_respawn_workers", respawn)
    server._serve_loop(None, None)
    return replacements


def test_workers__that_die_now_and_then__are_replaced_at_once(
    server: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert replaced(server, [0, 1, 0], monkeypatch) == [(0, 0.5), (1, 1.0), (0, 1.5)]
    assert not server.has_given_up


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can direct connections")
def test_workers__that_died__get_no_new_clients_until_their_successors_serve(server: Supervisor) -> None:
    def queues() -> list[bool]:
        """Return which workers get some of 40 new clients."""
        with ExitStack() as opened:
            address = server.sockets[0].getsockname()
            clients = [opened.enter_context(socket.create_connection(address)) for _ in range(40)]
            found = [bool(count_waiting([listening])) for listening in server.sockets]
            for listening in server.sockets:
                for _ in range(count_waiting([listening])):
                    listening.accept()[0].close()
            assert clients
            return found

    places = server._places
    places.vacate(1)
    assert queues() == [True, False]
    places.vacate(0)
    assert queues() == [True, True]
    places.taker(1)()
    places.look()
    assert queues() == [False, True]
    places.taker(0)()
    places.look()
    assert queues() == [True, True]


def test_workers__that_keep_dying__make_the_server_give_up(server: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(replaced(server, [0] * 20, monkeypatch)) == 10
    assert server.has_given_up


def test_streams__that_keep_dying__are_served_again_later_and_the_rest_goes_on(
    server: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    replacements = replaced(server, [*[STREAMS] * 11, 0, 1], monkeypatch)
    assert replacements[:10] == [(STREAMS, at / 2) for at in range(1, 11)]
    assert replacements[10:] == [(0, 6.0), (1, 6.5), (STREAMS, 65.5)]
    assert not server.has_given_up
