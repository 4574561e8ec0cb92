"""A service below a path, whether the proxy removes that path from requests or leaves it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.system.server import Server

pytestmark = [pytest.mark.system, pytest.mark.once]


def test_prefix__set__is_in_every_address_and_need_not_be_in_requests(start_server: Callable[..., Server]) -> None:
    server = start_server(SCRIPT_NAME="/tools/flags")
    made = server.ask("POST", "/tools/flags/v1/flags", json={"key": "known", "enabled": True})
    assert made.status_code == 201
    assert made.headers["Location"].endswith("/tools/flags/v1/flags/known")
    for prefix in ("/tools/flags", ""):
        answer = server.ask("POST", f"{prefix}/v1/flags/known/evaluate", json={"userId": "ada"})
        assert (answer.status_code, answer.json()["data"]["enabled"]) == (200, True)
        assert server.ask("GET", f"{prefix}/livez").status_code == 200
        page = server.ask("GET", f"{prefix}/admin/login/", headers={"Authorization": ""})
        assert page.status_code == 200
        addresses = re.findall(r"""(?:href|src|action)="(/[^"]*)""", page.text)
        assert addresses
        assert [address for address in addresses if not address.startswith("/tools/flags/")] == []
        styles = [address for address in addresses if address.endswith(".css")]
        assert {server.ask("GET", address).status_code for address in styles} == {200}
        assert "Path=/tools/flags" in page.headers["Set-Cookie"]
    overview = server.ask("GET", "/tools/flags/admin/")
    assert overview.headers["Location"].startswith("/tools/flags/admin/login/")
    assert server.ask("GET", "/tools/flagship/v1/flags").status_code == 404
    for path in ("/tools/flags", "/tools/flags/"):
        start = server.ask("GET", path, headers={"Authorization": ""})
        assert (start.status_code, start.headers["Location"]) == (302, "/tools/flags/admin/")
