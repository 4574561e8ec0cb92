"""The operation that hands out rulesets, for evaluation in the caller's own process."""

from __future__ import annotations

import re

from django.http import HttpResponse
from django.utils.http import parse_etags
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from config.api.filters import refuse_parameters
from config.api.permissions import Access
from config.api.views import ApiViewSet
from config.models import Scope
from flags import ruleset_openapi as openapi
from flags.rulesets import ruleset

_is_gzip = re.compile(r"(gzip|\*)(;q=(1|0?\.0*[1-9])[0-9.]*)?")


@extend_schema(tags=["Flags"])
class RulesetViewSet(ApiViewSet):
    access = {"retrieve": Access(Scope.SERVER, "flags.view_flag")}

    @openapi.retrieve
    def retrieve(self, request: Request) -> HttpResponse:
        refuse_parameters(request)
        self.refuse_body(request)
        found = ruleset(self.environment.key)
        # One tag, a weak one, for the same ruleset in both of its codings.
        headers = {"ETag": f"W/{found.etag}", "Vary": "Accept-Encoding, X-Environment", "Cache-Control": "no-cache"}
        if _knows(request, found.etag):
            return HttpResponse(status=304, headers=headers)
        if _takes_gzip(request):
            headers["Content-Encoding"] = "gzip"
            return HttpResponse(found.zipped, content_type="application/json", headers=headers)
        return HttpResponse(found.plain, content_type="application/json", headers=headers)


def _knows(request: Request, etag: str) -> bool:
    tags = parse_etags(request.META.get("HTTP_IF_NONE_MATCH", ""))
    return "*" in tags or etag in (tag.removeprefix("W/") for tag in tags)


def _takes_gzip(request: Request) -> bool:
    codings = request.META.get("HTTP_ACCEPT_ENCODING", "").lower().replace(" ", "").split(",")
    return any(_is_gzip.fullmatch(coding) for coding in codings)
