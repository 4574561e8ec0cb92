"""The examples for nginx and Caddy pass on what the service needs, to the ports that it has."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import crossplane
import pytest
from django.conf import settings

from flags.ofrep import stream_application
from tests.system.server import ROOT

NGINX, CADDY = ROOT / "config/deploy/nginx.conf", ROOT / "config/deploy/Caddyfile"
API, STREAMS = "127.0.0.1:8000", "127.0.0.1:8001"
PATH = "/ofrep/v1/streams/"
pytestmark = pytest.mark.once


def directives(block: list[dict[str, Any]], *path: str) -> Iterator[list[str] | list[dict[str, Any]]]:
    """Yield what the directives of a name have: their arguments, or what is in their block."""
    for directive in block:
        if directive["directive"] == path[0]:
            if len(path) > 1:
                yield from directives(directive["block"], *path[1:])
            else:
                yield directive["args"]


def nginx() -> list[dict[str, Any]]:
    parsed = crossplane.parse(str(NGINX), check_ctx=False)
    assert parsed["errors"] == []
    return parsed["config"][0]["parsed"]


def server() -> list[dict[str, Any]]:
    """Return the block of the server that ends TLS."""
    [block] = [
        directive["block"]
        for directive in nginx()
        if directive["directive"] == "server" and list(directives(directive["block"], "ssl_certificate"))
    ]
    return block


def location(path: str) -> list[dict[str, Any]]:
    [block] = [entry["block"] for entry in server() if entry["directive"] == "location" and entry["args"] == [path]]
    return block


def test_nginx__headers__replace_those_of_the_client() -> None:
    headers = dict(directives(server(), "proxy_set_header"))
    assert headers == {
        "Connection": "",
        "Host": "$host",
        "X-Forwarded-For": "$remote_addr",
        "X-Forwarded-Proto": "$scheme",
    }
    for path in ("/", PATH):  # headers of a location would replace all of these
        assert not list(directives(location(path), "proxy_set_header"))


def test_nginx__addresses__are_the_ports_of_the_service() -> None:
    assert list(directives(nginx(), "upstream", "server")) == [[API]]
    assert list(directives(location("/"), "proxy_pass")) == [["http://halyard"]]
    assert list(directives(location(PATH), "proxy_pass")) == [[f"http://{STREAMS}"]]


def test_nginx__event_streams__are_neither_buffered_nor_logged() -> None:
    block = location(PATH)
    assert list(directives(block, "proxy_buffering")) == [["off"]]
    assert list(directives(block, "access_log")) == [["off"]]


def test_path__of_event_streams__is_that_of_the_service() -> None:
    assert stream_application._path.fullmatch(f"{PATH}production")


def test_bodies__limits_of_the_proxies__are_above_that_of_the_service() -> None:
    [[nginx_limit]] = directives(server(), "client_max_body_size")
    [caddy_limit] = re.findall(r"max_size (\d+)MB", CADDY.read_text())
    assert int(nginx_limit.removesuffix("m")) * 1024**2 > settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    assert int(caddy_limit) * 1000**2 > settings.DATA_UPLOAD_MAX_MEMORY_SIZE


def test_nginx__patience__is_longer_than_that_of_the_service() -> None:
    [[seconds]] = directives(location("/"), "proxy_read_timeout")
    assert int(seconds.removesuffix("s")) > settings.DATABASE_LONG_TIMEOUT


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder for sockets, whose paths have at most 107 characters."""
    with tempfile.TemporaryDirectory(prefix="nginx-") as folder:
        yield Path(folder)


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
def test_nginx__itself__accepts_the_file(tmp_path: Path, short_folder: Path) -> None:
    certificate, key = tmp_path / "fullchain.pem", tmp_path / "privkey.pem"
    form = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=flags.example.com"]
    subprocess.run([*form, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    example = NGINX.read_text().replace("/etc/letsencrypt/live/flags.example.com", str(tmp_path))
    # It also tries to listen: not where another server may do so, or root alone.
    sockets = count()
    example = re.sub(r"\blisten [^ ;]+", lambda _: f"listen unix:{short_folder}/{next(sockets)}", example)
    (tmp_path / "halyard.conf").write_text(example)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    folders = " ".join(f"{kind}_temp_path {tmp_path}/{kind};" for kind in kinds)
    whole = f"pid {tmp_path}/pid;\nevents {{}}\nhttp {{ access_log off; {folders} include {tmp_path}/halyard.conf; }}\n"
    (tmp_path / "nginx.conf").write_text(whole)
    done = subprocess.run(
        ["nginx", "-t", "-e", "stderr", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_caddy__event_streams__are_neither_buffered_nor_logged() -> None:
    text = CADDY.read_text()
    assert re.search(rf"reverse_proxy {PATH}\* {STREAMS} {{\n\t\tflush_interval -1\n", text)
    assert f"\tskip_log {PATH}*\n" in text  # `log_skip` needs Caddy 2.8, and Debian 12 has 2.6
    assert f"\treverse_proxy {API}\n" in text


def test_caddy__headers_with_underscores__are_dropped_before_they_are_passed_on() -> None:
    lines = [line.strip() for line in CADDY.read_text().splitlines()]
    assert lines.count("request_header -*_*") == 1  # in the block of the site, so for each of its addresses


def test_nginx__headers_with_underscores__are_dropped_as_by_default() -> None:
    assert not list(directives(server(), "underscores_in_headers"))


@pytest.mark.skipif(shutil.which("caddy") is None, reason="Caddy is not installed")
def test_caddy__itself__accepts_the_file(tmp_path: Path) -> None:
    done = subprocess.run(
        ["caddy", "validate", "--adapter", "caddyfile", "--config", str(CADDY)],
        env={**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
