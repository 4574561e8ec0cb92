"""The sockets that `manage.py serve` listens on: opening them, and closing them without losing
queued clients.
"""

from __future__ import annotations

import ctypes
import logging
import socket
import struct
import sys
from collections.abc import Iterable, Sequence

logger = logging.getLogger(__name__)

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


# Only Linux can do what follows, by small programs that it runs for each new connection.
_SO_ATTACH_FILTER, _SO_ATTACH_REUSEPORT_CBPF = 26, 51
_LOAD_BYTE, _LOAD_WORD, _AND, _MODULO, _IS_EQUAL, _RETURN = 0x30, 0x20, 0x54, 0x94, 0x15, 0x06
_FLAGS_OF_TCP, _SYN, _SYN_AND_ACK = 13, 0x02, 0x12
_RANDOM_NUMBER = 0xFFFFF038
"""The address at which such a program reads one."""
_Instruction = tuple[int, int, int, int]

_DROP_NEW_CONNECTIONS: Sequence[_Instruction] = (
    (_LOAD_BYTE, 0, 0, _FLAGS_OF_TCP),
    (_AND, 0, 0, _SYN_AND_ACK),
    (_IS_EQUAL, 0, 1, _SYN),
    (_RETURN, 0, 0, 0),  # drop the packet
    (_RETURN, 0, 0, 0xFFFFFFFF),  # take it whole
)
_QUEUE_LENGTH = struct.Struct("24x I")  # in Linux's tcp_info of a listening socket: tcpi_unacked


def refuse_new_connections(sockets: Iterable[socket.socket]) -> None:
    """Keep new clients out of the queues, on Linux only, and still serve the queued ones.

    Their systems retry by themselves, and are refused once the sockets are closed.
    """
    for listening in sockets:
        _attach(listening, _SO_ATTACH_FILTER, _DROP_NEW_CONNECTIONS)


def direct_new_connections(sockets: Sequence[socket.socket], numbers: Sequence[int]) -> None:
    """Put new clients into the queues of the sockets with these numbers alone, by chance, on Linux only.

    The sockets must be all of those that `listen` has opened.
    """
    program = [(_LOAD_WORD, 0, 0, _RANDOM_NUMBER), (_MODULO, 0, 0, len(numbers))]
    for place, number in enumerate(numbers):
        program += [(_IS_EQUAL, 0, 1, place), (_RETURN, 0, 0, number)]
    _attach(sockets[0], _SO_ATTACH_REUSEPORT_CBPF, [*program, (_RETURN, 0, 0, numbers[0])])


def _attach(listening: socket.socket, option: int, program: Sequence[_Instruction]) -> None:
    if sys.platform == "linux":
        code = b"".join(struct.pack("HBBI", *instruction) for instruction in program)
        buffer = ctypes.create_string_buffer(code, len(code))
        reference = struct.pack("@HP", len(program), ctypes.addressof(buffer))
        try:
            listening.setsockopt(socket.SOL_SOCKET, option, reference)
        except OSError as error:  # some systems, such as sandboxes, refuse filters
            logger.warning("New connections cannot be kept away from workers that end: %s", error)


def count_waiting(sockets: Iterable[socket.socket]) -> int:
    """Return how many clients wait to be accepted. Only Linux reports it; elsewhere it is 0."""
    if sys.platform != "linux":
        return 0
    states = (listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _QUEUE_LENGTH.size) for listening in sockets)
    return sum(_QUEUE_LENGTH.unpack(state)[0] for state in states)
