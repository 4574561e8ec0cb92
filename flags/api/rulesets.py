"""Rulesets: all that somebody needs who evaluates flags without asking the service, as JSON.

Written once for each configuration that this process holds, and not before somebody asks.


How the OpenAPI document describes the ruleset.

The operation that hands out rulesets, for evaluation in the caller's own process."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Mapping
from dataclasses import dataclass

import orjson
from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.request import Request

from config.api.conditional import is_known, takes_gzip
from config.api.edge import KEPT_BUT_ASKED, VARIES_BY
from config.api.filters import refuse_parameters
from config.api.permissions import Access
from config.api.schema import KEY, NAME, Schema, answer, closed_object, component, errors, header
from config.api.views import ApiViewSet
from config.documents import Document
from config.models import Scope
from flags import snapshot
from flags.api.flag_serializers import PREREQUISITES, VARIANTS
from flags.api.rule_schema import CONDITIONS, RULES
from flags.engine.types import Configuration, Flag, Segment, ValueType

# What is for people, or was checked when it was written, decides nothing.
_LEFT_OUT = ("schema", "archivedAt")
_SPEED_OVER_SIZE = 6


@dataclass(frozen=True, slots=True)
class Ruleset:
    """The JSON of a configuration, as it is and as gzip, and the revision that it stands at."""

    configuration: Configuration
    etag: str
    plain: bytes
    zipped: bytes


_written: dict[str, Ruleset] = {}
_lock = threading.Lock()


def ruleset(environment_key: str) -> Ruleset:
    """The ruleset of an environment as this process knows it."""
    configuration = snapshot.configuration(environment_key)
    known = _written.get(environment_key)
    if known is None or known.configuration is not configuration:
        with _lock:  # many ask at the same moment, right after a change
            known = _written.get(environment_key)
            if known is None or known.configuration is not configuration:
                known = _written[environment_key] = _write(environment_key, configuration)
    return known


def document(environment_key: str, configuration: Configuration) -> Document:
    """The configuration of an environment by the names of the API: flags as they stand there, and all segments."""
    return {
        "environment": environment_key,
        "revision": configuration.revision,
        "flags": [_flag(configuration.flags[key]) for key in sorted(configuration.flags)],
        "segments": [_segment(configuration.segments[key]) for key in sorted(configuration.segments)],
    }


def _write(environment_key: str, configuration: Configuration) -> Ruleset:
    plain = orjson.dumps({"data": document(environment_key, configuration)})
    etag = f'"{environment_key}-{configuration.revision}"'
    return Ruleset(configuration, etag, plain, gzip.compress(plain, _SPEED_OVER_SIZE, mtime=0))


def _flag(flag: Flag) -> Mapping[str, object]:
    own = {name: value for name, value in flag.source.items() if name not in _LEFT_OUT}
    archived = {"archived": True} if "archivedAt" in flag.source else {}
    return {**own, "enabled": flag.enabled, **archived}


def _segment(segment: Segment) -> Mapping[str, object]:
    return {name: segment.source[name] for name in ("key", "conditions", "userIds") if name in segment.source}


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
        header("Vary", "`Accept-Encoding`, and what names the caller and the environment.", on=[200, 304]),
    ],
    responses={
        200: answer(RULESET, "The ruleset.", _EXAMPLE),
        304: OpenApiResponse(description="It is still the version that `If-None-Match` names."),
        **errors(),
    },
)


@extend_schema(tags=["Flags"])
class RulesetViewSet(ApiViewSet):
    access = {"retrieve": Access(Scope.SERVER, "flags.view_flag")}

    @retrieve
    def retrieve(self, request: Request) -> HttpResponse:
        refuse_parameters(request)
        self.refuse_body(request)
        found = ruleset(self.environment.key)
        # One tag, a weak one, for the same ruleset in both of its codings.
        headers = {"ETag": f"W/{found.etag}", "Vary": f"Accept-Encoding, {VARIES_BY}", "Cache-Control": KEPT_BUT_ASKED}
        if is_known(request.META, found.etag):
            return HttpResponse(status=304, headers=headers)
        if takes_gzip(request.META):
            headers["Content-Encoding"] = "gzip"
            return HttpResponse(found.zipped, content_type="application/json", headers=headers)
        return HttpResponse(found.plain, content_type="application/json", headers=headers)
