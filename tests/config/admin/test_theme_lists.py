"""The headers of lists: they are made once, however many rows there are."""

from __future__ import annotations

from typing import Any

import pytest

from config.admin import theme_lists
from tests.admin import sign_in
from tests.factories import FlagFactory

pytestmark = pytest.mark.django_db


def test_list__several_rows__makes_its_headers_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("a", "b", "c"):
        FlagFactory(key=key)
    calls = []

    def make(page: Any) -> Any:
        calls.append(page)
        return make_headers(page)

    make_headers = theme_lists._make_headers
    monkeypatch.setattr(theme_lists, "_make_headers", make)
    response = sign_in().get("/admin/flags/flag/")
    assert calls == [response.context["cl"]]
    assert response.content.decode().count('data-label="Updated"') == 3
