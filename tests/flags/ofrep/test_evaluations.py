"""The user of a request: what a context may contain, and which flags it selects."""

from __future__ import annotations

import pytest

from config.errors import DetailCode, DomainError, ErrorCode, ValidationFailed
from flags.ofrep.evaluations import read_filter, read_user


def test_read_user__context_of_any_kind__is_an_id_and_the_rest():
    for body, user_id, attributes in [
        ({}, "", {}),
        ({"context": {}}, "", {}),
        ({"context": {"targetingKey": None}}, "", {}),
        ({"context": {"targetingKey": ""}}, "", {}),
        ({"context": {"targetingKey": "u"}}, "u", {}),
        ({"context": {"targetingKey": "ü" * 200, "plan": "pro"}}, "ü" * 200, {"plan": "pro"}),
        ({"context": {"plan": ["a", {"b": 1}], "userId": "v"}}, "", {"plan": ["a", {"b": 1}], "userId": "v"}),
        ({"context": {"targetingKey": "u", "flags": ["f"]}, "version": 9}, "u", {"flags": ["f"]}),
    ]:
        assert read_user(body) == (user_id, attributes), (body, user_id)


def test_read_user__body_that_is_no_object__is_malformed(subtests):
    for body in [None, [], "x", 1, True]:
        with subtests.test(body=body):
            with pytest.raises(DomainError) as caught:
                read_user(body)
            assert caught.value.code is ErrorCode.MALFORMED_JSON


def test_read_user__context_that_makes_no_sense__is_refused_by_its_field(subtests):
    for context, field, code in [
        (None, "context", DetailCode.INVALID_TYPE),
        ([], "context", DetailCode.INVALID_TYPE),
        ("u", "context", DetailCode.INVALID_TYPE),
        ({"targetingKey": 17}, "context.targetingKey", DetailCode.INVALID_TYPE),
        ({"targetingKey": True}, "context.targetingKey", DetailCode.INVALID_TYPE),
        ({"targetingKey": ["u"]}, "context.targetingKey", DetailCode.INVALID_TYPE),
        ({"targetingKey": "u" * 201}, "context.targetingKey", DetailCode.TOO_LONG),
    ]:
        with subtests.test(context=context, field=field):
            with pytest.raises(ValidationFailed) as caught:
                read_user({"context": context})
            assert [(detail.field, detail.code) for detail in caught.value.details] == [(field, code)]


def test_read_filter__list_of_texts__is_one_and_anything_else_is_an_attribute():
    for attributes, keys in [
        ({"flags": ["b", "a", "b"]}, ["b", "a"]), ({"flags": ["no such flag"]}, ["no such flag"]), ({}, None),
        ({"flags": []}, None), ({"flags": "a"}, None), ({"flags": ["a", 1]}, None), ({"flags": [["a"]]}, None),
        ({"flags": {"a": True}}, None), ({"flags": None}, None),
    ]:  # fmt: skip
        assert read_filter(attributes) == keys, (attributes, keys)
