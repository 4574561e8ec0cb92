"""The sockets that the server listens on, and what each worker wraps around the application."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from config.serving import worker, worker_process
from config.serving.listening import CannotListen, count_waiting, listen, listen_for_streams, refuse_new_connections


@pytest.fixture
def sockets() -> Iterator[list[socket.socket]]:
    opened = listen("127.0.0.1", 0, count=3)
    yield opened
    for listening in opened:
        listening.close()


def connect(sockets: list[socket.socket], timeout: float = 5) -> socket.socket:
    return socket.create_connection(sockets[0].getsockname(), timeout)


def test_listen__several_workers__have_a_socket_each_on_one_port(sockets: list[socket.socket]) -> None:
    assert len({listening.getsockname() for listening in sockets}) == 1
    assert len({listening.fileno() for listening in sockets}) == 3


def test_listen__port_in_use__is_refused_although_its_sockets_could_be_shared(sockets: list[socket.socket]) -> None:
    port = sockets[0].getsockname()[1]
    with pytest.raises(CannotListen, match=rf"Cannot listen on 127\.0\.0\.1, port {port}: Address already in use\."):
        listen("127.0.0.1", port, count=1)


@pytest.mark.parametrize("port", [-1, 65_536, 10**12])
def test_listen__invalid_port__is_refused(port: int) -> None:
    with pytest.raises(CannotListen, match="ports go from 0 to 65535"):
        listen("127.0.0.1", port, count=1)


@pytest.mark.parametrize("host", ["host.invalid", "192.0.2.1", "x" * 300, "a..b"])
def test_listen__host_of_another_machine__is_refused(host: str) -> None:
    with pytest.raises(CannotListen, match="Cannot listen on"):
        listen(host, 0, count=1)


@pytest.fixture
def stream_socket() -> Iterator[Callable[..., socket.socket]]:
    """Open a socket for streams beside a port."""
    with ExitStack() as opened:
        yield lambda port, *, beside: opened.enter_context(listen_for_streams("127.0.0.1", port, beside=beside))


def port_of(opened: socket.socket) -> int:
    port: int = opened.getsockname()[1]
    return port


def test_listen_for_streams__no_port_named__takes_the_next_one_or_any(
    stream_socket: Callable[..., socket.socket],
) -> None:
    first = stream_socket(0, beside=1)
    before = port_of(first) - 1
    second = stream_socket(None, beside=before)
    assert port_of(second) not in (before, port_of(first))
    first.close()
    assert port_of(stream_socket(None, beside=before)) == before + 1


def test_listen_for_streams__beside_the_last_port__takes_any(stream_socket: Callable[..., socket.socket]) -> None:
    assert port_of(stream_socket(None, beside=65_535)) > 0


def test_listen_for_streams__port_named_that_is_taken__is_refused(
    stream_socket: Callable[..., socket.socket], sockets: list[socket.socket]
) -> None:
    with pytest.raises(CannotListen, match="Address already in use"):
        stream_socket(port_of(sockets[0]), beside=1)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have their own ways to notice")
def test_listen_for_streams__connection_accepted__is_given_up_when_its_client_is_gone_for_a_minute(
    stream_socket: Callable[..., socket.socket],
) -> None:
    listening = stream_socket(0, beside=1)
    with socket.create_connection(listening.getsockname()), listening.accept()[0] as accepted:
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000


def test_waiting__clients_that_nobody_has_accepted__are_counted(sockets: list[socket.socket]) -> None:
    assert count_waiting(sockets) == 0
    clients = [connect(sockets) for _ in range(10)]
    assert count_waiting(sockets) == 10
    for client in clients:
        client.close()


def test_refusing__clients_in_the_queue__are_served_and_new_ones_are_not_let_in(sockets: list[socket.socket]) -> None:
    with connect(sockets) as early:
        refuse_new_connections(sockets)
        with pytest.raises(TimeoutError):
            connect(sockets, timeout=0.2)
        accepted = next(listening for listening in sockets if count_waiting([listening])).accept()[0]
        with accepted:
            early.sendall(b"question")
            assert accepted.recv(100) == b"question"
            accepted.sendall(b"answer")
            assert early.recv(100) == b"answer"
        assert count_waiting(sockets) == 0


class Flag:
    value = 0


def answer(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]


@pytest.mark.parametrize(
    ("is_stopping", "expected"),
    [(0, [("Content-Length", "2")]), (1, [("Content-Length", "2"), ("Connection", "close")])],
)
def test_worker__while_the_server_stops__closes_each_connection_with_its_answer(
    monkeypatch: pytest.MonkeyPatch, is_stopping: int, expected: list[tuple[str, str]]
) -> None:
    monkeypatch.setattr("config.serving.wsgi.application", answer)
    monkeypatch.setattr(worker.atexit, "register", lambda *_, **__: None)
    monkeypatch.setattr(threading.Thread, "start", lambda _: None)
    monkeypatch.setattr(worker.outages, "start_threads", lambda _: None)
    monkeypatch.setattr(worker_process, "stream_port", None)
    flag, headers = Flag(), []
    application = worker.load(flag, 8001)
    assert worker_process.stream_port == 8001
    flag.value = is_stopping
    assert application({}, lambda _, sent: headers.extend(sent)) == [b"ok"]
    assert headers == expected
