"""One attempt to send a message, to an address that was checked."""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from urllib.parse import SplitResult

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, Timeout
from urllib3.exceptions import HTTPError

from config.webhooks.addresses import Refused, host_of, port_of, resolve, split

SECONDS = 10
"""How long a receiver may take to accept a connection and to answer."""
GONE = 410


@dataclass(frozen=True, slots=True)
class Outcome:
    """The status of the answer, or why there was none; and the seconds that it took."""

    status: int | None
    problem: str
    seconds: float

    @property
    def is_success(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def send(url: str, body: bytes, headers: Mapping[str, str]) -> Outcome:
    """Send a message. It never raises, and follows no redirects. Answers are not read, only their status."""
    begun = time.monotonic()
    status, problem = None, ""
    try:
        status = _post(split(url), body, headers)
        problem = "" if 200 <= status < 300 else _describe_status(status)
    except Refused as refusal:
        problem = str(refusal)
    except (HTTPError, OSError, ValueError) as error:
        problem = _describe(error)
    return Outcome(status, problem, round(time.monotonic() - begun, 3))


def _post(parts: SplitResult, body: bytes, headers: Mapping[str, str]) -> int:
    """Connect to the address that was checked, so that the name cannot get another one in between."""
    host, timeout = host_of(parts), Timeout(total=SECONDS)
    address, port = resolve(host, port_of(parts)), port_of(parts)
    pool: HTTPConnectionPool
    if parts.scheme == "https":
        pool = HTTPSConnectionPool(address, port, timeout=timeout, ssl_context=_context(), server_hostname=host)
    else:
        pool = HTTPConnectionPool(address, port, timeout=timeout)
    target = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    with pool:
        answer = pool.urlopen(
            "POST",
            target,
            body=body,
            headers={"Host": parts.netloc, "User-Agent": "Halyard", "Content-Type": "application/json", **headers},
            retries=False,
            redirect=False,
            preload_content=False,
        )
        answer.close()
        return answer.status


@cache
def _context() -> ssl.SSLContext:
    """Return what checks certificates, as Python does it. SSL_CERT_FILE names further authorities."""
    return ssl.create_default_context()


def _describe_status(status: int) -> str:
    if 300 <= status < 400:
        return "the receiver redirects, which is not followed"
    return "the receiver is gone" if status == GONE else "the receiver did not accept the message"


def _describe(error: Exception) -> str:
    """Return words without the URL, which may be a secret."""
    name = type(_origin(error)).__name__
    return _PROBLEMS.get(name, f"the receiver cannot be reached ({name})")


def _origin(error: BaseException) -> BaseException:
    """Return the error below the errors that urllib3 makes of it."""
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
