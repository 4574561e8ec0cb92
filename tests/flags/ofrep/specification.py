"""The published specification of the protocol, as a check of answers."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import yaml

from tests.flags.ofrep.calls import BULK

_FILE = Path(__file__).with_name("specification.yaml")


@cache
def _specification() -> dict[str, Any]:
    document: dict[str, Any] = _amended(yaml.safe_load(_FILE.read_text()))
    return document


def _amended(part: Any) -> Any:
    """Correct the published schema, by which no ordinary answer is valid: `oneOf` matches twice."""
    if isinstance(part, dict):
        return {"anyOf" if name == "oneOf" else name: _amended(inner) for name, inner in part.items()}
    return [_amended(inner) for inner in part] if isinstance(part, list) else part


def check(response: Any, *, of_a_flag: bool) -> None:
    """Fail unless the specification knows every field of an answer."""
    document = _specification()
    operation = document["paths"][f"{BULK}/{{key}}" if of_a_flag else BULK]["post"]
    described = operation["responses"][str(response.status_code)]
    assert set(described.get("headers", ())) <= set(response.headers)
    if "content" in described:
        schema = described["content"]["application/json"]["schema"]
        jsonschema_rs.Draft202012Validator({**schema, "components": document["components"]}).validate(response.json())
