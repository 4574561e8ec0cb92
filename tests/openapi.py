"""The OpenAPI document of the service, which several tests read. To make it takes a while."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from drf_spectacular.generators import SchemaGenerator


@cache
def document() -> dict[str, Any]:
    """Return the document as readers of its JSON have it."""
    return json.loads(json.dumps(SchemaGenerator().get_schema(request=None, public=True)))


def schemas() -> dict[str, Any]:
    return document()["components"]["schemas"]
