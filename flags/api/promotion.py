"""The body of a promotion as JSON.

How the OpenAPI document describes the promotion of flags.

The operation that promotes flags into the environment of the request."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from config.api.filters import refuse_parameters
from config.api.history import CHANGES
from config.api.permissions import Access
from config.api.schema import KEY, REASON, answer, closed_object, component, errors
from config.api.serializers import ArrayField, KeyField, StrictSerializer, SwitchField
from config.api.views import ApiViewSet
from config.change_log.history import summarize_differences
from config.keys.environments import get_environment
from config.models import Scope
from flags.changes.promotion import promote

MOST_FLAGS = 1000


class PromotionSerializer(StrictSerializer):
    """Which flags become what they are in which other environment."""

    flags = ArrayField(
        child=KeyField(),
        required=False,
        min_length=1,
        max_length=MOST_FLAGS,
        help_text="Their keys; without it, all that are not archived.",
    )
    dryRun = SwitchField(required=False, help_text="Only tell what would change.")

    def get_fields(self) -> dict[str, Any]:
        # The name is a word of Python's own.
        return {"from": KeyField(help_text="The key of the environment that is read."), **super().get_fields()}


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


describe_promotion = extend_schema(
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


@extend_schema(tags=["Flags"])
class PromotionViewSet(ApiViewSet):
    access = {"promote": Access(Scope.MANAGE, "flags.change_flag")}
    serializer_class = PromotionSerializer

    @describe_promotion
    def promote(self, request: Request) -> Response:
        refuse_parameters(request)
        sent = self.validated(request.data)
        source, is_dry_run = get_environment(sent["from"], field="from"), sent.get("dryRun", False)
        written = promote(
            source=source, target=self.environment, keys=sent.get("flags"), is_dry_run=is_dry_run, **self.provenance
        )
        here = self.environment.key
        flags = [{"key": each.key, **summarize_differences(each.before, each.after, here)} for each in written]
        return Response({"from": source.key, "to": here, "dryRun": is_dry_run, "flags": flags})
