"""Requesting results over HTTP. Each answer is checked against the schema, and each null must have a reason."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NoReturn

from tests.answers import data, error
from tests.config.api.test_schema import validator
from tests.openapi import document

PATH = "/v1/experiments/shop/results"


def ask(client: Any, path: str = PATH, **parameters: str) -> Any:
    """Return the data of the answer, after checking its schema and the reasons of nulls."""
    response = client.get(path, parameters)
    answer = data(response)
    operation = document()["paths"][path.replace(path.split("/")[3], "{experiment_key}")]["get"]
    validator(operation["responses"]["200"]["content"]["application/json"]["schema"]).validate(response.json())
    json.loads(response.content, parse_constant=refuse_constant)
    for estimate in estimates_of(answer):
        figures = [estimate[name] for name in estimate if name not in ("reason", "standardError")]
        assert (estimate["reason"] is None) == all(figure is not None for figure in figures)
        assert estimate["reason"] is None or estimate["standardError"] is None
    for test in tests_of(answer):
        assert (test["reason"] is None) == (test["lower"] is not None and test["upper"] is not None)
    return answer


def refuse_constant(name: str) -> NoReturn:
    raise AssertionError(f"{name} in an answer")


def estimates_of(value: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects of an answer that are estimates, at any depth."""
    return (part for part in objects_of(value) if "standardError" in part)


def tests_of(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the results of all tests, at any depth."""
    return (part for part in objects_of(value) if {"lower", "upper", "pValue"} <= part.keys())


def objects_of(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for part in value.values():
            yield from objects_of(part)
    elif isinstance(value, list):
        for part in value:
            yield from objects_of(part)


def refused(response: Any, field: str, code: str) -> str:
    [detail] = error(response, 400, "invalid_parameter")["details"]
    assert (detail["field"], detail["code"]) == (field, code)
    return detail["message"]
