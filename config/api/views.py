"""What every view of the API does before its own work: read the clock, catch up with configuration, know the caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any, ClassVar, cast

import orjson
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer
from rest_framework.viewsets import GenericViewSet

from config import snapshot
from config.api.authentication import Caller
from config.api.bodies import check, decode
from config.api.change_reason import change_reason
from config.api.conditional import is_known
from config.api.permissions import Access
from config.api.serializers import NoBodySerializer
from config.errors import DomainError, ErrorCode
from config.models import Environment


class ApiViewSet(GenericViewSet[Any]):
    """A view of /v1. `access` names, for each action, who may call it."""

    access: ClassVar[Mapping[str, Access]]
    http_method_names = ["get", "head", "post", "patch", "delete"]

    def initialize_request(self, request: Any, *args: Any, **kwargs: Any) -> Request:
        initialized: Request = super().initialize_request(request, *args, **kwargs)
        initialized.now = timezone.now()  # type: ignore[attr-defined]  # the request's one reading of the clock
        return initialized

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        snapshot.refresh()
        super().initial(request, *args, **kwargs)

    @property
    def caller(self) -> Caller:
        return cast(Caller, self.request.auth)

    @property
    def environment(self) -> Environment:
        return self.caller.environment

    @property
    def now(self) -> datetime:
        return cast(datetime, self.request.now)  # type: ignore[attr-defined]  # set by initialize_request

    @property
    def reason(self) -> str:
        """Why the caller writes what this request writes."""
        return change_reason(self.request)

    @property
    def if_match(self) -> str | None:
        """The version that the caller has seen of what this request writes, if they care."""
        return self.request.headers.get("If-Match")

    def versioned(
        self,
        data: Any,
        etag: str,
        *,
        is_whole: bool = True,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Answer with a version of a resource, or 304 to a caller that has this very answer.

        Where the version is not of the whole answer, a digest of that is added to the tag; `If-Match` ignores it.
        """
        if not is_whole:
            # Sorted, for a database may give the names of a document back in another order.
            answered = orjson.dumps(data, option=orjson.OPT_SORT_KEYS)
            etag = f'{etag[:-1]}-{sha256(answered).hexdigest()[:16]}"'
        if self.request.method in ("GET", "HEAD") and is_known(self.request.META, etag):
            return Response(status=304, headers={"ETag": etag})
        return Response(data, status=status, headers={"ETag": etag, **(headers or {})})

    @property
    def provenance(self) -> dict[str, Any]:
        """The arguments of every write of the domain that describe its caller: who, when and why."""
        return {"actor": self.caller.actor, "at": self.now, "reason": self.reason}

    def validated(
        self, data: object, serializer_class: Callable[..., BaseSerializer[Any]] | None = None
    ) -> dict[str, Any]:
        """The body of this action, through a serializer; raises with every field that is to blame."""
        serializer = (serializer_class or self.get_serializer_class())(data=data)
        serializer.is_valid(raise_exception=True)
        values: dict[str, Any] = serializer.validated_data
        return values

    def refuse_body(self, request: Request) -> None:
        """For operations without a payload: no body, an empty one and `{}` are the same, anything else is refused."""
        if (data := self.optional_body(request)) != {}:
            self.validated(data, NoBodySerializer)

    def optional_body(self, request: Request) -> Any:
        """For operations that may have a payload: no body and an empty one are `{}`."""
        return check(decode(request.data)) if isinstance(request.data, bytes) else request.data

    def sent_changes(self, request: Request) -> Any:
        """The body of an update. One that got lost on the way must not pass for an update of nothing."""
        if request.stream is None:
            raise DomainError(ErrorCode.MALFORMED_JSON, "The body is empty; send one JSON document in UTF-8.")
        return request.data

    def page(self, request: Request) -> Response:
        """The list that the request's filters and paging ask for, the next page as a `Link` header."""
        self.refuse_body(request)
        rows = self.filter_queryset(self.get_queryset())
        assert self.paginator is not None  # noqa: S101 (a list view names its pagination)
        found = self.paginate_queryset(rows)
        response: Response = self.get_paginated_response(self.get_serializer(found, many=True).data)
        return response
