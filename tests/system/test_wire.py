"""Raw requests: chunked bodies, bodies that are too large, and malformed requests."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.system.server import Server

pytestmark = [pytest.mark.system, pytest.mark.once]

MIB = 1024**2


def send(server: Server, path: str, body: Iterable[bytes]) -> tuple[int, Any]:
    """POST a body piece by piece, in chunks of the wire. A server that has heard enough may close
    while it is sent.
    """
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        headers = {**server.headers(), "Content-Type": "application/json"}
        with suppress(BrokenPipeError, ConnectionResetError):  # its answer has arrived anyway
            connection.request("POST", path, body, headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def speak(server: Server, request: bytes) -> bytes:
    """All that the server answers to these bytes before it closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(request)
        received = bytearray()
        while chunk := connection.recv(2**16):
            received += chunk
        return bytes(received)


def padded(document: bytes, size: int) -> Iterator[bytes]:
    """A document followed by so many bytes of white space in all."""
    yield document
    left = size - len(document)
    while left:
        yield b" " * min(left, 2**16)
        left -= min(left, 2**16)


def test_body__in_chunks__is_read_whole(server: Server) -> None:
    pieces = (b'{"key": "in-', b"chunks", b'", "descr', b'iption": "', "ä".encode()[:1], "ä".encode()[1:], b'"}')
    status, answer = send(server, "/v1/flags", iter(pieces))
    assert status == 201
    assert answer["data"]["key"] == "in-chunks"
    assert answer["data"]["description"] == "ä"


def test_body__in_chunks_of_exactly_5_mib__is_accepted(server: Server) -> None:
    status, answer = send(server, "/v1/flags", padded(b'{"key": "at-the-limit"}', 5 * MIB))
    assert status == 201, answer


@pytest.mark.parametrize("size", [5 * MIB + 1, 6 * MIB, 40 * MIB])
@pytest.mark.parametrize("path", ["/v1/flags", "/v1/events/batch"])
def test_body__in_chunks_of_more_than_5_mib__is_too_large(server: Server, path: str, size: int) -> None:
    status, answer = send(server, path, padded(b'{"key": "too-large"}', size))
    assert status == 413
    assert answer["error"]["code"] == "body_too_large"
    assert server.ask("GET", "/v1/flags/too-large").status_code == 404


