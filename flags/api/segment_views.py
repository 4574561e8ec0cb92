"""The operations of /v1/segments: each reads the request, calls the domain once, and writes the answer."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from config.api.filters import StrictFilterBackend, refuse_parameters
from config.api.idempotency import idempotent
from config.api.pagination import KeysetPagination
from config.api.permissions import Access
from config.api.views import ApiViewSet
from config.change_log.preconditions import check_version
from config.models import Scope
from flags.api import segment_openapi as openapi
from flags.api.filters import SegmentFilter
from flags.api.segment_serializers import (
    SegmentEntrySerializer,
    SegmentSerializer,
    SegmentUpdateSerializer,
    SegmentUsersSerializer,
)
from flags.changes import segment_changes
from flags.models import Segment, SegmentQuerySet


class SegmentPagination(KeysetPagination):
    ordering = ("key",)


@extend_schema(tags=["Segments"])
class SegmentViewSet(ApiViewSet):
    access = {
        "list": Access(Scope.SERVER, "flags.view_segment"),
        "retrieve": Access(Scope.SERVER, "flags.view_segment"),
        "create": Access(Scope.MANAGE, "flags.add_segment", "Segments"),
        "partial_update": Access(Scope.MANAGE, "flags.change_segment", "Segments"),
        "change_users": Access(Scope.MANAGE, "flags.change_segment", "Segments"),
        "destroy": Access(Scope.MANAGE, "flags.delete_segment", "Segments"),
    }
    serializer_class = SegmentSerializer
    pagination_class = SegmentPagination
    filter_backends = (StrictFilterBackend,)
    filterset_class = SegmentFilter
    lookup_url_kwarg = "segment_key"
    lookup_field = "key"

    def get_queryset(self) -> SegmentQuerySet:
        return Segment.objects.without_members()

    def get_serializer_class(self) -> Any:
        return SegmentEntrySerializer if self.action == "list" else SegmentSerializer

    @openapi.list_segments
    def list(self, request: Request) -> Response:
        return self.page(request)

    @openapi.retrieve
    def retrieve(self, request: Request, segment_key: str) -> Response:
        refuse_parameters(request)
        self.refuse_body(request)
        return self._answer(segment_changes.get_segment(segment_key))

    @openapi.create
    @idempotent
    def create(self, request: Request) -> Response:
        refuse_parameters(request)
        segment = segment_changes.create_segment(**self.validated(request.data), **self.provenance)
        location = request.build_absolute_uri(f"/v1/segments/{segment.key}")
        return self._answer(segment, status=201, headers={"Location": location})

    @openapi.partial_update
    def partial_update(self, request: Request, segment_key: str) -> Response:
        refuse_parameters(request)
        segment = segment_changes.get_segment(segment_key)
        # Checked before the body: read-only properties of another version would be refused as changed.
        check_version(segment, self.if_match)
        serializer = SegmentUpdateSerializer(segment, data=self.sent_changes(request), partial=True)
        serializer.is_valid(raise_exception=True)
        return self._answer(
            segment_changes.update_segment(**self._write(segment_key), changes=serializer.validated_data)
        )

    @openapi.change_users
    def change_users(self, request: Request, segment_key: str) -> Response:
        refuse_parameters(request)
        sent = self.validated(self.sent_changes(request), SegmentUsersSerializer)
        segment, members = segment_changes.change_members(**self._write(segment_key), **sent)
        counts = {"added": len(members.added), "removed": len(members.removed), "total": len(segment.user_ids)}
        return self.versioned(counts, segment.etag)

    @openapi.destroy
    def destroy(self, request: Request, segment_key: str) -> Response:
        refuse_parameters(request)
        self.refuse_body(request)
        segment_changes.delete_segment(**self._write(segment_key))
        return Response(status=204)

    def _write(self, key: str) -> dict[str, Any]:
        return {"key": key, "if_match": self.if_match, **self.provenance}

    def _answer(self, segment: Segment, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
        return self.versioned(SegmentSerializer(segment).data, segment.etag, status=status, headers=headers)
