"""The pages outside the API and the admin."""

from __future__ import annotations

import re

import pytest
from django.contrib.staticfiles import finders

SCRIPT = "/docs?script="
"""The script of a page, which the page's policy would not run within it."""


@pytest.mark.parametrize("page", ["/docs", "/redoc"])
def test_documentation__any__loads_only_files_that_are_shipped(client, page):
    html = client.get(page).content.decode()
    loaded = re.findall(r"""<(?:script|link|img)\b[^>]*?(?:src|href)="([^"]*)""", html)
    assert loaded
    if SCRIPT in loaded:
        loaded.remove(SCRIPT)
        html += client.get(SCRIPT).content.decode()
    for address in loaded:
        assert address.startswith("/static/"), address
        assert finders.find(address.removeprefix("/static/")), address
    assert "/v1/schema" in html


def test_schema__unchanged__is_not_modified_and_has_no_type(client):
    etag = client.get("/v1/schema")["ETag"]
    unchanged = client.get("/v1/schema", HTTP_IF_NONE_MATCH=etag)
    assert unchanged.status_code == 304
    assert unchanged["ETag"] == etag
    assert "Content-Type" not in unchanged


def test_admin__without_the_slash__leads_there(client):
    assert client.get("/admin").url == "/admin/"