@pytest.mark.parametrize("size", [5 * MIB + 1, 6 * MIB, 40 * MIB])
def test_body__sent_whole_before_the_answer_is_read__is_answered_with_413(server: Server, size: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    headers = {**server.headers(), "Content-Type": "application/json"}
    connection.request("POST", "/v1/flags", b" " * size, headers)
    response = connection.getresponse()
    assert (response.status, response.headers["Connection"]) == (413, "close")
    assert json.loads(response.read())["error"]["code"] == "body_too_large"
    connection.close()
    assert httpx.post(f"{server.url}/v1/flags", content=b" " * size, headers=headers).status_code == 413
    assert server.ask("GET", "/v1/flags").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "scope", "status"),
    [
        ("POST", "/v1/segments", "client", 403),
        ("PATCH", "/v1/flags/nowhere", "manage", 404),
        ("PUT", "/v1/flags", "manage", 405),
        ("POST", "/ofrep/v1/evaluate/flags", "client", 400),
    ],
)
def test_body__too_large_and_refused_for_another_reason__is_read_after_the_answer(
    server: Server, method: str, path: str, scope: str, status: int
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    headers = {**server.headers(scope), "Content-Type": "application/json"}
    connection.request(method, path, b" " * (6 * MIB), headers)
    response = connection.getresponse()
    assert (response.status, response.headers["Connection"]) == (status, "close")
    connection.close()


@pytest.mark.parametrize("expectation", ["", "Expect: 100-continue\r\n"], ids=["sends at once", "asks before it sends"])
def test_body__announced_with_more_than_5_mib__is_refused_before_a_byte_of_it_is_sent(
    server: Server, expectation: str
) -> None:
    headers = "".join(f"{name}: {value}\r\n" for name, value in server.headers().items())
    request = (
        "POST /v1/flags HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n"
        f"{headers}{expectation}Content-Length: {5 * MIB + 1}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(request.encode())
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        assert (answer.status, answer.headers["Connection"]) == (413, "close")
        assert json.loads(answer.read())["error"]["code"] == "body_too_large"


@pytest.mark.parametrize(
    "request_line",
    [
        b"GARBAGE",
        b"GET",
        b"GET /v1/flags",
        b"GET /v1/flags HTTP/9.9",
        b"G\0T /v1/flags HTTP/1.1",
        b"GET /v1/flags HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1",
        b"GET /v1/flags HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\nContent-Length: 2",
        b"GET /v1/flags HTTP/1.1\r\nHost: 127.0.0.1\r\nno colon",
    ],
)
def test_request_line__malformed__is_answered_with_400(server: Server, request_line: bytes) -> None:
    assert speak(server, request_line + b"\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert server.ask("GET", "/v1/flags").status_code == 200


@pytest.mark.parametrize(
    ("request_line", "status", "code"),
    [
        (b"GET /v1/%ff%fe HTTP/1.1", b"404", "not_found"),
        (b"GET /v1/flags/%00 HTTP/1.1", b"401", "unauthenticated"),
        (b"BREW /v1/flags HTTP/1.1", b"405", "method_not_allowed"),
        (b"GET http://elsewhere.example/v1/flags HTTP/1.1", b"400", "invalid_parameter"),
    ],
)
def test_request_line__unusual__is_answered_in_the_envelope(
    server: Server, request_line: bytes, status: bytes, code: str
) -> None:
    host = b"" if b"://" in request_line else b"Host: 127.0.0.1\r\n"
    answer = speak(server, request_line + b"\r\n" + host + b"X-Forwarded-Proto: https\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert f'"code":"{code}"'.encode() in answer


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("POST", "/v1/unknown", {}, 404),
        ("PUT", "/v1/flags", {}, 405),
        ("POST", "/v1/evaluate?unknown=1", {}, 400),
        ("POST", "/unknown", {}, 404),
    ],
    ids=["unknown path", "wrong method", "unknown parameter", "beside the API"],
)
@pytest.mark.parametrize("is_chunked", [False, True], ids=["announced", "in chunks"])
def test_connection__of_a_known_caller_whose_request_is_refused__is_kept(
    server: Server, method: str, path: str, headers: dict[str, str], status: int, is_chunked: bool
) -> None:
    body = json.dumps({"userId": "ada", "attributes": {"text": "x" * 1000}}).encode()
    framing = {} if is_chunked else {"Content-Length": str(len(body))}
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.connect()
    first = connection.sock
    try:
        for _ in range(100):
            sent = {**server.headers(), **framing, "Content-Type": "application/json", **headers}
            connection.request(method, path, iter([body[:10], body[10:]]), sent)  # the body after the head
            refused = connection.getresponse()
            assert refused.getheader("Connection") is None
            refused.read()
            connection.request("GET", "/v1/flags?limit=1", headers=server.headers())
            good = connection.getresponse()
            good.read()
            assert (refused.status, good.status) == (status, 200)
            assert connection.sock is first
    finally:
        connection.close()


def test_connection__of_an_unknown_caller_with_a_body__is_said_to_close(server: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        for _ in range(100):
            sent = {**server.headers(), "Content-Length": "1000", "Authorization": "Bearer hyd_m_unknown"}
            with suppress(BrokenPipeError, ConnectionResetError):  # its answer has arrived anyway
                connection.request("POST", "/v1/evaluate", iter([b" " * 10, b" " * 990]), sent)
            refused = connection.getresponse()
            refused.read()
            assert (refused.status, refused.getheader("Connection")) == (401, "close")
            connection.request("GET", "/v1/flags?limit=1", headers=server.headers())
            good = connection.getresponse()
            assert (good.status, bool(good.read())) == (200, True)
    finally:
        connection.close()


def test_connection__of_a_refused_request_with_more_than_5_mib__is_said_to_close(server: Server) -> None:
    head = (
        "POST /v1/flags HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Forwarded-Proto: https\r\n"
        f"Authorization: Bearer unknown\r\nContent-Length: {5 * MIB + 1}\r\n\r\n"
    )
    answer = speak(server, head.encode()).partition(b"\r\n\r\n")[0].lower()
    assert answer.startswith(b"http/1.1 401 ")
    assert b"\r\nconnection: close" in answer


def test_reason__with_bytes_beyond_ascii__is_refused_and_percent_encoded_is_kept(server: Server) -> None:
    assert server.ask("POST", "/v1/flags", json={"key": "with-reason"}).status_code == 201
    path, change = "/v1/flags/with-reason", {"enabled": True}
    refused = server.ask("PATCH", path, json=change, headers={"X-Change-Reason": "Größer".encode()})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_parameter")
    [detail] = refused.json()["error"]["details"]
    assert detail["field"] == "X-Change-Reason"
    assert "percent-encode" in detail["message"]

    assert server.ask("PATCH", path, json=change, headers={"X-Change-Reason": quote("Größer")}).status_code == 200
    assert server.ask("GET", f"{path}/history").json()["data"][0]["reason"] == "Größer"


@pytest.mark.parametrize(
    ("target", "headers", "status"),
    [
        (b"/" + b"x" * 66_000, b"", b"414"),
        (b"/v1/flags", b"X-Long: " + b"x" * 700_000 + b"\r\n", b"431"),
        (b"/v1/flags", b"".join(b"X-%d: y\r\n" % number for number in range(101)), b"431"),
    ],
    ids=["address", "header", "number of headers"],
)
def test_request__with_too_long_a_head__is_refused_by_the_server_without_a_body(
    server: Server, target: bytes, headers: bytes, status: bytes
) -> None:
    answer = speak(server, b"GET " + target + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n" + headers + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert answer.endswith(b"\r\n\r\n")
    assert server.ask("GET", "/v1/flags").status_code == 200
