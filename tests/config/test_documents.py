"""Comparing JSON documents."""

import json
from copy import deepcopy

import pytest

from config.documents import StoredJSONDecoder, is_identical, is_same


def test_is_same__different_json__is_false() -> None:
    for one, other in [(1, True), ("1", 1), ([1], [True]), ({"a": None}, {}), (0, False), ([1], [1, 2]), ([], {})]:
        assert not is_same(one, other), (one, other)


def test_is_same__order_of_names__does_not_matter() -> None:
    assert is_same({"a": [1, {"b": 2, "c": 3}]}, {"a": [1, {"c": 3, "b": 2}]})


@pytest.mark.parametrize(("one", "other"), [(1, 1.0), (0.0, 0), ([1e19], [10**19]), ({"a": [25.0]}, {"a": [25]})])
def test_is_same__number_written_differently__is_true(one: object, other: object) -> None:
    assert is_same(one, other)


@pytest.mark.parametrize(
    ("stored", "value"),
    [("18446744073709551615", 2**64 - 1), ("-9223372036854775808", -(2**63)), ("1" + "0" * 300, 1e300), ("7", 7)],
)
def test_stored_json__integers__are_what_an_answer_can_carry(stored: str, value: float) -> None:
    read = json.loads(f"[{stored}]", cls=StoredJSONDecoder)

    assert read == [value]
    assert type(read[0]) is type(value)


def test_is_identical__number_of_another_type__is_false() -> None:
    for one, other in [(1, 1.0), (0.0, 0), ({"a": [25.0]}, {"a": [25]}), (1, True), ([], {})]:
        assert not is_identical(one, other), (one, other)


def test_is_identical__same_value__is_true() -> None:
    for value in [1, 1.0, True, None, "a", {"a": [25.0, {"b": None}]}]:
        assert is_identical(value, deepcopy(value)), value


def test_is_identical__order_of_names__does_not_matter() -> None:
    assert is_identical({"a": 1, "b": 2.0}, {"b": 2.0, "a": 1})
