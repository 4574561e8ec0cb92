"""The operation /v1/schema: the OpenAPI document, which is the same for the life of a release."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from typing import NamedTuple

import orjson
from django.http import HttpResponse
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiYamlRenderer
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.views import APIView

from config.api.filters import refuse_parameters
from config.api.headers import is_known, takes_gzip
from config.api.renderers import preferred

YAML, JSON = "application/vnd.oai.openapi", "application/vnd.oai.openapi+json"


_yaml = OpenApiYamlRenderer()


class _Written(NamedTuple):
    """The document in one form. It is kept compressed, because requests for it are rare."""

    etag: str
    zipped: bytes


class SchemaView(APIView):
    """Return the document as YAML, or as JSON if the caller prefers that. It needs no key."""

    authentication_classes = ()
    permission_classes = (AllowAny,)
    http_method_names = ["get", "head"]

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponse:
        refuse_parameters(request)
        form = preferred(request._request, (YAML, JSON, "application/yaml")) or _json_if_named(request)
        written = _write(form == JSON)
        # One weak tag for the document, compressed or not.
        headers = {
            "ETag": f"W/{written.etag}",
            "Cache-Control": "no-cache",
            "Vary": "Accept, Accept-Encoding",
            "Content-Disposition": f'inline; filename="halyard.{"json" if form == JSON else "yaml"}"',
        }
        if is_known(request.META, written.etag):
            return _not_modified(headers)
        kind = JSON if form == JSON else YAML
        if not takes_gzip(request.META):
            return HttpResponse(gzip.decompress(written.zipped), content_type=kind, headers=headers)
        return HttpResponse(written.zipped, content_type=kind, headers={**headers, "Content-Encoding": "gzip"})


def _not_modified(headers: Mapping[str, str]) -> HttpResponse:
    response = HttpResponse(status=304, headers=headers)
    del response["Content-Type"]  # without a body, Django's default would claim HTML
    return response


def _json_if_named(request: Request) -> str:
    """`*/*` accepts any form."""
    return JSON if "application/json" in request.META.get("HTTP_ACCEPT", "") else YAML


@cache
def _write(is_json: bool) -> _Written:
    document = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]  # untyped
    text = orjson.dumps(document) if is_json else _yaml.render(document)  # type: ignore[no-untyped-call]
    return _Written(f'"{sha256(text).hexdigest()[:32]}"', gzip.compress(text, mtime=0))
