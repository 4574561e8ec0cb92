"""The operation that previews how many recent users a change of a flag affects."""

from __future__ import annotations

from typing import Annotated

from drf_spectacular.utils import OpenApiExample, extend_schema
from msgspec import UNSET, Meta, UnsetType
from rest_framework.request import Request
from rest_framework.response import Response

from config.api.filters import refuse_parameters
from config.api.permissions import Access
from config.api.schema import answer, operation
from config.api.serializers import RawField, StrictSerializer, SwitchField
from config.api.structs import Answer, Count, Key, Moment, Name, Share, described, one_of, schema_of
from config.api.views import ApiViewSet
from config.errors import Detail, DetailCode, ErrorCode, ValidationFailed
from config.models import Scope
from config.timestamps import format_timestamp
from flags.api.rule_schema import RULES
from flags.engine.types import Evaluation
from flags.usage.comparison import MAX_EXAMPLES, Example, Preview
from flags.usage.previews import NoSample, preview_flag
from flags.usage.sample import MAX_USERS, PERIOD

_OK = "ok"
_STATUSES = {_OK: "The sample has users.", **{status.value: status.meaning for status in NoSample}}
_HALF = {"rules": [{"type": "percentage", "percentage": 50}]}
_Users = Annotated[int, Meta(ge=1)]


class SeenByUser(Answer):
    """What a user sees in the flag."""

    enabled: Annotated[bool, described("Whether the flag is on for the user.")]
    variant: Annotated[Key | UnsetType, described("The variant served. Left out for a flag without variants.")] = UNSET


class ChangedUser(Answer):
    """A recent user who would see something else."""

    user_id: Annotated[Name, described("The id of the user.")]
    before: Annotated[SeenByUser, described("What the user sees now.")]
    after: Annotated[SeenByUser, described("What the user would see after the change.")]


class FlagPreview(Answer):
    """How many recent users would see something else in the flag. All but `status` need a sample with users."""

    status: Annotated[
        str, one_of(_STATUSES), described(" ".join(f"`{status}`: {text}" for status, text in _STATUSES.items()))
    ]
    since: Annotated[Moment | UnsetType, described("The users of the sample were seen since then.")] = UNSET
    users: Annotated[_Users | UnsetType, described("The number of users in the sample.")] = UNSET
    changed: Annotated[Count | UnsetType, described("How many of them would see something else.")] = UNSET
    share: Annotated[Share | UnsetType, described("`changed` as a share of `users`, from 0 to 1.")] = UNSET
    all_users: Annotated[
        _Users | UnsetType,
        described("The number of all users seen since then. It is an estimate, unless the sample has all of them."),
    ] = UNSET
    examples: Annotated[
        list[ChangedUser] | UnsetType, described(f"Up to {MAX_EXAMPLES} users who would see something else.")
    ] = UNSET
    unknown_attributes: Annotated[
        list[Name] | UnsetType,
        described(
            "Attributes that the flag would read and that no user of the sample has. The sample begins to keep an "
            "attribute when a rule, a segment or an experiment reads it."
        ),
    ] = UNSET


class PreviewRequestSerializer(StrictSerializer):
    """The change to preview: `enabled`, `rules`, or both."""

    enabled = SwitchField(required=False)
    rules = RawField(RULES, required=False)


@extend_schema(tags=["Flags"])
class PreviewViewSet(ApiViewSet):
    access = {"preview": Access(Scope.SERVER, "flags.view_flag")}
    lookup_url_kwarg = "flag_key"

    @operation(
        "preview_flag",
        "Preview a change of a flag",
        description="Returns how many recent users would see something else in the flag if you updated it so: another "
        "variant, another value, or on instead of off. Nothing is written, but what an update would refuse is refused. "
        f"The users are a uniform sample of at most {MAX_USERS:,} of those for whom flags were evaluated, or who got a "
        f"variant, in the last {PERIOD.days} days in the environment of the request. Users in a running experiment "
        "keep their variant. Flags that require this one are not compared.",
        request=PreviewRequestSerializer,
        responses={200: answer(schema_of(FlagPreview), "The preview.")},
        errors=[ErrorCode.EXPERIMENT_LOCKED],
        examples=[OpenApiExample("Half of the users", value=_HALF, request_only=True)],
    )
    def preview(self, request: Request, flag_key: str) -> Response:
        refuse_parameters(request)
        changes = self.validated(request.data, PreviewRequestSerializer)
        if not changes:
            raise ValidationFailed([Detail("rules", DetailCode.REQUIRED, "Send rules, enabled, or both.")])
        preview = preview_flag(key=flag_key, environment=self.environment, changes=changes, now=self.now)
        return Response(_answer(preview).as_json())


def _answer(preview: Preview | NoSample) -> FlagPreview:
    if isinstance(preview, NoSample):
        return FlagPreview(status=preview.value)
    return FlagPreview(
        status=_OK,
        since=format_timestamp(preview.since),
        users=preview.users,
        changed=preview.changed,
        share=preview.share,
        all_users=preview.all_users,
        examples=[_example(example) for example in preview.examples],
        unknown_attributes=list(preview.unknown_attributes),
    )


def _example(example: Example) -> ChangedUser:
    return ChangedUser(user_id=example.user_id, before=_seen(example.before), after=_seen(example.after))


def _seen(evaluation: Evaluation | None) -> SeenByUser:
    if evaluation is None:  # the flag was created a moment ago
        return SeenByUser(enabled=False)
    return SeenByUser(enabled=evaluation.enabled, variant=evaluation.variant or UNSET)
