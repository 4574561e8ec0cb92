"""One attempt, made to a real receiver."""

from __future__ import annotations

import base64
import socket
import ssl
import subprocess
import threading
from contextlib import suppress
from datetime import UTC, datetime
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from config.webhooks import sending
from config.webhooks.sending import new_secret, send, sign
from tests.config.webhooks.receiver import receiving


@pytest.fixture(autouse=True)
def _this_machine(settings: Any) -> None:
    settings.WEBHOOK_ALLOW_HTTP = True
    settings.WEBHOOK_PRIVATE_NETWORKS = [ip_network("127.0.0.0/8")]


def test_send__receiver_that_accepts__gets_exactly_the_message() -> None:
    with receiving(204) as receiver:
        outcome = send(receiver.url, b'{"a": 1}', {"webhook-id": "msg_1"})
        received = receiver.get()
    assert (outcome.is_success, outcome.status, outcome.problem) == (True, 204, "")
    assert (received.path, received.body) == ("/hook?a=b", b'{"a": 1}')
    assert received.headers["Host"] == receiver.url.split("/")[2]
    assert received.headers["Content-Type"] == "application/json"
    assert received.headers["webhook-id"] == "msg_1"


@pytest.mark.parametrize(("status", "words"), [(500, "did not accept"), (404, "did not accept"), (410, "is gone")])
def test_send__receiver_that_refuses__is_no_success(status: int, words: str) -> None:
    with receiving(status) as receiver:
        outcome = send(receiver.url, b"{}", {})
    assert (outcome.is_success, outcome.status) == (False, status)
    assert words in outcome.problem


def test_send__redirect__is_not_followed() -> None:
    with receiving(204) as target, receiving(307, location=target.url) as receiver:
        outcome = send(receiver.url, b"{}", {})
        assert target.received.empty()
    assert (outcome.is_success, outcome.status) == (False, 307)
    assert "redirects" in outcome.problem


def test_send__private_address__is_refused_without_a_connection(settings: Any) -> None:
    with receiving(204) as receiver:
        settings.WEBHOOK_PRIVATE_NETWORKS = []
        outcome = send(receiver.url, b"{}", {})
        assert receiver.received.empty()
    assert (outcome.is_success, outcome.status) == (False, None)
    assert "private address" in outcome.problem


def test_send__name__is_resolved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    resolve_really = socket.getaddrinfo

    def getaddrinfo(host: str, *arguments: Any, **options: Any) -> Any:
        asked.append(host)
        return resolve_really("127.0.0.1", *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with receiving(204) as receiver:
        outcome = send(receiver.url.replace("127.0.0.1", "hooks.example.com"), b"{}", {})
        received = receiver.get()
    assert outcome.is_success
    assert received.headers["Host"].startswith("hooks.example.com:")
    assert asked.count("hooks.example.com") == 1


def test_send__nobody_listens__says_so_without_the_url() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        outcome = send(f"http://127.0.0.1:{closed.getsockname()[1]}/secret", b"{}", {})
    assert (outcome.status, outcome.problem) == (None, "the receiver refused the connection")


def test_send__receiver_that_never_answers__is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        outcome = send(f"http://127.0.0.1:{silent.getsockname()[1]}/", b"{}", {})
    assert outcome.status is None
    assert "did not answer" in outcome.problem


def test_send__receiver_that_answers_byte_by_byte__is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "SECONDS", 1)
    has_ended = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            while not has_ended.wait(0.2):
                connection.sendall(b"H")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=drip, args=(listener,), daemon=True).start()
        outcome = send(f"http://127.0.0.1:{listener.getsockname()[1]}/", b"{}", {})
    has_ended.set()
    assert (outcome.status, outcome.problem) == (None, "the receiver did not answer in time")
    assert outcome.seconds < 5


def test_send__receiver_that_speaks_no_http__is_no_success() -> None:
    def answer(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"220 mail\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answer, args=(listener,), daemon=True).start()
        outcome = send(f"http://127.0.0.1:{listener.getsockname()[1]}/", b"{}", {})
    assert (outcome.status, outcome.problem.partition(" (")[0]) == (None, "the receiver cannot be reached")


def test_send__name_that_does_not_exist__says_so() -> None:
    assert "cannot be resolved" in send("http://nowhere.invalid/", b"{}", {}).problem


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for hooks.example.com, signed by itself, with its key."""
    file = tmp_path_factory.mktemp("certificate") / "both.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=hooks"]
    command += ["-addext", "subjectAltName=DNS:hooks.example.com", "-keyout", f"{file}.key", "-out", f"{file}.crt"]
    subprocess.run(command, check=True, capture_output=True)
    file.write_text(Path(f"{file}.key").read_text() + Path(f"{file}.crt").read_text())
    return file


@pytest.mark.parametrize(("name", "is_success"), [("hooks.example.com", True), ("other.example.com", False)])
def test_send__https__checks_the_certificate_for_the_name(
    monkeypatch: pytest.MonkeyPatch, certificate: Path, name: str, is_success: bool
) -> None:
    resolve_really = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda _, *rest, **options: resolve_really("127.0.0.1", *rest, **options)
    )
    monkeypatch.setattr(sending, "_context", lambda: ssl.create_default_context(cafile=str(certificate)))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with receiving(204, context=context) as receiver:
        outcome = send(f"https://{name}:{receiver.server.server_port}/", b"{}", {})
    assert outcome.is_success is is_success
    assert is_success or "certificate" in outcome.problem


# From the documentation of Standard Webhooks' reference libraries.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
AT = datetime.fromtimestamp(1614265330, tz=UTC)
BODY = b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_sign__example_of_the_specification__has_its_signature() -> None:
    headers = sign("msg_p5jXN8AQM9LWM0D4loKWxJek", AT, BODY, [SECRET])
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": SIGNATURE,
    }


def test_sign__with_two_secrets__has_a_signature_by_each() -> None:
    first, second = SECRET, new_secret()
    both = sign("msg_p5jXN8AQM9LWM0D4loKWxJek", AT, BODY, [second, first])["webhook-signature"].split(" ")
    assert both[1] == SIGNATURE
    assert both[0] == sign("msg_p5jXN8AQM9LWM0D4loKWxJek", AT, BODY, [second])["webhook-signature"]


def test_new_secret__each__has_32_random_bytes() -> None:
    secrets = {new_secret() for _ in range(100)}
    assert len(secrets) == 100
    assert {len(base64.b64decode(secret.removeprefix("whsec_"))) for secret in secrets} == {32}
