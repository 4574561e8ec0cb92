"""The sockets that `manage.py serve` listens on: opening them, and closing them without losing who waits in a queue."""

from __future__ import annotations

import ctypes
import socket
import struct
import sys
from collections.abc import Iterable

BACKLOG = 1024
"""How many clients may wait in the queue of one socket."""
_SECONDS_TO_ACKNOWLEDGE = 60
"""A client that has not acknowledged for so long what it was sent has vanished."""


class CannotListen(Exception):
    """Nothing can listen on this address; the message says why."""


def listen(host: str, port: int, *, count: int) -> list[socket.socket]:
    """Open `count` sockets on one address, among which the kernel shares out the connections."""
    if not 0 <= port < 2**16:  # the C library would take it modulo 65,536
        raise CannotListen(f"Cannot listen on {host}, port {port}: ports go from 0 to 65535.")
    opened: list[socket.socket] = []
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # Sockets that share an address share it with those of another server too; the first one must be alone on it.
        with _bind(family, address, is_shared=False) as alone:
            address = alone.getsockname()
        for _ in range(count):
            opened.append(_bind(family, address, is_shared=True))
            opened[-1].listen(BACKLOG)
    except (OSError, UnicodeError) as error:
        for each in opened:
            each.close()
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise CannotListen(f"Cannot listen on {host}, port {port}: {reason}.") from error
    return opened


def listen_for_streams(host: str, port: int | None, *, beside: int) -> socket.socket:
    """Open a socket for connections that last: on `port`, else on the one after `beside`, else on any that is free."""
    if port is not None:
        [opened] = listen(host, port, count=1)
    else:
        try:
            [opened] = listen(host, beside + 1, count=1)
        except CannotListen:
            [opened] = listen(host, 0, count=1)
    if sys.platform == "linux":  # handed on to its connections; elsewhere it may take a quarter of an hour
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SECONDS_TO_ACKNOWLEDGE * 1000)
    return opened


def _bind(family: int, address: tuple[object, ...], *, is_shared: bool) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of an earlier server may still linger
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if is_shared:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.bind(address)
    except OSError:
        made.close()
        raise
    return made


# Only Linux can shut the door and still serve who is in: a packet filter on the socket drops those that open a
# connection (SYN without ACK, by the flags in byte 13 of the TCP header) and lets all others pass.
_SO_ATTACH_FILTER = 26
_DROP_NEW_CONNECTIONS = b"".join(
    struct.pack("HBBI", *instruction)
    for instruction in (
        (0x30, 0, 0, 13),  # load the byte of flags
        (0x54, 0, 0, 0x12),  # keep SYN and ACK
        (0x15, 0, 1, 0x02),  # SYN alone?
        (0x06, 0, 0, 0),  # then drop the packet
        (0x06, 0, 0, 0xFFFFFFFF),  # else take it whole
    )
)
_QUEUE_LENGTH = struct.Struct("24x I")  # in Linux's tcp_info of a listening socket: tcpi_unacked


def refuse_new_connections(sockets: Iterable[socket.socket]) -> None:
    """Let nobody else into the queues. Clients try again by themselves, and are refused once the sockets are closed."""
    if sys.platform == "linux":
        program = ctypes.create_string_buffer(_DROP_NEW_CONNECTIONS, len(_DROP_NEW_CONNECTIONS))
        reference = struct.pack("@HP", len(_DROP_NEW_CONNECTIONS) // 8, ctypes.addressof(program))
        for each in sockets:
            each.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, reference)


def count_waiting(sockets: Iterable[socket.socket]) -> int:
    """How many clients wait to be accepted, as far as the system tells."""
    if sys.platform != "linux":
        return 0
    states = (each.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _QUEUE_LENGTH.size) for each in sockets)
    return sum(_QUEUE_LENGTH.unpack(state)[0] for state in states)
