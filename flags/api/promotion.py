"""The operation that copies flags from one environment to another."""

from __future__ import annotations

from typing import Annotated, Any

from drf_spectacular.utils import extend_schema
from msgspec import field
from rest_framework.request import Request
from rest_framework.response import Response

from config.access.environments import get_environment
from config.api.filters import refuse_parameters
from config.api.history_views import CHANGES
from config.api.permissions import Access
from config.api.schema import KEY, answer, closed_object, component, operation
from config.api.serializers import ArrayField, KeyField, StrictSerializer, SwitchField
from config.api.structs import Answer, Key, described, schema_of, shaped
from config.api.views import ApiViewSet
from config.change_log.entries import summarize_differences
from config.errors import ErrorCode
from config.models import Scope
from flags.changes.promotion import promote

MAX_FLAGS = 1000


class PromotionSerializer(StrictSerializer):
    """The flags to copy, and the environment to copy them from."""

    flags = ArrayField(
        child=KeyField(),
        required=False,
        min_length=1,
        max_length=MAX_FLAGS,
        help_text="The keys of the flags. Without it, all flags that are not archived.",
    )
    dryRun = SwitchField(required=False, help_text="Change nothing, and return what would change. Default: false.")

    def get_fields(self) -> dict[str, Any]:
        # `from` is a keyword of Python.
        return {"from": KeyField(help_text="The key of the environment to copy from."), **super().get_fields()}


_PROMOTED_FLAG = component(
    "PromotedFlag",
    closed_object({"key": {**KEY, "description": "The key of the flag."}, **CHANGES}, optional=["moreChanges"]),
)


class Promotion(Answer):
    """What the promotion changed, or would change."""

    source: Annotated[Key, described("The environment that was copied from.")] = field(name="from")
    target: Annotated[Key, described("The environment that was copied into.")] = field(name="to")
    dry_run: Annotated[bool, described("Whether nothing was changed.")]
    flags: Annotated[
        list[Any], shaped({"items": _PROMOTED_FLAG}), described("The flags that differ, in order of their keys.")
    ]


@extend_schema(tags=["Flags"])
class PromotionViewSet(ApiViewSet):
    access = {"promote": Access(Scope.MANAGE, "flags.change_flag")}
    serializer_class = PromotionSerializer

    @operation(
        "promote_flags",
        "Promote flags",
        description="Copies `enabled` and `rules` of flags from the environment `from` into that of the request. All "
        "other properties of a flag are common to all environments and stay as they are. Either all flags are copied, "
        "or none. Each flag that differs gets an entry in its history.",
        responses={200: answer(schema_of(Promotion), "What changed, or would change.")},
        errors=[ErrorCode.EXPERIMENT_LOCKED],
    )
    def promote(self, request: Request) -> Response:
        refuse_parameters(request)
        sent = self.validated(request.data)
        source, is_dry_run = get_environment(sent["from"], field="from"), sent.get("dryRun", False)
        written = promote(
            source=source, target=self.environment, keys=sent.get("flags"), is_dry_run=is_dry_run, **self.provenance
        )
        target = self.environment.key
        flags = [
            {"key": change.key, **summarize_differences(change.before, change.after, target)} for change in written
        ]
        answer = Promotion(source=source.key, target=target, dry_run=is_dry_run, flags=flags)
        return Response(answer.as_json())
