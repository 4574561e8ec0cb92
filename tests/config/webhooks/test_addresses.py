"""Where webhooks may be sent, so that they cannot call what only this server can reach."""

from __future__ import annotations

import socket
from ipaddress import ip_network
from typing import Any

import pytest

from config.webhooks.addresses import Refused, check_url, resolve

PRIVATE = [
    *("127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1"),
    *("::1", "::", "fe80::1", "fd00::1", "ff02::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::"),
    *("64:ff9b:1::a00:1", "::a00:1", "fec0::1", "5f00::1", "2001:0:a00:1::"),
]
PUBLIC = ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "64:ff9b::5db8:d70e"]


def resolving(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Have every name resolve to these addresses."""

    def getaddrinfo(host: str, port: int, **_: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


def test_resolve__private_address__is_refused(subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch) -> None:
    for address in PRIVATE:
        with subtests.test(address=address):
            resolving(monkeypatch, address)
            with pytest.raises(Refused, match="is a private address"):
                resolve("hooks.example.com", 443)


@pytest.mark.parametrize("address", PUBLIC)
def test_resolve__public_address__is_taken(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    resolving(monkeypatch, address)
    assert resolve("hooks.example.com", 443) == address


def test_resolve__name_with_both__takes_the_public_address(monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(monkeypatch, "10.0.0.1", PUBLIC[0])
    assert resolve("hooks.example.com", 443) == PUBLIC[0]


def test_resolve__network_that_settings_allow__is_taken(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    settings.WEBHOOK_PRIVATE_NETWORKS = [ip_network("10.0.0.0/24")]
    resolving(monkeypatch, "10.0.0.1")
    assert resolve("hooks.internal", 443) == "10.0.0.1"
    resolving(monkeypatch, "10.0.1.1")
    with pytest.raises(Refused):
        resolve("hooks.internal", 443)


def test_check_url__that_cannot_be_used__is_refused_with_the_reason(subtests: pytest.Subtests, settings: Any) -> None:
    settings.WEBHOOK_ALLOW_HTTP = False
    for url, words in [
        ("", "such as https"),
        ("hooks.example.com", "such as https"),
        ("ftp://hooks.example.com", "such as https"),
        ("https://", "such as https"),
        ("https://a b", "such as https"),
        ("https://hooks.example.com:x", "such as https"),
        ("https://hooks.example.com:0", "such as https"),
        ("https://hooks.example.com/\n", "such as https"),
        ("https://[::1", "such as https"),
        ("https://hooks.example.com/ä", "such as https"),
        ("https://hooks.example.com/" + "x" * 2000, "at most 2,000"),
        ("http://hooks.example.com", "WEBHOOK_ALLOW_HTTP"),
        ("https://ada:secret@hooks.example.com", "no user name"),
        ("https://hooks.example.com/#here", "no fragment"),
        ("https://10.0.0.1/", "private address"),
        ("https://[::1]/", "private address"),
    ]:
        with subtests.test(url=url):
            [detail] = check_url(url)
            assert (detail.field, words in detail.message) == ("url", True)


@pytest.mark.parametrize("url", ["https://hooks.example.com", "https://hooks.example.com:8443/a/b?c=d"])
def test_check_url__of_a_public_host__is_accepted(url: str) -> None:
    assert check_url(url) == []


def test_check_url__http__is_accepted_where_settings_allow_it(settings: Any) -> None:
    settings.WEBHOOK_ALLOW_HTTP = True
    assert check_url("http://hooks.example.com") == []
