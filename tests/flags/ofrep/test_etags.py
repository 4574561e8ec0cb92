"""Entity tags: equal for equal parts, and how `If-None-Match` uses them."""

from __future__ import annotations

import re
from datetime import timedelta

from flags.ofrep.client_state import etag, matches
from tests.conftest import NOON

SECRET = "nobody's"
CURRENT = '"0a1b"'


def test_etag__any__is_strong_and_quoted():
    assert re.fullmatch(r'"[0-9a-f]{32}"', etag(SECRET, "production", 42, {"a": [1, None]}, NOON))


def test_etag__objects_in_another_order__is_the_same():
    assert etag(SECRET, {"a": 1, "b": {"x": 1, "y": 2}}) == etag(SECRET, {"b": {"y": 2, "x": 1}, "a": 1})


def test_etag__who_does_not_know_the_secret__cannot_make_it_from_guesses():
    assert etag("mine", "production", 42, NOON) != etag(SECRET, "production", 42, NOON)


def test_etag__anything_else__makes_another():
    parts = [
        *[("production", 42), ("production", 43), ("staging", 42), ("production", "42"), ("production42",)],
        *[(None,), (False,), (0,), ("",), ([],), ({},), ()],
        *[(NOON,), (NOON + timedelta(microseconds=1),), ({"a": ["b", "c"]},), ({"a": ["c", "b"]},)],
        *[(2**64 - 1,), (2**64 - 2,), (0.1,), (0.1 + 2**-55,)],
    ]
    assert len({etag(SECRET, *part) for part in parts}) == len(parts)


def test_matches__header_that_names_it__does():
    for header in ['"0a1b"', 'W/"0a1b"', '"x", "0a1b"', '"x",W/"0a1b" , "y"', "*", ' "0a1b" ', "0a1b", '"x", *']:
        assert matches(header, CURRENT), header


def test_matches__any_other_header__does_not():
    for header in [None, "", '""', '"x"', '"0a1"', '"0a1b0"', '"0A1B"', "w", ",", '"*0a1b"', "W/"]:
        assert not matches(header, CURRENT), header
