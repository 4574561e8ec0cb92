"""The Content-Security-Policy of pages: no script that is written into a page, and none from other hosts."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from config.serving import worker_process
from tests.admin import sign_in

pytestmark = pytest.mark.django_db


def policy_of(response: Any) -> dict[str, list[str]]:
    parts = (part.split() for part in response.headers["Content-Security-Policy"].split(";"))
    return {name: values for name, *values in parts}


@pytest.mark.parametrize(
    "path", ["/admin/", "/admin/flags/flag/", "/admin/login/", "/docs", "/redoc", "/guide/", "/clients/"]
)
def test_page__any__allows_no_inline_script(path: str) -> None:
    client = sign_in() if path.startswith("/admin/") and "login" not in path else Client()
    response = client.get(path)
    assert response.status_code == 200
    policy = policy_of(response)
    assert "'unsafe-inline'" not in policy["script-src"]
    assert ("'unsafe-eval'" in policy["script-src"]) is path.startswith("/admin/")
    assert policy["frame-ancestors"] == ["'none'"]
    page = response.content.decode()
    assert re.findall(r"<script(?![^>]*\bsrc=)(?![^>]*application/json)[^>]*>", page) == []
    assert re.findall(r"<[^>]+\son[a-z]+=", page) == []
    assert "javascript:" not in page


def test_api__answers__have_no_policy(client: Any) -> None:
    assert "Content-Security-Policy" not in client.get("/v1/flags").headers


@pytest.mark.parametrize(
    ("url", "port", "host", "sources"),
    [
        ("https://streams.example.com/base", 8001, "testserver", ["'self'", "https://streams.example.com"]),
        ("", 8001, "testserver", ["'self'", "http://testserver:8001"]),
        ("", 8001, "localhost:8000", ["'self'", "http://localhost:8001"]),
        ("", None, "testserver", ["'self'"]),
    ],
)
def test_page__with_event_streams__may_connect_to_them(
    settings: Any, monkeypatch: pytest.MonkeyPatch, url: str, port: int | None, host: str, sources: list[str]
) -> None:
    settings.STREAM_URL = url
    monkeypatch.setattr(worker_process, "stream_port", port)
    response = Client().get("/admin/login/", HTTP_HOST=host)
    assert policy_of(response)["connect-src"] == sources
