"""The connections of this process, as the system knows them: granian does not say which one a request came on."""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

# In Linux's tcp_info: tcpi_last_data_sent, tcpi_last_data_recv, tcpi_bytes_sent, tcpi_bytes_retrans
_SENT = struct.Struct("44x I 4x I 144x Q Q")


class Connection(NamedTuple):
    """An open file and its inode, which tells it from a later one of the same number."""

    descriptor: int
    inode: int


class Sent(NamedTuple):
    """How many bytes were sent on a connection, and since when none were, nor received, by the monotonic clock."""

    total: int
    idle_since: float
    unheard_since: float


def bytes_sent(port: int) -> dict[Connection, Sent]:
    """Return what this process has sent on each connection to one of its ports. Only Linux reports it."""
    if sys.platform != "linux":
        return {}
    sent: dict[Connection, Sent] = {}
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError), _held(int(name)) as held:  # closed meanwhile, or no TCP
            inode, connection = held
            state = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _SENT.size)
            if connection.getsockname()[1] == port:
                idle, unheard, total, repeated = _SENT.unpack(state)
                now = time.monotonic()
                sent[Connection(int(name), inode)] = Sent(total - repeated, now - idle / 1000, now - unheard / 1000)
    return sent


def stop_receiving(connection: Connection) -> None:
    """End what comes in on a connection, so that granian closes it. Nothing happens if it is closed already."""
    with suppress(OSError), _held(connection.descriptor) as (inode, open_connection):
        if inode == connection.inode:
            open_connection.shutdown(socket.SHUT_RD)


@contextmanager
def _held(descriptor: int) -> Iterator[tuple[int, socket.socket]]:
    """The inode of a socket of somebody else, and the socket. Raises OSError if that is no socket.

    The descriptor is copied first: its owner may close it at any moment, and the next client may get the same number.
    """
    copy = os.dup(descriptor)
    try:
        state = os.fstat(copy)
        if not stat.S_ISSOCK(state.st_mode):
            raise OSError(errno.ENOTSOCK, os.strerror(errno.ENOTSOCK))
        held = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=copy)
    except BaseException:
        os.close(copy)
        raise
    with held:
        yield state.st_ino, held
