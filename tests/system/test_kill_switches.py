"""A kill switch of a real server, which reads a body only of callers that it may answer."""

from __future__ import annotations

import httpx
import pytest

from tests.system.server import PROXY_HEADERS, Server

pytestmark = [pytest.mark.system, pytest.mark.once]


def test_hook__called_with_its_token__switches_the_flag_off(server: Server) -> None:
    assert server.ask("POST", "/v1/flags", json={"key": "shop", "enabled": True}).status_code == 201
    token = server.run("manage.py", "create_kill_switch", "shop", "--name", "errors").strip()
    hook_id = server.run("manage.py", "list_kill_switches").splitlines()[1].split()[0]

    def call(secret: str) -> httpx.Response:
        headers = {**PROXY_HEADERS, "Authorization": f"Bearer {secret}"}
        return httpx.post(f"{server.url}/v1/hooks/{hook_id}", headers=headers, json={"reason": "so"}, timeout=30)

    assert call("wrong").status_code == 401
    assert call(server.keys["production"]["manage"]).status_code == 401
    assert server.ask("GET", "/v1/flags/shop").json()["data"]["enabled"] is True
    answer = call(token)
    assert (answer.status_code, answer.json()["data"]["switchedOff"]) == (200, ["shop"])
    assert server.ask("GET", "/v1/flags/shop").json()["data"]["enabled"] is False
