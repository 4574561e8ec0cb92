"""The operations of /v1/segments: each reads the request, calls the domain once, and writes the answer."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from config.api.filters import StrictFilterBackend, refuse_parameters
from config.api.idempotency import idempotent
from config.api.pagination import KeysetPagination
from config.api.permissions import Access
from config.api.schema import answer, operation
from config.api.views import ApiViewSet
from config.change_log.writing import check_version
from config.errors import ErrorCode
from config.models import Scope
from flags.api.filters import SegmentFilter
from flags.api.flag_serializers import RevertSerializer
from flags.api.segment_serializers import (
    SegmentEntrySerializer,
    SegmentSerializer,
    SegmentUpdateSerializer,
    SegmentUsersChangedSerializer,
    SegmentUsersSerializer,
)
from flags.changes import segment_changes
from flags.changes.reversion import revert_segment
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
        "revert": Access(Scope.MANAGE, "flags.change_segment", "Segments"),
        "change_users": Access(Scope.MANAGE, "flags.change_segment", "Segments"),
        "destroy": Access(Scope.MANAGE, "flags.delete_segment", "Segments"),
    }
    serializer_class = SegmentSerializer
    pagination_class = SegmentPagination
    filter_backends = (StrictFilterBackend,)
    filterset_class = SegmentFilter
    lookup_url_kwarg = "segment_key"
    lookup_field = "key"
    etag_of = "resource"

    def get_queryset(self) -> SegmentQuerySet:
        return Segment.objects.without_members()

    def get_serializer_class(self) -> Any:
        return SegmentEntrySerializer if self.action == "list" else SegmentSerializer

    @operation(
        "list_segments",
        "List segments",
        description="Returns all segments, in order of their keys. They are common to all environments. With "
        "`limit`, the `Link` header has the address of the next page.",
        responses={200: answer(SegmentEntrySerializer(many=True), "The segments, without their members.")},
    )
    def list(self, request: Request) -> Response:
        return self.page(request)

    @operation(
        "get_segment",
        "Get a segment",
        description="Returns the segment with its members. To change only the version that you have read, send its "
        "`ETag` back as `If-Match`.",
        responses={200: answer(SegmentSerializer, "The segment.")},
    )
    def retrieve(self, request: Request, segment_key: str) -> Response:
        self.refuse_input(request)
        return self._answer(segment_changes.get_segment(segment_key))

    @operation(
        "create_segment",
        "Create a segment",
        description="`key` is required. Members are the users who meet all `conditions`, and those whose ids are in "
        "`userIds`. A condition with the operator `inSegment` refers to another segment.",
        responses={201: answer(SegmentSerializer, "The created segment.")},
        errors=[ErrorCode.ALREADY_EXISTS],
    )
    @idempotent
    def create(self, request: Request) -> Response:
        refuse_parameters(request)
        segment = segment_changes.create_segment(**self.validated(request.data), **self.provenance)
        location = request.build_absolute_uri(f"/v1/segments/{segment.key}")
        return self._answer(segment, status=201, headers={"Location": location})

    @operation(
        "update_segment",
        "Update a segment",
        description="Properties that you send replace those of the segment; the others stay. `conditions` and "
        "`userIds` are replaced as a whole. The change applies to the next evaluation in every environment. You may "
        "edit a segment that you have read and send it back: properties that cannot be changed are accepted if they "
        "are as you read them. If the members change, running experiments whose conditions refer to the segment get "
        "a new phase. The change is refused if one of them has the maximum number of phases already.",
        request=SegmentUpdateSerializer,
        responses={200: answer(SegmentSerializer, "The changed segment.")},
        errors=[ErrorCode.EXPERIMENT_LOCKED],
    )
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

    @operation(
        "change_segment_users",
        "Add users to a segment, or remove them",
        description="Adds some users to `userIds` and removes others; the rest of the list stays. Added users come "
        "last. A user may not be in both lists. The history keeps the users that were added and removed.",
        request=SegmentUsersSerializer,
        responses={200: answer(SegmentUsersChangedSerializer, "How many users were added and removed.")},
        errors=[ErrorCode.EXPERIMENT_LOCKED],
    )
    def change_users(self, request: Request, segment_key: str) -> Response:
        refuse_parameters(request)
        sent = self.validated(self.sent_changes(request), SegmentUsersSerializer)
        segment, members = segment_changes.change_members(**self._write(segment_key), **sent)
        counts = {"added": len(members.added), "removed": len(members.removed), "total": len(segment.user_ids)}
        return self.versioned(counts, segment.etag)

    @operation(
        "revert_segment",
        "Revert a segment",
        description="Restores the segment as it was after a revision of its history, which `GET /v1/audit` lists with "
        "`object=segment/<key>`. A revert is an edit like any other. If something that the segment needed then no "
        "longer exists, it is refused; the detail names `revision`.",
        request=RevertSerializer,
        responses={200: answer(SegmentSerializer, "The changed segment.")},
        errors=[ErrorCode.EXPERIMENT_LOCKED],
        examples=[OpenApiExample("A revision", value={"revision": 42}, request_only=True)],
    )
    def revert(self, request: Request, segment_key: str) -> Response:
        refuse_parameters(request)
        revision = self.validated(request.data, RevertSerializer)["revision"]
        return self._answer(revert_segment(**self._write(segment_key), revision=revision))

    @operation(
        "delete_segment",
        "Delete a segment",
        description="Deletes the segment. This is refused if another segment, or a flag, a draft or a "
        "running experiment in any environment, refers to it. The history of the segment stays.",
        responses={204: None},
        errors=[ErrorCode.IN_USE],
    )
    def destroy(self, request: Request, segment_key: str) -> Response:
        self.refuse_input(request)
        segment_changes.delete_segment(**self._write(segment_key))
        return Response(status=204)

    def _write(self, key: str) -> dict[str, Any]:
        return {"key": key, "if_match": self.if_match, **self.provenance}

    def _answer(self, segment: Segment, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
        return self.versioned(SegmentSerializer(segment).data, segment.etag, status=status, headers=headers)
