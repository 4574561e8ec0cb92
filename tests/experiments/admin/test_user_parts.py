"""What a flag serves to a user, in words."""

from __future__ import annotations

import pytest

from experiments.admin.user_parts import describe_answer


def test_answer__with_a_variant__says_its_value_if_that_says_more(subtests: pytest.Subtests) -> None:
    for trace, words in [
        ({}, ""),
        ({"variant": "hidden", "value": "hidden"}, "hidden"),
        ({"variant": "abroad", "value": 9.9}, "abroad: 9.9"),
        ({"variant": "new", "value": "Buy now"}, "new: Buy now"),
        ({"variant": "sun", "value": {"title": "Hello!"}}, "sun"),
        ({"variant": "blue", "value": True}, "blue"),
    ]:
        with subtests.test(trace=trace):
            assert describe_answer(trace) == words
