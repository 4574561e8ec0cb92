"""The sockets that the server listens on, and what each worker wraps around the application."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from granian.server import mp

from config.monitoring.memory import SharedMemory
from config.serving import worker, worker_process
from config.serving.gateway.gateway import Gateway
from config.serving.listening import (
    CannotListen,
    count_waiting,
    direct_new_connections,
    listen,
    listen_for_streams,
    refuse_new_connections,
)


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


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can direct connections")
@pytest.mark.parametrize("numbers", [[0, 2], [1], [0, 1, 2]])
def test_directing__new_clients__wait_at_the_chosen_sockets_alone(
    sockets: list[socket.socket], numbers: list[int]
) -> None:
    direct_new_connections(sockets, [1])
    direct_new_connections(sockets, numbers)
    clients = [connect(sockets) for _ in range(60)]
    assert [number for number, listening in enumerate(sockets) if count_waiting([listening])] == numbers
    for client in clients:
        client.close()


def test_directing__system_that_refuses_filters__is_logged(
    sockets: list[socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket(socket.AF_UNIX) as of_another_kind:
        direct_new_connections([of_another_kind, *sockets], [1])
    assert (sys.platform == "linux") == ("New connections cannot be kept away" in caplog.text)


def test_refusing__clients_in_the_queue__are_served_and_new_ones_are_not_let_in(
    sockets: list[socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    with connect(sockets) as early:
        refuse_new_connections(sockets)
        if "New connections cannot be kept away" in caplog.text:
            pytest.skip("on this system, not every user may filter packets")
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


def test_worker__loaded__gives_granian_a_gateway_that_knows_the_port_of_the_streams(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mp, "_wsgi_call_wrap", None)
    monkeypatch.setattr(worker, "Finalize", lambda *_, **__: None)
    monkeypatch.setattr(worker, "raise_limit_of_open_files", lambda: None)
    monkeypatch.setattr(threading.Thread, "start", lambda _: None)
    monkeypatch.setattr(worker.Follower, "wait_for_state", lambda _: None)
    monkeypatch.setattr(worker.outages, "start_threads", lambda _: None)
    monkeypatch.setattr(worker_process, "stream_port", None)
    taken: list[bool] = []
    joined: list[tuple[SharedMemory, str]] = []
    monkeypatch.setattr(worker.counting, "join", lambda *where: joined.append(where))
    shared = SharedMemory(["worker-1"])
    gateway = worker.load(Flag(), 8001, lambda: taken.append(True), shared, "worker-1")
    assert joined == [(shared, "worker-1")]
    assert worker_process.stream_port == 8001
    assert taken
    assert isinstance(gateway, Gateway)
    assert mp._wsgi_call_wrap(gateway, {}, None) is gateway
