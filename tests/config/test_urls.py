"""The pages outside the API and the admin."""

from __future__ import annotations

import re

import pytest
from django.contrib.staticfiles import finders


@pytest.mark.parametrize("page", ["/docs", "/redoc"])
def test_documentation__any__loads_only_files_that_are_shipped(client, page):
    html = client.get(page).content.decode()
    loaded = re.findall(r"""<(?:script|link|img)\b[^>]*?(?:src|href)="([^"]*)""", html)
    assert loaded
    for address in loaded:
        assert address.startswith("/static/"), address
        assert finders.find(address.removeprefix("/static/")), address
    assert "/v1/schema" in html
