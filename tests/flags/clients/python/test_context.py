"""Evaluation contexts, as the client sends and evaluates them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any

import pytest
from halyard_openfeature.context import MAX_LEVELS, read_context
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode, InvalidContextError


def nested(levels: int) -> Any:
    value: Any = "end"
    for _ in range(levels):
        value = {"inner": value}
    return value


CYCLE: dict[str, Any] = {}
CYCLE["self"] = [CYCLE]
NOON = datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=2)))


def test_read__attribute__is_as_json_has_it() -> None:
    for sent, read in [
        ("text", "text"),
        (True, True),
        (7, 7),
        (0.5, 0.5),
        (None, None),
        (NOON, "2026-01-31T10:00:00.000000Z"),
        (NOON.replace(tzinfo=None), "2026-01-31T12:00:00.000000Z"),
        (("a", 1), ["a", 1]),
        (MappingProxyType({"a": (1,)}), {"a": [1]}),
        (ErrorCode.GENERAL, "GENERAL"),
    ]:
        _, attributes = read_context(EvaluationContext("ada", {"sent": sent}))

        assert attributes == {"sent": read}, (sent, read)
        assert type(attributes["sent"]) is type(read), (sent, read)


def test_read__no_context__is_an_anonymous_user() -> None:
    assert read_context(None) == read_context(EvaluationContext()) == ("", {})


def test_read__deepest_context__is_taken() -> None:
    _, attributes = read_context(EvaluationContext("ada", nested(MAX_LEVELS)))

    assert attributes == nested(MAX_LEVELS)


def test_read__what_cannot_be_sent__is_an_invalid_context(subtests: pytest.Subtests) -> None:
    for context in [
        EvaluationContext("ada", nested(MAX_LEVELS + 1)),
        EvaluationContext("ada", nested(100_000)),
        EvaluationContext("ada", CYCLE),
        EvaluationContext("ada", {"nan": float("nan")}),
        EvaluationContext("ada", {"bytes": b"x"}),  # type: ignore[dict-item]
        EvaluationContext("ada", {"object": object()}),  # type: ignore[dict-item]
        EvaluationContext("ada", {"names": {1: "x"}}),  # type: ignore[dict-item]
        EvaluationContext("ada", {("a",): 1}),  # type: ignore[dict-item]
        EvaluationContext("a" * 201),
        EvaluationContext("\ud800"),
        EvaluationContext("a\0b"),
        EvaluationContext(7),  # type: ignore[arg-type]
        EvaluationContext(0),  # type: ignore[arg-type]
    ]:
        with subtests.test(context=context):
            with pytest.raises(InvalidContextError) as caught:
                read_context(context)
            assert caught.value.error_message
