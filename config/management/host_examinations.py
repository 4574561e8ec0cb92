"""What the doctor examines without the database: settings, the disk, and whether the proxy passes on what is needed."""

from __future__ import annotations

import shutil
import ssl
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import ERROR, WARNING, run_checks
from django.db import connection

from config.management.examinations import Finding, Options, error, ok, warning

_LITTLE, _TOO_LITTLE = 2**30, 2**27
"""Free bytes, below which an operator should act soon, or now."""
_OTHERS = 0o077


def examine_settings(_: Options) -> Iterator[Finding]:
    """Run the system checks of Django and of the service, with those for deployment unless DEBUG is on."""
    messages = [
        message
        for message in run_checks(include_deployment_checks=not settings.DEBUG)
        if message.level >= WARNING and not message.is_silenced()
    ]
    for message in messages:
        find = error if message.level >= ERROR else warning
        yield find(
            message.msg, message.hint or "Change it in .env or in the environment; the guide lists all settings."
        )
    if settings.DEBUG:
        remedy = "Remove DEBUG from .env before others can reach this machine."
        yield warning("DEBUG is on: insecure settings are accepted, and error pages show details.", remedy)
    if not messages:
        yield ok("All settings are acceptable.")


def examine_disk(_: Options) -> Iterator[Finding]:
    """Check the free space of the folders that the service writes to, and that others cannot read them."""
    folders = {"RUNTIME_DIR": settings.RUNTIME_DIR}
    if connection.vendor == "sqlite" and not connection.is_in_memory_db():  # type: ignore[attr-defined]  # of SQLite
        folders["the folder of the database"] = Path(connection.settings_dict["NAME"]).parent
    for name, folder in folders.items():
        yield _examine_space(name, folder)
    if settings.RUNTIME_DIR.stat().st_mode & _OTHERS:
        remedy = f"Run `chmod 700 {settings.RUNTIME_DIR}`."
        yield warning("Other users of this machine can look into RUNTIME_DIR.", remedy)


def _examine_space(name: str, folder: Path) -> Finding:
    try:
        free = shutil.disk_usage(folder).free
    except OSError as problem:
        return error(f"{name} ({folder}) cannot be examined: {problem.strerror}.", "Make this folder, or name another.")
    words = f"{name} ({folder}) has {free / 2**30:,.1f} GiB free."
    if free < _TOO_LITTLE:
        return error(words, "Make room now: a full disk stops all writes.")
    return ok(words) if free >= _LITTLE else warning(words, "Make room soon, or use a larger disk.")


_SECONDS = 10
_MAX_BYTES = 10_000
_PATH_OF_STREAMS = "/ofrep/v1/streams/doctor"
"""A stream that this address asks for is refused, because it has no token."""
_REDIRECTS = range(300, 400)


class _Answer(NamedTuple):
    status: int
    location: str
    body: bytes


def examine_proxy(options: Options) -> Iterator[Finding]:
    """Check that the proxy passes on what the service needs. Requests are sent only with `--url`."""
    if not settings.DEBUG and not getattr(settings, "SECURE_PROXY_SSL_HEADER", None):
        yield error(
            "SECURE_PROXY_SSL_HEADER is not set, so every request is redirected to HTTPS for ever.",
            "Set it to X-Forwarded-Proto, and have the proxy set that header in every request.",
        )
    if options.url is None:
        yield ok("Not asked through it; `--url https://...` does that.")
    else:
        yield from _ask_through(options.url)


