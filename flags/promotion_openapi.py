"""How the OpenAPI document describes the promotion of flags."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiExample, extend_schema

from config.api.history import CHANGES
from config.api.schema import KEY, REASON, answer, closed_object, component, errors
from flags.promotion_serializers import PromotionSerializer

_FLAG = component("PromotedFlag", closed_object({"key": KEY, **CHANGES}, optional=["moreChanges"]))
_PROMOTION = component(
    "Promotion",
    closed_object(
        {
            "from": KEY,
            "to": KEY,
            "dryRun": {"type": "boolean"},
            "flags": {"type": "array", "items": _FLAG, "description": "Those that differ, ordered by key."},
        },
        "What became different, or would.",
    ),
)
_EXAMPLE = {
    "from": "staging",
    "to": "production",
    "dryRun": False,
    "flags": [{"key": "new-checkout", "changes": [{"field": "enabled", "before": False, "after": True}]}],
}


promote = extend_schema(
    operation_id="promote_flags",
    summary="Promote flags",
    description="Gives flags, in the environment of the request, the `enabled` and `rules` that they have in the "
    "environment `from`. All else of a flag is common to all environments, and stays. All of it happens, or none: "
    "with one entry of the history for each flag that differs.",
    parameters=[REASON],
    request=PromotionSerializer,
    responses={200: answer(_PROMOTION, "What differs now, or would.", _EXAMPLE), **errors(has_body=True)},
    examples=[
        OpenApiExample("Two flags", value={"from": "staging", "flags": ["a", "b"]}, request_only=True),
        OpenApiExample("What all would do", value={"from": "staging", "dryRun": True}, request_only=True),
    ],
)
