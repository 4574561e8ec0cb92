"""How the OpenAPI document describes the ruleset."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema

from config.api.schema import KEY, NAME, Schema, answer, closed_object, component, errors, header
from flags.engine.types import ValueType
from flags.rule_schema import CONDITIONS, RULES
from flags.serializers import PREREQUISITES, VARIANTS

_FLAG = component(
    "RulesetFlag",
    closed_object(
        {
            "key": KEY,
            "enabled": {"type": "boolean", "description": "Whether it is on here; an archived flag is not."},
            "rules": RULES,
            "type": {"type": "string", "enum": [each.value for each in ValueType]},
            "variants": VARIANTS,
            "defaultVariant": KEY,
            "offVariant": KEY,
            "prerequisites": PREREQUISITES,
            "archived": {"type": "boolean", "enum": [True]},
        },
        optional=("type", "variants", "defaultVariant", "offVariant", "prerequisites", "archived"),
    ),
)
_SEGMENT = component(
    "RulesetSegment",
    closed_object({"key": KEY, "conditions": CONDITIONS, "userIds": {"type": "array", "items": NAME}}),
)
RULESET: Schema = component(
    "Ruleset",
    closed_object(
        {
            "environment": KEY,
            "revision": {
                "type": "integer",
                "minimum": 0,
                "description": "Of the newest change of anything in it; 0 where there never was one.",
            },
            "flags": {"type": "array", "items": _FLAG},
            "segments": {"type": "array", "items": _SEGMENT},
        },
        "All that decides what flags are, in one environment: flags and segments, ordered by key.",
    ),
)
_EXAMPLE = {
    "environment": "production",
    "revision": 51,
    "flags": [
        {
            "key": "button-colour",
            "enabled": True,
            "rules": [{"type": "segment", "segment": "beta-testers", "variant": "green"}],
            "type": "string",
            "variants": [{"key": "blue", "value": "#00f"}, {"key": "green", "value": "#0f0"}],
            "defaultVariant": "blue",
            "offVariant": "blue",
        }
    ],
    "segments": [{"key": "beta-testers", "conditions": [], "userIds": ["user-17"]}],
}

retrieve = extend_schema(
    operation_id="get_ruleset",
    summary="Get the ruleset",
    description="All that an evaluator needs to decide by itself, without asking for every user: flags with their "
    "rules as they stand in this environment, and segments with their members. Ask again with the `ETag` as "
    "`If-None-Match`, and 304 says that nothing has changed. It comes as gzip to those who accept it. The "
    "guide's page on local evaluation says how to evaluate it.",
    parameters=[
        OpenApiParameter("If-None-Match", str, OpenApiParameter.HEADER, description="The `ETag` that was read."),
        header("ETag", "The version of the ruleset, for `If-None-Match`.", on=[200, 304]),
        header("Cache-Control", "`no-cache`: keep it, and ask whether it is still good.", on=[200, 304]),
        header("Vary", "`Accept-Encoding, X-Environment`.", on=[200, 304]),
    ],
    responses={
        200: answer(RULESET, "The ruleset.", _EXAMPLE),
        304: OpenApiResponse(description="It is still the version that `If-None-Match` names."),
        **errors(),
    },
)
