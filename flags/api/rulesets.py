"""The operation that returns rulesets, for evaluators inside the caller's process.

This process encodes the ruleset of a configuration once, when it is first requested.
"""

from __future__ import annotations

import gzip
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import orjson
from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from msgspec import UNSET, UnsetType
from rest_framework.request import Request

from config.api.edge import KEPT_BUT_ASKED, VARIES_BY
from config.api.headers import is_known, takes_gzip
from config.api.parameters import header
from config.api.permissions import Access
from config.api.schema import answer, operation
from config.api.structs import Answer, Count, Key, Name, described, one_of, schema_of, shaped
from config.api.views import ApiViewSet
from config.documents import Document
from config.models import Scope
from flags import snapshot
from flags.api.flag_serializers import DEFAULT_HELP, OFF_HELP, PREREQUISITES, VARIANTS
from flags.api.rule_schema import CONDITIONS, RULES
from flags.engine.types import Configuration, Flag, Segment, ValueType

# Evaluators need neither: the schema was checked when the flag was written, and `archived` replaces the time.
_LEFT_OUT = ("schema", "archivedAt")
_SPEED_OVER_SIZE = 6


@dataclass(frozen=True, slots=True)
class WrittenRuleset:
    """The JSON of a configuration, plain and as gzip, with its entity tag."""

    configuration: Configuration
    etag: str
    plain: bytes
    zipped: bytes


_written: dict[str, WrittenRuleset] = {}
_lock = threading.Lock()


def ruleset(environment_key: str) -> WrittenRuleset:
    """Return the ruleset of an environment as this process knows it."""
    configuration = snapshot.configuration(environment_key)
    written = _written.get(environment_key)
    if written is None or written.configuration is not configuration:
        with _lock:  # after a change, many requests arrive at the same moment
            written = _written.get(environment_key)
            if written is None or written.configuration is not configuration:
                written = _written[environment_key] = _write(environment_key, configuration)
    return written


def ruleset_as_json(environment_key: str, configuration: Configuration) -> Document:
    """Return the ruleset of a configuration as decoded JSON, in the shape of `Ruleset`."""
    return {
        "environment": environment_key,
        "revision": configuration.revision,
        "flags": [_flag(configuration.flags[key]) for key in sorted(configuration.flags)],
        "segments": [_segment(configuration.segments[key]) for key in sorted(configuration.segments)],
    }


def _write(environment_key: str, configuration: Configuration) -> WrittenRuleset:
    plain = orjson.dumps({"data": ruleset_as_json(environment_key, configuration)})
    etag = f'"{environment_key}-{configuration.revision}"'
    return WrittenRuleset(configuration, etag, plain, gzip.compress(plain, _SPEED_OVER_SIZE, mtime=0))


def _flag(flag: Flag) -> Mapping[str, object]:
    properties = {name: value for name, value in flag.source.items() if name not in _LEFT_OUT}
    archived = {"archived": True} if "archivedAt" in flag.source else {}
    return {**properties, "enabled": flag.enabled, **archived}


def _segment(segment: Segment) -> Mapping[str, object]:
    return {name: segment.source[name] for name in ("key", "conditions", "userIds") if name in segment.source}


class RulesetFlag(Answer, kw_only=True):
    """A flag in one environment, with everything that its evaluation depends on."""

    key: Annotated[Key, described("The key of the flag.")]
    enabled: Annotated[bool, described("Whether the flag is on in this environment. An archived flag is not.")]
    rules: Annotated[list[Any], shaped(RULES), described("The rules, in order.")]
    type: Annotated[str | UnsetType, one_of(ValueType), described("The type of its values, if any.")] = UNSET
    variants: Annotated[list[Any] | UnsetType, shaped(VARIANTS)] = UNSET
    default_variant: Annotated[Key | UnsetType, described(DEFAULT_HELP)] = UNSET
    off_variant: Annotated[Key | UnsetType, described(OFF_HELP)] = UNSET
    prerequisites: Annotated[list[Any] | UnsetType, shaped(PREREQUISITES)] = UNSET
    version: Annotated[Count, described("The revision of the newest change of this flag in this environment.")]
    archived: Annotated[
        bool | UnsetType,
        shaped({"not": {"const": False}}),  # `enum` and `const` of a boolean break the client of openapi-generator
        described("True for an archived flag, left out for all others."),
    ] = UNSET
    client_visible: Annotated[
        bool | UnsetType,
        shaped({"not": {"const": True}}),
        described("False for a flag whose value must not reach pages and apps, left out for all others."),
    ] = UNSET


