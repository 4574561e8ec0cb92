"""One attempt to send a message: its signature, the connection to an address that was checked, and the outcome.

Signatures follow the specification of Standard Webhooks (https://www.standardwebhooks.com).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from http.client import HTTPException
from urllib.parse import SplitResult

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError

from config.webhooks.addresses import Refused, host_of, port_of, resolve, split

SECONDS = 10
"""How long a receiver may take to accept a connection and to answer."""
GONE = 410


@dataclass(frozen=True, slots=True)
class Outcome:
    """The status of the answer, or the problem if there was none, and the seconds that the attempt took."""

    status: int | None
    problem: str
    seconds: float

    @property
    def is_success(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def send(url: str, body: bytes, headers: Mapping[str, str]) -> Outcome:
    """Send a message. It never raises, follows no redirects, and reads only the status of the answer."""
    begun = time.monotonic()
    status, problem = None, ""
    try:
        status = _post(split(url), body, headers)
        problem = "" if 200 <= status < 300 else _describe_status(status)
    except Refused as refusal:
        problem = str(refusal)
    except (HTTPError, HTTPException, OSError, ValueError) as error:
        problem = _describe(error)
    return Outcome(status, problem, round(time.monotonic() - begun, 3))


def _post(parts: SplitResult, body: bytes, headers: Mapping[str, str]) -> int:
    """Connect to the address that was checked, because the name may resolve to another one by then."""
    host, port = host_of(parts), port_of(parts)
    begun, address = time.monotonic(), resolve(host, port)
    if parts.scheme == "https":
        connection: HTTPConnection = HTTPSConnection(
            address, port, timeout=SECONDS, ssl_context=_context(), server_hostname=host
        )
    else:
        connection = HTTPConnection(address, port, timeout=SECONDS)
    with closing(connection):
        connection.connect()
        with _cut_off(connection, SECONDS - (time.monotonic() - begun)):
            connection.request(
                "POST",
                f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}",
                body=body,
                headers={"Host": parts.netloc, "User-Agent": "Halyard", "Content-Type": "application/json", **headers},
                preload_content=False,
            )
            return connection.getresponse().status


@contextmanager
def _cut_off(connection: HTTPConnection, seconds: float) -> Iterator[None]:
    """End a request after some seconds. The timeout of a socket starts again with each byte."""
    is_late = threading.Event()

    def cut() -> None:
        is_late.set()
        with suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(max(seconds, 0), cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (HTTPError, HTTPException, OSError):
        if is_late.is_set():
            raise TimeoutError from None  # that the connection ended is not the reason
        raise
    finally:
        timer.cancel()


@cache
def _context() -> ssl.SSLContext:
    """Return Python's default context. SSL_CERT_FILE can name other authorities."""
    return ssl.create_default_context()


def _describe_status(status: int) -> str:
    if 300 <= status < 400:
        return "the receiver redirects, which is not followed"
    return "the receiver is gone" if status == GONE else "the receiver did not accept the message"


def _describe(error: Exception) -> str:
    """Describe an error without the URL, which may be a secret."""
    name = type(_origin(error)).__name__
    return _PROBLEMS.get(name, f"the receiver cannot be reached ({name})")


def _origin(error: BaseException) -> BaseException:
    """Return the error that urllib3 has wrapped."""
    below = error.__cause__ or next((part for part in error.args if isinstance(part, Exception)), None)
    return error if below is None else _origin(below)


_PROBLEMS = {
    "ReadTimeoutError": "the receiver did not answer in time",
    "TimeoutError": "the receiver did not answer in time",
    "gaierror": "the name of the receiver cannot be resolved",
    "ConnectionRefusedError": "the receiver refused the connection",
    "ConnectionResetError": "the receiver closed the connection",
    "RemoteDisconnected": "the receiver closed the connection",
    "SSLCertVerificationError": "the certificate of the receiver is not valid for its name",
}


_PREFIX = "whsec_"
_BYTES_OF_SECRET = 32


def new_secret() -> str:
    return _PREFIX + base64.b64encode(secrets.token_bytes(_BYTES_OF_SECRET)).decode()


def sign(message_id: str, now: datetime, body: bytes, keys: Iterable[str]) -> Mapping[str, str]:
    """Return the headers of a message, with a signature by each of these secrets."""
    timestamp = str(int(now.timestamp()))
    signed = f"{message_id}.{timestamp}.".encode() + body
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(_signature(key, signed) for key in keys),
    }


def _signature(key: str, signed: bytes) -> str:
    secret = base64.b64decode(key.removeprefix(_PREFIX))
    return "v1," + base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()
