"""The properties of an event in one line."""

from __future__ import annotations

from events.admin.descriptions import describe_properties


def test_properties__in_one_line__are_the_first_and_cut() -> None:
    for properties, words in [
        ({}, ""),
        ({"revenue": 19.99, "currency": "EUR", "paid": True}, "revenue 19.99 · currency EUR · paid true"),
        ({"experimentId": "e", "variant": "blue", "tags": ["ä"]}, 'tags ["ä"]'),
        ({str(at): at for at in range(7)}, "0 0 · 1 1 · 2 2 · 3 3 and 3 more"),
        ({"note": "x" * 200}, f"note {'x' * 39}…"),
    ]:
        assert describe_properties(properties) == words, properties
