"""The OpenAPI document of the service, which several tests read. To make it takes a while."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema_rs
from drf_spectacular.generators import SchemaGenerator


@cache
def document() -> dict[str, Any]:
    """Return the document as readers of its JSON have it."""
    return json.loads(json.dumps(SchemaGenerator().get_schema(request=None, public=True)))


def schemas() -> dict[str, Any]:
    return document()["components"]["schemas"]


def validator(schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
    """Return what checks values against a schema of the document. To compile one takes some milliseconds."""
    return _compile(json.dumps(schema))


@cache
def _compile(schema: str) -> jsonschema_rs.Draft202012Validator:
    complete = {**json.loads(schema), "components": document()["components"]}
    return jsonschema_rs.Draft202012Validator(complete, validate_formats=True)
