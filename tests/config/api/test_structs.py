"""Structs as answers: what their fields say is what the OpenAPI document says, and the JSON fits it."""

from __future__ import annotations

from typing import Annotated, Any

import jsonschema_rs
import msgspec
import pytest
from msgspec import UNSET, UnsetType

from config.api import schema
from config.api.structs import Answer, Count, Key, Moment, Share, described, one_of, schema_of, shaped

REFERENCE = "#/components/schemas/TestedVariant"


class TestedVariant(Answer):
    """A variant
    of the test.

    It has a key."""

    __test__ = False

    key: Key


class TestedAnswer(Answer):
    """An answer of the test."""

    __test__ = False

    share: Annotated[Share | None, described("A share.")]
    users_exposed: Annotated[Count, described("Users.")]
    status: Annotated[str, one_of(["running", "draft"])]
    role: Annotated[Annotated[str, one_of(["goal"])] | None, described("Null in a draft.")]
    started_at: Moment | None
    winner: Annotated[TestedVariant | None, described("Null until the end.")]
    conditions: Annotated[list[Any], shaped({"items": {"type": "object"}})]
    value: str | float | bool | None
    title: str
    series: Annotated[list[TestedVariant] | UnsetType, described("Left out unless asked for.")] = UNSET


@pytest.fixture(autouse=True)
def components(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The components of the document, without those of other tests."""
    components: dict[str, Any] = {}
    monkeypatch.setattr(schema, "_components", components)
    return components


def test_struct__as_schema__is_a_closed_component_that_says_what_its_fields_say(components: dict[str, Any]) -> None:
    assert schema_of(TestedAnswer) == {"$ref": "#/components/schemas/TestedAnswer"}
    assert components["TestedVariant"]["description"] == "A variant\nof the test.\n\nIt has a key."
    assert components["TestedAnswer"] == {
        "type": "object",
        "description": "An answer of the test.",
        "properties": {
            "share": {"type": ["number", "null"], "minimum": 0, "maximum": 1, "description": "A share."},
            "usersExposed": {"type": "integer", "minimum": 0, "description": "Users."},
            "status": {"type": "string", "enum": ["running", "draft"]},
            "role": {"type": ["string", "null"], "enum": ["goal", None], "description": "Null in a draft."},
            "startedAt": {"type": ["string", "null"], "format": "date-time"},
            "winner": {"oneOf": [{"$ref": REFERENCE}, {"type": "null"}], "description": "Null until the end."},
            "conditions": {"type": "array", "items": {"type": "object"}},
            "value": {"type": ["string", "number", "boolean", "null"]},
            "title": {"type": "string"},
            "series": {
                "type": "array",
                "items": {"$ref": REFERENCE},
                "description": "Left out unless asked for.",
            },
        },
        "required": [
            *("share", "usersExposed", "status", "role", "startedAt", "winner", "conditions", "value", "title"),
        ],
        "additionalProperties": False,
    }


def test_list_of_structs__as_schema__is_a_list_of_references() -> None:
    assert schema_of(list[TestedVariant]) == {"type": "array", "items": {"$ref": REFERENCE}}


@pytest.mark.parametrize("series", [UNSET, [TestedVariant(key="green")]])
def test_struct__as_json__fits_its_schema(components: dict[str, Any], series: Any) -> None:
    answer = TestedAnswer(
        share=0.5,
        users_exposed=7,
        status="draft",
        role=None,
        started_at="2026-01-31T12:00:00.000000Z",
        winner=TestedVariant(key="green"),
        conditions=[{}],
        value=3,
        title="A title",
        series=series,
    )
    document = msgspec.to_builtins(answer)
    assert ("series" in document) == (series is not UNSET)
    described_as = {**schema_of(TestedAnswer), "components": {"schemas": components}}
    jsonschema_rs.Draft202012Validator(described_as, validate_formats=True).validate(document)
