"""The properties of an event in one line."""

from __future__ import annotations

from typing import Any

import pytest

from events.admin.properties import describe_properties


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({}, ""),
        ({"revenue": 19.99, "currency": "EUR", "paid": True}, "revenue 19.99 · currency EUR · paid true"),
        ({"experimentId": "e", "variant": "blue", "tags": ["ä"]}, 'tags ["ä"]'),
        ({str(at): at for at in range(7)}, "0 0 · 1 1 · 2 2 · 3 3 and 3 more"),
        ({"note": "x" * 200}, f"note {'x' * 39}…"),
    ],
)
def test_properties__in_one_line__are_the_first_and_cut(properties: dict[str, Any], words: str) -> None:
    assert describe_properties(properties) == words
