"""The headers of lists, made once a list: the theme makes them again for every row, which takes a fifth of the page."""

from __future__ import annotations

from typing import Any

from unfold.templatetags import unfold_list

_make_headers = unfold_list.result_headers


def _headers_of(page: Any) -> list[dict[str, Any]]:
    if "_headers" not in vars(page):
        page._headers = list(_make_headers(page))
    headers: list[dict[str, Any]] = page._headers
    return headers


def make_headers_once() -> None:
    """Replace the theme's function, which its code finds by the name in its module."""
    unfold_list.result_headers = _headers_of
