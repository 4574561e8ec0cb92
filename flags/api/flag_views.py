"""The operations of /v1/flags: each reads the request, calls the domain once, and writes the answer."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from config.api.filters import StrictFilterBackend, refuse_parameters
from config.api.history import HistoryViewSet
from config.api.idempotency import idempotent
from config.api.pagination import KeysetPagination
from config.api.permissions import Access
from config.api.views import ApiViewSet
from config.change_log.preconditions import check_version
from config.errors import DomainError, ErrorCode
from config.models import Change, Scope
from config.slugs import is_key
from flags.api import flag_openapi
from flags.api.filters import FlagFilter
from flags.api.flag_serializers import (
    FlagEntrySerializer,
    FlagSerializer,
    FlagUpdateSerializer,
    ListedFlagSerializer,
    RevertSerializer,
)
from flags.changes import flag_changes
from flags.models import Flag, FlagQuerySet


class FlagPagination(KeysetPagination):
    ordering = ("key",)


@extend_schema(tags=["Flags"])
class FlagViewSet(ApiViewSet):
    access = {
        "list": Access(Scope.SERVER, "flags.view_flag"),
        "retrieve": Access(Scope.SERVER, "flags.view_flag"),
        "create": Access(Scope.MANAGE, "flags.add_flag"),
        "partial_update": Access(Scope.MANAGE, "flags.change_flag"),
        "destroy": Access(Scope.MANAGE, "flags.delete_flag"),
        "archive": Access(Scope.MANAGE, "flags.change_flag"),
        "restore": Access(Scope.MANAGE, "flags.change_flag"),
        "revert": Access(Scope.MANAGE, "flags.change_flag"),
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
        if self.action != "list":
            return FlagSerializer
        return ListedFlagSerializer if self.request.query_params.get("stale") == "true" else FlagEntrySerializer

    @flag_openapi.list_flags
    def list(self, request: Request) -> Response:
        return self.page(request)

    @flag_openapi.retrieve
    def retrieve(self, request: Request, flag_key: str) -> Response:
        refuse_parameters(request)
        self.refuse_body(request)
        return self._answer(flag_changes.get_flag(flag_key, self.environment))

    @flag_openapi.create
    @idempotent
    def create(self, request: Request) -> Response:
        refuse_parameters(request)
        values = self.validated(request.data)
        flag = flag_changes.create_flag(**values, environment=self.environment, **self.provenance)
        return self._answer(flag, status=201, headers={"Location": request.build_absolute_uri(f"/v1/flags/{flag.key}")})

    @flag_openapi.partial_update
    def partial_update(self, request: Request, flag_key: str) -> Response:
        refuse_parameters(request)
        flag = flag_changes.get_flag(flag_key, self.environment)
        # Checked before the body: read-only properties of another version would be refused as changed.
        check_version(flag, self.if_match)
        serializer = FlagUpdateSerializer(flag, data=self.sent_changes(request), partial=True)
        serializer.is_valid(raise_exception=True)
        return self._answer(flag_changes.update_flag(**self._write(flag_key), changes=serializer.validated_data))

    @flag_openapi.destroy
    def destroy(self, request: Request, flag_key: str) -> Response:
        refuse_parameters(request)
        self.refuse_body(request)
        flag_changes.delete_flag(**self._write(flag_key))
        return Response(status=204)

    @flag_openapi.archive
    def archive(self, request: Request, flag_key: str) -> Response:
        refuse_parameters(request)
        self.refuse_body(request)
        return self._answer(flag_changes.archive_flag(**self._write(flag_key)))

    @flag_openapi.restore
    def restore(self, request: Request, flag_key: str) -> Response:
        refuse_parameters(request)
        self.refuse_body(request)
        return self._answer(flag_changes.restore_flag(**self._write(flag_key)))

    @flag_openapi.revert
    def revert(self, request: Request, flag_key: str) -> Response:
        refuse_parameters(request)
        revision = self.validated(request.data, RevertSerializer)["revision"]
        return self._answer(flag_changes.revert_flag(**self._write(flag_key), revision=revision))

    def _write(self, key: str) -> dict[str, Any]:
        return {"key": key, "environment": self.environment, "if_match": self.if_match, **self.provenance}

    def _answer(self, flag: Flag, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
        return self.versioned(FlagSerializer(flag).data, flag.etag, status=status, headers=headers)


@extend_schema(tags=["Flags"])
class FlagHistoryViewSet(HistoryViewSet):
    access = {"list": Access(Scope.SERVER, "flags.view_flag")}

    @flag_openapi.history
    def list(self, request: Request, flag_key: str) -> Response:
        rows = Change.objects.of_key(flag_changes.KIND, flag_key if is_key(flag_key) else "")
        if not rows.exists():
            raise DomainError(ErrorCode.FLAG_NOT_FOUND, f"No flag ever had the key {flag_key[:100]!r}.")
        return self.history(request, rows)
