"""Timestamps in rules and attributes are parsed as those of requests, by another function."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from config import timestamps
from flags.engine.timestamps import parse_timestamp

# Texts that are close to timestamps: most of their fields are right.
_DATES = st.sampled_from(["2026-01-31", "2024-02-29", "2026-02-30", "0001-01-01", "9999-12-31", "20260131"])
_FIELDS = st.sampled_from(["00", "01", "12", "23", "24", "30", "31", "59", "60", "61", "7"])
_FRACTIONS = st.sampled_from(["", ".5", ",25"])
_OFFSETS = st.sampled_from(["", "Z", "z", "+02", "-0530", "+14:00", "-01:00", "+24:00", "+2", " 02:00"])
_TIMES = st.builds("{}{}:{}:{}{}{}".format, st.sampled_from("Tt _"), _FIELDS, _FIELDS, _FIELDS, _FRACTIONS, _OFFSETS)
_TEXTS = st.builds("{}{}".format, _DATES, _TIMES) | st.builds(" {} ".format, _DATES) | st.text(max_size=30)


def _read(parse: Callable[[str], datetime], text: str) -> datetime | None:
    try:
        return parse(text)
    except ValueError:
        return None


@given(_TEXTS)
@example("2016-12-31T23:59:60Z")
@example("2026-01-31t12:00:00,123456789-0530")
def test_parse__any_text__is_what_a_request_would_mean(text: str) -> None:
    assert _read(parse_timestamp, text) == _read(timestamps.parse_timestamp, text)


@pytest.mark.parametrize("text", ["2026-01-31", "2026-01-31T12:00:00+02"])
def test_parse__timestamp__is_understood(text: str) -> None:
    assert _read(parse_timestamp, text) is not None