def _ask_through(url: str) -> Iterator[Finding]:
    probe = _ask(url, "/livez")
    if isinstance(probe, str):
        yield error(
            f"{url} does not answer: {probe}.", "Check that the proxy and `serve` run, and the name of the host."
        )
        return
    if probe.status != HTTPStatus.OK or b'"live"' not in probe.body:
        yield error(f"{url}/livez answers {probe.status}.", "Have the proxy pass all paths on to the port of `serve`.")
        return
    page = _ask(url, "/admin/login/")
    if not isinstance(page, str) and page.status in _REDIRECTS:
        yield error(
            f"{url}/admin/login/ redirects to {page.location}: the service takes the request for one over HTTP.",
            f"Have the proxy set {_name_of_header()} to https.",
        )
    elif not isinstance(page, str) and page.status == HTTPStatus.BAD_REQUEST:
        yield error(
            f"{url}/admin/login/ answers 400: the service refuses this name of the host.",
            "Have the proxy pass `Host` on, and add its name to ALLOWED_HOSTS.",
        )
    elif isinstance(page, str) or page.status != HTTPStatus.OK:
        problem = page if isinstance(page, str) else page.status
        yield error(f"{url}/admin/login/ answers {problem}.", "Look into the log of `serve`.")
    else:
        yield ok(f"{url} answers, over HTTPS as it sees it.")
        yield from _forge(url)


def _forge(url: str) -> Iterator[Finding]:
    """Send forged headers about the connection. The proxy must not pass them on, whatever their spelling."""
    name = _name_of_header()
    if _believes(url, {name: "http"}):
        yield error(
            f"The proxy passes a client's own {name} on.", f"Have it set {name} itself, whatever the client sent."
        )
    # WSGI does not tell the two spellings apart, and which of them counts depends on the order of all headers. granian
    # changes that order if there is a body.
    other = name.replace("-", "_")
    if other != name and any(_believes(url, {**more, other: "http"}) for more in ({}, {"Content-Type": "text/plain"})):
        yield error(
            f"The proxy passes {other} on, which counts as {name}.",
            "Have it drop the headers of clients whose names contain underscores.",
        )


def _believes(url: str, headers: Mapping[str, str]) -> bool:
    answer = _ask(url, "/admin/login/", headers)
    return not isinstance(answer, str) and answer.status in _REDIRECTS


def examine_streams(_: Options) -> Iterator[Finding]:
    """Check that clients can read event streams at STREAM_URL."""
    if not settings.STREAM_URL:
        if not settings.DEBUG:
            yield warning(
                "STREAM_URL is not set, so clients behind HTTPS learn of changes only when they ask.",
                "Pass /ofrep/v1/streams/ on to the port of the streams, and set STREAM_URL to that address.",
            )
        return
    answer = _ask(settings.STREAM_URL, _PATH_OF_STREAMS)
    if not isinstance(answer, str) and answer.status == HTTPStatus.UNAUTHORIZED:
        yield ok(f"{settings.STREAM_URL} answers.")
        return
    problem = answer if isinstance(answer, str) else f"it answers {answer.status}"
    yield error(
        f"No stream can be read at {settings.STREAM_URL}: {problem}.",
        "Check that `serve` runs, and have the proxy pass /ofrep/v1/streams/ on to its port of the streams.",
    )


def _name_of_header() -> str:
    name, _ = getattr(settings, "SECURE_PROXY_SSL_HEADER", None) or ("HTTP_X_FORWARDED_PROTO", "https")
    return name.removeprefix("HTTP_").replace("_", "-").title()


def _ask(url: str, path: str, headers: Mapping[str, str] | None = None) -> _Answer | str:
    """Return the answer to a GET, or why it failed. Redirects are not followed."""
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            return "it must be an address such as https://flags.example.com"
        if parts.scheme == "https":
            connection: HTTPConnection = HTTPSConnection(
                parts.hostname, parts.port, timeout=_SECONDS, context=ssl.create_default_context()
            )
        else:
            connection = HTTPConnection(parts.hostname, parts.port, timeout=_SECONDS)
        try:
            connection.request("GET", parts.path.rstrip("/") + path, headers=dict(headers or {}))
            response = connection.getresponse()
            return _Answer(response.status, response.getheader("Location", ""), response.read(_MAX_BYTES))
        finally:
            connection.close()
    except (OSError, HTTPException, ValueError) as problem:
        return str(problem) or type(problem).__name__
