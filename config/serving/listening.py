"""The sockets that `manage.py serve` listens on: opening them, and closing them without losing
queued clients.
"""

from __future__ import annotations

import ctypes
import socket
import struct
import sys
from collections.abc import Iterable

BACKLOG = 1024
"""The number of clients that may wait in the queue of one socket."""
_SECONDS_TO_ACKNOWLEDGE = 60
"""A client that acknowledges nothing for this long counts as gone."""


class CannotListen(Exception):
    """This address cannot be listened on; the message says why."""


def listen(host: str, port: int, *, count: int) -> list[socket.socket]:
    """Open `count` sockets on one address. The kernel distributes connections among them.

    Raises CannotListen.
    """
    if not 0 <= port < 2**16:  # the C library would use it modulo 65,536
        raise CannotListen(f"Cannot listen on {host}, port {port}: ports go from 0 to 65535.")
    opened: list[socket.socket] = []
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # Shared sockets would also share the address with another server. A socket that does not
        # share finds out.
        with _bind(family, address, is_shared=False) as exclusive:
            address = exclusive.getsockname()
        for _ in range(count):
            opened.append(_bind(family, address, is_shared=True))
            opened[-1].listen(BACKLOG)
    except (OSError, UnicodeError) as error:
        for listening in opened:
            listening.close()
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise CannotListen(f"Cannot listen on {host}, port {port}: {reason}.") from error
    return opened


def listen_for_streams(host: str, port: int | None, *, beside: int) -> socket.socket:
    """Open a socket for long connections: on `port`, or else on the port after `beside`, or else on
    any free one.

    Raises CannotListen if `port` is given and taken.
    """
    if port is not None:
        [opened] = listen(host, port, count=1)
    else:
        try:
            [opened] = listen(host, beside + 1, count=1)
        except CannotListen:
            [opened] = listen(host, 0, count=1)
    if sys.platform == "linux":  # accepted connections inherit it; elsewhere, noticing may take 15 minutes
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SECONDS_TO_ACKNOWLEDGE * 1000)
    return opened


def _bind(family: int, address: tuple[object, ...], *, is_shared: bool) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Connections of an earlier server may still linger.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if is_shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound


# Only Linux can refuse new connections and still serve the queued ones. A packet filter on the
# socket drops packets that open a connection (SYN without ACK, by the flags in byte 13 of the TCP
# header) and passes all others.
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
    """Keep new clients out of the queues, on Linux only.

    Their systems retry by themselves, and are refused once the sockets are closed.
    """
    if sys.platform == "linux":
        program = ctypes.create_string_buffer(_DROP_NEW_CONNECTIONS, len(_DROP_NEW_CONNECTIONS))
        reference = struct.pack("@HP", len(_DROP_NEW_CONNECTIONS) // 8, ctypes.addressof(program))
        for listening in sockets:
            listening.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, reference)


def count_waiting(sockets: Iterable[socket.socket]) -> int:
    """Return how many clients wait to be accepted. Only Linux reports it; elsewhere it is 0."""
    if sys.platform != "linux":
        return 0
    states = (listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _QUEUE_LENGTH.size) for listening in sockets)
    return sum(_QUEUE_LENGTH.unpack(state)[0] for state in states)
