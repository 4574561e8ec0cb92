"""Makes lists of the theme smaller and faster: less HTML and work for each row."""

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
    """Compute the headers once a list. The theme does so for every row, which takes a fifth of the time of a page."""
    unfold_list.result_headers = _headers_of


def shorten_cells() -> None:
    """Leave out thirty classes of each cell, which are half of a page of 50 rows. `admin.css` styles the cells."""
    unfold_list.ROW_CLASSES[:] = []
    unfold_list.CHECKBOX_CLASSES[:] = ["action-checkbox"]
    unfold_list.LINK_CLASSES[:] = ["hy-name"]
