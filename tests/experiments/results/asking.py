"""Asking for results over HTTP: every answer is what the schema says, and whatever is null has its reason."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NoReturn

from tests.answers import data, error
from tests.config.api.test_schema import DOCUMENT, validator

PATH = "/v1/experiments/shop/results"


def ask(client: Any, path: str = PATH, **parameters: str) -> Any:
    """The answer, which is what the schema says, and in which every null has its reason."""
    response = client.get(path, parameters)
    found = data(response)
    operation = DOCUMENT["paths"][path.replace(path.split("/")[3], "{experiment_key}")]["get"]
    validator(operation["responses"]["200"]["content"]["application/json"]["schema"]).validate(response.json())
    json.loads(response.content, parse_constant=refuse_constant)
    for estimate in estimates_of(found):
        assert (estimate["reason"] is None) == all(estimate[name] is not None for name in estimate if name != "reason")
    return found


def refuse_constant(name: str) -> NoReturn:
    raise AssertionError(f"{name} in an answer")


def estimates_of(found: Any) -> Iterator[dict[str, Any]]:
    """All objects of the answer that are estimates, wherever they stand."""
    if isinstance(found, dict):
        if "standardError" in found:
            yield found
        for value in found.values():
            yield from estimates_of(value)
    elif isinstance(found, list):
        for value in found:
            yield from estimates_of(value)


def refused(response: Any, field: str, code: str) -> str:
    [detail] = error(response, 400, "invalid_parameter")["details"]
    assert (detail["field"], detail["code"]) == (field, code)
    return detail["message"]
