"""Attributes of an exposure: plain, short and few; whatever else was sent is left out."""

from __future__ import annotations

import math
from typing import Any

import pytest

from experiments.exposures.attributes import attributes_in, storable_attributes
from flags.engine.conditions import compile_reader
from flags.engine.types import Configuration, Context
from tests.conftest import NOON


def nested(names: str) -> dict[str, Any]:
    value: Any = 1
    for name in reversed(names):
        value = {name: value}
    return dict(value)


PLAIN: dict[str, Any] = {"plan": "pro", "age": 41, "score": -0.5, "isMember": True, "isNew": False, "zero": 0, "": ""}


def test_kept_of__plain_values__keeps_them_with_their_types() -> None:
    kept = storable_attributes({**PLAIN, "city": ""})

    assert kept == {name: value for name, value in PLAIN.items() if name} | {"city": ""}
    assert [type(value) for value in kept.values()] == [str, int, float, bool, bool, int, str]


def test_kept_of__anything_else__leaves_it_out(subtests: pytest.Subtests) -> None:
    for value in [None, [], ["a"], {}, {"a": [1]}, math.nan, math.inf, -math.inf, "x" * 201, "é" * 201]:
        with subtests.test(value=value):
            assert storable_attributes({"one": 1, "other": value, "two": 2}) == {"one": 1, "two": 2}


def test_kept_of__bounds__are_in(subtests: pytest.Subtests) -> None:
    for attributes, is_kept in [
        ({"a": "x" * 200}, True),
        ({"a": "🙂" * 200}, True),
        ({"n" * 100: 1}, True),
        ({"🙂" * 100: 1}, True),
        ({"a": 2**64 - 1}, True),
        ({"a": -(2**63)}, True),
        ({"n" * 101: 1}, False),
        ({"": 1}, False),
    ]:
        with subtests.test(attributes=attributes):
            assert storable_attributes(attributes) == (attributes if is_kept else None)


def test_kept_of__more_than_32__keeps_the_first_of_those_that_can_be_kept() -> None:
    sent: dict[str, Any] = {}
    for at in range(40):
        sent |= {f"list-{at}": [], f"name-{at:02}": at}
    kept = storable_attributes(sent)

    assert kept is not None
    assert list(kept) == [f"name-{at:02}" for at in range(32)]


def test_kept_of__objects__keeps_what_conditions_find_in_them() -> None:
    sent = {"company": {"plan": "pro", "size": {"staff": 9}, "tags": ["x"]}, "age": 41}
    assert list((storable_attributes(sent) or {}).items()) == [
        ("age", 41),
        ("company.plan", "pro"),
        ("company.size.staff", 9),
    ]


def test_kept_of__attribute_within_an_object__has_the_value_that_a_condition_reads(subtests: pytest.Subtests) -> None:
    for sent, expected in [
        ({"a": {"b": 1}, "a.b": 2}, {"a.b": 2}),
        ({"a": {"b": 1}, "a.b": None}, None),
        ({"a": {"b": {"c": 1}, "b.c": 2}}, {"a.b.c": 2}),
        ({"a.b": {"c": 1}}, None),
        ({"a": {"": 1}}, {"a.": 1}),
        (nested("abcdefgh"), {"a.b.c.d.e.f.g.h": 1}),
        (nested("abcdefghi"), None),
        ({"a": {"n" * 98: 1}}, {f"a.{'n' * 98}": 1}),
        ({"a": {"n" * 99: 1}}, None),
    ]:
        with subtests.test(sent=sent):
            assert storable_attributes(sent) == expected
            for name, value in (expected or {}).items():
                assert compile_reader(name)(Context("u", sent, Configuration({}, {}), NOON)) == value


def test_kept_of__nothing_that_can_be_kept__is_none() -> None:
    assert storable_attributes({}) is None
    assert storable_attributes({"a": None, "b": [1]}) is None


def test_attributes_in__reserved_properties__are_left_out() -> None:
    reserved = {"revenue": 9.5, "currency": "EUR", "experimentId": "e", "variant": "a"}

    assert attributes_in({**reserved, "plan": "pro", "items": [1]}) == {"plan": "pro", "items": [1]}
