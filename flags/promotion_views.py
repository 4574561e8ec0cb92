"""The operation that promotes flags into the environment of the request."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from config.api.filters import refuse_parameters
from config.api.permissions import Access
from config.api.views import ApiViewSet
from config.environments import get_environment
from config.history import differences
from config.models import Scope
from flags import promotion_openapi
from flags.promotion import promote
from flags.promotion_serializers import PromotionSerializer


@extend_schema(tags=["Flags"])
class PromotionViewSet(ApiViewSet):
    access = {"promote": Access(Scope.MANAGE, "flags.change_flag")}
    serializer_class = PromotionSerializer

    @promotion_openapi.promote
    def promote(self, request: Request) -> Response:
        refuse_parameters(request)
        sent = self.validated(request.data)
        source, is_dry_run = get_environment(sent["from"], field="from"), sent.get("dryRun", False)
        written = promote(
            source=source, target=self.environment, keys=sent.get("flags"), is_dry_run=is_dry_run, **self.provenance
        )
        here = self.environment.key
        flags = [{"key": each.key, **differences(each.before, each.after, here)} for each in written]
        return Response({"from": source.key, "to": here, "dryRun": is_dry_run, "flags": flags})
