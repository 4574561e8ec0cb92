"""The operations of /v1/flags: each reads the request, calls the domain once, and writes the answer."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from config.api.filters import StrictFilterBackend, read_parameters, refuse_parameters
from config.api.history_views import ENTRIES, HistoryViewSet
from config.api.idempotency import idempotent
from config.api.pagination import KeysetPagination
from config.api.parameters import parameters_of
from config.api.permissions import Access
from config.api.schema import answer, operation
from config.api.serializers import NoBodySerializer
from config.api.views import ApiViewSet
from config.change_log.writing import check_version
from config.errors import DomainError, ErrorCode
from config.models import Change, Scope
from config.slugs import is_key
from flags.api.filters import FlagFilter, SummaryFilter
from flags.api.flag_serializers import (
    FlagEntrySerializer,
    FlagSerializer,
    FlagUpdateSerializer,
    ListedFlagSerializer,
    RevertSerializer,
)
from flags.changes import flag_changes
from flags.changes.reversion import revert_flag
from flags.models import Flag, FlagQuerySet

_FLAG = {
    "id": "01937a5e-9c1b-7d3a-8f00-4e1d2c3b4a59",
    "key": "new-checkout",
    "description": "The one-page checkout",
    "enabled": True,
    "createdAt": "2026-01-31T12:00:00.000000Z",
    "rules": [{"type": "percentage", "percentage": 25}],
    "updatedAt": "2026-01-31T12:00:00.000000Z",
}
_NO_BODY = OpenApiExample("Nothing", value={}, request_only=True)


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
    etag_of = "resource"

    def get_queryset(self) -> FlagQuerySet:
        return Flag.objects.in_environment(self.environment)

    def get_serializer_class(self) -> Any:
        if self.action != "list":
            return FlagSerializer
        asked_for = (self.request.query_params.get(name) for name in ("stale", "summary"))
        return ListedFlagSerializer if "true" in asked_for else FlagEntrySerializer

    def get_serializer_context(self) -> dict[str, Any]:
        context = dict(super().get_serializer_context())
        has_summary = self.action == "list" and self.request.query_params.get("summary") == "true"
        return {**context, "summary_at": self.now} if has_summary else context

    @operation(
        "list_flags",
        "List flags",
        description="Returns all flags that are not archived, in order of their keys, with their state in the "
        "environment of the request. With `limit`, the `Link` header has the address of the next page.",
        responses={200: answer(ListedFlagSerializer(many=True), "The flags, without their rules.")},
    )
    def list(self, request: Request) -> Response:
        return self.page(request)

    @operation(
        "get_flag",
        "Get a flag",
        description="Returns the flag with its rules. To change only the version that you have read, send its `ETag` "
        "back as `If-Match`.",
        parameters=parameters_of(SummaryFilter),
        responses={200: answer(FlagSerializer, "The flag.")},
    )
    def retrieve(self, request: Request, flag_key: str) -> Response:
        has_summary = read_parameters(request, SummaryFilter)["summary"]
        self.refuse_body(request)
        flag = flag_changes.get_flag(flag_key, self.environment)
        if not has_summary:
            return self._answer(flag)
        shown = FlagSerializer(flag, context={"summary_at": self.now}).data
        return self.versioned(shown, flag.etag, is_of_answer=True)

    @operation(
        "create_flag",
        "Create a flag",
        description="`key` is required. In all other environments, the flag starts with the same rules, but off. All "
        "properties except `enabled` and `rules` are common to all environments. `expiresAt` does not change any "
        "evaluation.",
        responses={201: answer(FlagSerializer, "The created flag.")},
        errors=[ErrorCode.ALREADY_EXISTS],
    )
    @idempotent
    def create(self, request: Request) -> Response:
        refuse_parameters(request)
        values = self.validated(request.data)
        flag = flag_changes.create_flag(**values, environment=self.environment, **self.provenance)
        return self._answer(flag, status=201, headers={"Location": request.build_absolute_uri(f"/v1/flags/{flag.key}")})

    @operation(
        "update_flag",
        "Update a flag",
        description="Properties that you send replace those of the flag; the others stay. Lists are replaced as a "
        "whole, and null removes a property. `enabled` and `rules` change in the environment of the request only, "
        "all else in all environments. You may edit a flag that you have read and send it back: properties that "
        "cannot be changed are accepted if they are as you read them.",
        request=FlagUpdateSerializer,
        responses={200: answer(FlagSerializer, "The changed flag.")},
        errors=[ErrorCode.IN_USE, ErrorCode.EXPERIMENT_LOCKED],
    )
    def partial_update(self, request: Request, flag_key: str) -> Response:
        refuse_parameters(request)
        flag = flag_changes.get_flag(flag_key, self.environment)
        # Checked before the body: read-only properties of another version would be refused as changed.
        check_version(flag, self.if_match)
        serializer = FlagUpdateSerializer(flag, data=self.sent_changes(request), partial=True)
        serializer.is_valid(raise_exception=True)
        return self._answer(flag_changes.update_flag(**self._write(flag_key), changes=serializer.validated_data))

    @operation(
        "delete_flag",
        "Delete a flag",
        description="Deletes the flag from all environments. This is refused if the flag is on in another environment, "
        "or a prerequisite of another flag. The history of the flag stays.",
        responses={204: None},
        errors=[ErrorCode.ENABLED_ELSEWHERE, ErrorCode.IN_USE, ErrorCode.EXPERIMENT_LOCKED],
    )
    def destroy(self, request: Request, flag_key: str) -> Response:
        self.refuse_input(request)
        flag_changes.delete_flag(**self._write(flag_key))
        return Response(status=204)

    @operation(
        "archive_flag",
        "Archive a flag",
        description="Archives the flag: it is off for all users in all environments, and left out of "
        "lists. Nothing else changes. This is refused if the flag is on in another environment, or a "
        "prerequisite of a flag that is not archived. A flag that is archived already stays as it is. "
        "The body may be missing, empty or `{}`.",
        request=NoBodySerializer,
        responses={
            200: answer(FlagSerializer, "The archived flag.", {**_FLAG, "archivedAt": "2026-02-28T12:00:00.000000Z"})
        },
        errors=[ErrorCode.ENABLED_ELSEWHERE, ErrorCode.IN_USE, ErrorCode.EXPERIMENT_LOCKED],
        examples=[_NO_BODY],
    )
    def archive(self, request: Request, flag_key: str) -> Response:
        self.refuse_input(request)
        return self._answer(flag_changes.archive_flag(**self._write(flag_key)))

    @operation(
        "restore_flag",
        "Restore a flag",
        description="Takes the flag out of the archive. It gets back the state and the rules that it "
        "had. This is refused if one of its prerequisites is archived. A flag that is not archived "
        "stays as it is. The body may be missing, empty or `{}`.",
        request=NoBodySerializer,
        responses={200: answer(FlagSerializer, "The flag.", _FLAG)},
        examples=[_NO_BODY],
    )
    def restore(self, request: Request, flag_key: str) -> Response:
        self.refuse_input(request)
        return self._answer(flag_changes.restore_flag(**self._write(flag_key)))

    @operation(
        "revert_flag",
        "Revert a flag",
        description="Restores the flag as it was after a revision of its history in this environment: the properties "
        "that are common to all environments, and its state in this one. Its state in other environments does not "
        "change, and whether it is archived does not change. A revert is an edit like any other. If something that the "
        "flag needed then no longer exists, it is refused; the detail names `revision`.",
        request=RevertSerializer,
        responses={200: answer(FlagSerializer, "The changed flag.")},
        errors=[ErrorCode.IN_USE, ErrorCode.EXPERIMENT_LOCKED],
        examples=[OpenApiExample("A revision", value={"revision": 42}, request_only=True)],
    )
    def revert(self, request: Request, flag_key: str) -> Response:
        refuse_parameters(request)
        revision = self.validated(request.data, RevertSerializer)["revision"]
        return self._answer(revert_flag(**self._write(flag_key), revision=revision))

    def _write(self, key: str) -> dict[str, Any]:
        return {"key": key, "environment": self.environment, "if_match": self.if_match, **self.provenance}

    def _answer(self, flag: Flag, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
        return self.versioned(FlagSerializer(flag).data, flag.etag, status=status, headers=headers)


@extend_schema(tags=["Flags"])
class FlagHistoryViewSet(HistoryViewSet):
    access = {"list": Access(Scope.SERVER, "flags.view_flag")}

    @operation(
        "list_flag_history",
        "List the history of a flag",
        description="Returns the changes to the flag in this environment, and to the properties common to all, the "
        "newest first. Changes to deleted flags that had this key are included. The `Link` header has the address "
        "of the next page.",
        responses={200: answer(ENTRIES, "The changes.")},
    )
    def list(self, request: Request, flag_key: str) -> Response:
        rows = Change.objects.of_key(flag_changes.KIND, flag_key if is_key(flag_key) else "")
        if not rows.exists():
            raise DomainError(ErrorCode.FLAG_NOT_FOUND, f"No flag ever had the key {flag_key[:100]!r}.")
        return self.history(request, rows)
