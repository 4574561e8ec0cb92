"""The /v1/flags operations: parse, one call of the domain, serialise."""

from __future__ import annotations

from typing import Any

import msgspec
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from config.api.fast import Name, convert
from config.api.filters import StrictFilterBackend, refuse_parameters
from config.api.pagination import KeysetPagination
from config.api.permissions import Access
from config.api.views import ApiViewSet
from config.errors import DomainError, ErrorCode
from config.models import Scope
from flags import changes, openapi, snapshot
from flags.engine.evaluation import evaluate
from flags.engine.types import Configuration, Context
from flags.filters import FlagFilter
from flags.models import Flag, FlagQuerySet
from flags.serializers import (
    EvaluationRequestSerializer,
    FlagEntrySerializer,
    FlagSerializer,
    FlagUpdateSerializer,
)


class FlagPagination(KeysetPagination):
    ordering = ("key",)


class EvaluationRequest(msgspec.Struct, forbid_unknown_fields=True):
    userId: Name
    attributes: dict[str, Any] = {}


@extend_schema(tags=["Flags"])
class FlagViewSet(ApiViewSet):
    access = {
        "list": Access(Scope.SERVER, "flags.view_flag"),
        "retrieve": Access(Scope.SERVER, "flags.view_flag"),
        "create": Access(Scope.MANAGE, "flags.add_flag"),
        "partial_update": Access(Scope.MANAGE, "flags.change_flag"),
        "destroy": Access(Scope.MANAGE, "flags.delete_flag"),
        "evaluate": Access(Scope.CLIENT, "flags.view_flag"),
    }
    serializer_class = FlagSerializer
    pagination_class = FlagPagination
    filter_backends = (StrictFilterBackend,)
    filterset_class = FlagFilter
    lookup_url_kwarg = "flag_key"
    lookup_field = "key"

    def get_queryset(self) -> FlagQuerySet:
        return Flag.objects.in_environment(self.environment)

    def get_serializer_class(self) -> Any:
        return FlagEntrySerializer if self.action == "list" else FlagSerializer

    @openapi.list_flags
    def list(self, request: Request) -> Response:
        return self.page(request)

    @openapi.retrieve
    def retrieve(self, request: Request, flag_key: str) -> Response:
        refuse_parameters(request)
        self.refuse_body(request)
        return self._answer(changes.get_flag(flag_key, self.environment))

    @openapi.create
    def create(self, request: Request) -> Response:
        refuse_parameters(request)
        values = self.validated(request.data)
        flag = changes.create_flag(**values, environment=self.environment, **self.provenance)
        return self._answer(flag, status=201, headers={"Location": request.build_absolute_uri(f"/v1/flags/{flag.key}")})

    @openapi.partial_update
    def partial_update(self, request: Request, flag_key: str) -> Response:
        refuse_parameters(request)
        if_match = request.headers.get("If-Match")
        flag = changes.get_flag(flag_key, self.environment)
        changes.check_version(flag, if_match)  # before the body, for what was read of another version differs
        serializer = FlagUpdateSerializer(flag, data=self.sent_changes(request), partial=True)
        serializer.is_valid(raise_exception=True)
        flag = changes.update_flag(
            key=flag_key,
            environment=self.environment,
            changes=serializer.validated_data,
            if_match=if_match,
            **self.provenance,
        )
        return self._answer(flag)

    @openapi.destroy
    def destroy(self, request: Request, flag_key: str) -> Response:
        refuse_parameters(request)
        self.refuse_body(request)
        changes.delete_flag(
            key=flag_key,
            environment=self.environment,
            if_match=request.headers.get("If-Match"),
            **self.provenance,
        )
        return Response(status=204)

    @openapi.evaluate
    def evaluate(self, request: Request, flag_key: str) -> Response:
        refuse_parameters(request)
        data = request.data
        body = convert(data, EvaluationRequest)
        if body is None:
            body = EvaluationRequest(**self.validated(data, EvaluationRequestSerializer))
        flag = snapshot.find(self.environment.key, flag_key)
        if flag is None:
            raise DomainError(ErrorCode.FLAG_NOT_FOUND, f"No flag has the key {flag_key[:100]!r}.")
        context = Context(body.userId, body.attributes, Configuration({}, {}), self.now)
        return Response(evaluate(flag, context).answer)

    def _answer(self, flag: Flag, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
        return Response(FlagSerializer(flag).data, status=status, headers={"ETag": flag.etag, **(headers or {})})
