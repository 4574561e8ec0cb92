"""The connections of this process, as the system knows them: granian does not say which one a request came on."""

from __future__ import annotations

import os
import socket
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

_BYTES_SENT = struct.Struct("200x Q Q")  # in Linux's tcp_info: tcpi_bytes_sent, tcpi_bytes_retrans


class Connection(NamedTuple):
    """An open file and its inode, which tells it from a later one of the same number."""

    descriptor: int
    inode: int


def bytes_sent(port: int) -> dict[Connection, int]:
    """Return how many bytes this process has sent on each connection to one of its ports. Only Linux reports it."""
    if sys.platform != "linux":
        return {}
    sent: dict[Connection, int] = {}
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # closed meanwhile, or no TCP
            inode = _inode_of_socket(int(name))
            if inode is None:
                continue
            with _borrowed(int(name)) as connection:
                state = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_SENT.size)
                if connection.getsockname()[1] == port:
                    total, repeated = _BYTES_SENT.unpack(state)
                    sent[Connection(int(name), inode)] = total - repeated
    return sent


def stop_receiving(connection: Connection) -> None:
    """End what comes in on a connection, so that granian closes it. Nothing happens if it is closed already."""
    with suppress(OSError):
        if _inode_of_socket(connection.descriptor) == connection.inode:
            with _borrowed(connection.descriptor) as open_connection:
                open_connection.shutdown(socket.SHUT_RD)


def _inode_of_socket(descriptor: int) -> int | None:
    state = os.fstat(descriptor)
    return state.st_ino if stat.S_ISSOCK(state.st_mode) else None


@contextmanager
def _borrowed(descriptor: int) -> Iterator[socket.socket]:
    """A socket that belongs to somebody else, and is not closed here."""
    borrowed = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=descriptor)
    try:
        yield borrowed
    finally:
        borrowed.detach()