class RulesetSegment(Answer):
    """A segment with its members."""

    key: Annotated[Key, described("The key of the segment.")]
    conditions: Annotated[list[Any], shaped(CONDITIONS), described("Users who meet all of them are members.")]
    user_ids: Annotated[list[Name], described("The ids of further members.")]


class Ruleset(Answer):
    """Everything that evaluations in one environment depend on: flags and segments, in order of
    their keys.
    """

    environment: Annotated[Key, described("The key of the environment.")]
    revision: Annotated[
        Count, described("The revision of the newest change to these flags and segments, or 0 if there was none.")
    ]
    flags: Annotated[list[RulesetFlag], described("The flags.")]
    segments: Annotated[list[RulesetSegment], described("The segments.")]


_EXAMPLE = {
    "environment": "production",
    "revision": 51,
    "flags": [
        {
            "key": "button-colour",
            "enabled": True,
            "version": 51,
            "rules": [{"type": "segment", "segment": "beta-testers", "variant": "green"}],
            "type": "string",
            "variants": [{"key": "blue", "value": "#00f"}, {"key": "green", "value": "#0f0"}],
            "defaultVariant": "blue",
            "offVariant": "blue",
        }
    ],
    "segments": [{"key": "beta-testers", "conditions": [], "userIds": ["user-17"]}],
}


@extend_schema(tags=["Flags"])
class RulesetViewSet(ApiViewSet):
    access = {"retrieve": Access(Scope.SERVER, "flags.view_flag")}
    answers_from_memory = ("retrieve",)
    never_waits = ("retrieve",)

    @operation(
        "get_ruleset",
        "Get the ruleset",
        description="Returns everything that an evaluator needs to evaluate flags itself, without a "
        "request for each user: the flags with their rules in this environment, and the segments with "
        "their members. Send the `ETag` back as `If-None-Match`, and the answer is 304 as long as "
        "nothing changes. Callers that accept gzip get it. The guide says how to evaluate a ruleset.",
        parameters=[
            OpenApiParameter(
                "If-None-Match",
                str,
                OpenApiParameter.HEADER,
                description="The `ETag` of the ruleset that the caller has.",
            ),
            header("ETag", "The version of the ruleset, for `If-None-Match`.", on=[200, 304]),
            header(
                "Vary", "`Accept-Encoding`, and the headers that name the caller and the environment.", on=[200, 304]
            ),
        ],
        responses={
            200: answer(schema_of(Ruleset), "The ruleset.", _EXAMPLE),
            304: OpenApiResponse(description="The version that `If-None-Match` names is still current."),
        },
    )
    def retrieve(self, request: Request) -> HttpResponse:
        self.refuse_input(request)
        written = ruleset(self.environment.key)
        # A weak tag, because both encodings have the same ruleset.
        headers = {
            "ETag": f"W/{written.etag}",
            "Vary": f"Accept-Encoding, {VARIES_BY}",
            "Cache-Control": KEPT_BUT_ASKED,
        }
        if is_known(request.META, written.etag):
            return HttpResponse(status=304, headers=headers)
        if takes_gzip(request.META):
            headers["Content-Encoding"] = "gzip"
            return HttpResponse(written.zipped, content_type="application/json", headers=headers)
        return HttpResponse(written.plain, content_type="application/json", headers=headers)
