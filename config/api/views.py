"""The base of all views of the API. It reads the clock, refreshes the configuration and identifies the caller."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from typing import Any, ClassVar, Literal, cast

import msgspec
import orjson
from django.utils import timezone
from rest_framework.exceptions import AuthenticationFailed, NotAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer
from rest_framework.viewsets import GenericViewSet

from config import snapshot
from config.api.authentication import Caller
from config.api.bodies import check, convert, decode
from config.api.failures import request_id
from config.api.filters import refuse_parameters
from config.api.headers import change_reason, is_known, stale_header
from config.api.limits import require_allowance
from config.api.permissions import Access
from config.api.serializers import NoBodySerializer
from config.errors import DomainError, ErrorCode
from config.models import Environment


class ApiViewSet(GenericViewSet[Any]):
    """A view under /v1. `access` has the required scope and permission of each action."""

    access: ClassVar[Mapping[str, Access]]
    bodies: ClassVar[Mapping[str, type[msgspec.Struct]]] = {}
    """The bodies of actions that are called often. A serializer explains bodies that these types do not accept."""
    fast_lane: ClassVar[Mapping[str, Any]] = {}
    """How actions are answered in front of Django, if they are: see `config.serving.fast_lane`."""
    etag_of: ClassVar[Literal["resource", "answer"] | None] = None
    """What an `ETag` covers: the version of the resource, or the whole answer."""
    answers_from_memory: ClassVar[Collection[str]] = ()
    """The actions that are answered from the last known state while the database is away."""
    evaluates: ClassVar[Collection[str]] = ()
    """The actions that evaluate flags for a user. Metrics count their failures as failed evaluations."""
    never_waits: ClassVar[Collection[str]] = ()
    """The actions that need no database, which are answered while other requests wait for it."""
    own_credentials: ClassVar[str] = ""
    """The security scheme of views whose callers have credentials of their own."""
    keeps_history: ClassVar[bool] = True
    """Whether writes of the view are in the history, with their `X-Change-Reason`."""
    _staleness: int | None = None
    http_method_names = ["get", "head", "post", "patch", "delete"]

    def initialize_request(self, request: Any, *args: Any, **kwargs: Any) -> Request:
        initialized: Request = super().initialize_request(request, *args, **kwargs)
        initialized.now = timezone.now()  # type: ignore[attr-defined]  # the only time of the request
        return initialized

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        snapshot.refresh()
        self._staleness = snapshot.staleness()
        try:
            super().initial(request, *args, **kwargs)
        except (AuthenticationFailed, NotAuthenticated):
            require_allowance(request.META, None)
            raise
        require_allowance(request.META, self.caller)
        if self.action not in self.answers_from_memory:
            self.require_current_caller()

    def require_current_caller(self) -> None:
        """Refuse a caller whose key may have been revoked. Call it before the database is read or written.

        Raises DomainError `unavailable`, AuthenticationFailed or PermissionDenied.
        """
        snapshot.require_current_keys()
        if self._staleness is not None:  # the keys by which the caller was identified may have been older
            self.request._authenticate()  # type: ignore[attr-defined]  # DRF itself calls it once
            self.check_permissions(self.request)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        answer = super().finalize_response(request, response, *args, **kwargs)
        for name, value in stale_header(self._staleness).items():
            answer[name] = value
        return answer

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
        """Return the reason that the caller gives for this write."""
        return change_reason(self.request)

    @property
    def if_match(self) -> str | None:
        """Return the version that `If-Match` names, or None."""
        return self.request.headers.get("If-Match")

    def versioned(
        self,
        data: Any,
        etag: str,
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        is_of_answer: bool = False,
    ) -> Response:
        """Return an answer with the version of a resource, or 304 if the caller has this answer.

        If parts of the answer have no version, the tag gets a digest of the whole answer, which `If-Match` ignores.
        `is_of_answer` says so for one answer, and `etag_of` for all answers of a view.
        """
        if is_of_answer or self.etag_of == "answer":
            # Sorted, because databases may return the names of a document in another order.
            answered = orjson.dumps(data, option=orjson.OPT_SORT_KEYS)
            etag = f'{etag[:-1]}-{sha256(answered).hexdigest()[:16]}"'
        if self.request.method in ("GET", "HEAD") and is_known(self.request.META, etag):
            return Response(status=304, headers={"ETag": etag})
        return Response(data, status=status, headers={"ETag": etag, **(headers or {})})

    @property
    def provenance(self) -> dict[str, Any]:
        """The arguments of every write of the domain: who writes, when and why."""
        actor = replace(self.caller.actor, request=request_id(self.request))
        return {"actor": actor, "now": self.now, "reason": self.reason}

    def validated(
        self, data: object, serializer_class: Callable[..., BaseSerializer[Any]] | None = None
    ) -> dict[str, Any]:
        """Return the body after validation by a serializer. Raises with all invalid fields."""
        serializer = (serializer_class or self.get_serializer_class())(data=data)
        serializer.is_valid(raise_exception=True)
        values: dict[str, Any] = serializer.validated_data
        return values

    def read_body(self, request: Request, serializer_class: Callable[..., BaseSerializer[Any]]) -> Any:
        """Return the body as the type in `bodies`. Raises with all invalid fields, which a serializer finds."""
        data, wanted = request.data, self.bodies[self.action]
        body = convert(data, wanted)
        return wanted(**self.validated(data, serializer_class)) if body is None else body

    def refuse_input(self, request: Request) -> None:
        """Refuse parameters and a body, for operations that take neither."""
        refuse_parameters(request)
        self.refuse_body(request)

    def refuse_body(self, request: Request) -> None:
        """Refuse a body, for operations without a payload. An empty body and `{}` are accepted."""
        if (data := self.optional_body(request)) != {}:
            self.validated(data, NoBodySerializer)

    def optional_body(self, request: Request) -> Any:
        """Return the body of an operation with an optional payload. A missing or empty body is `{}`."""
        return check(decode(request.data)) if isinstance(request.data, bytes) else request.data

    def sent_changes(self, request: Request) -> Any:
        """Return the body of an update. An empty one is refused, because a lost body would silently change nothing."""
        if request.stream is None:
            raise DomainError(ErrorCode.MALFORMED_JSON, "The body is empty; send one JSON document in UTF-8.")
        return request.data

    def page(self, request: Request) -> Response:
        """Return a page of the filtered list, with the next page in the `Link` header."""
        self.refuse_body(request)
        rows = self.filter_queryset(self.get_queryset())
        assert self.paginator is not None  # noqa: S101 (a list view names its pagination)
        page = self.paginate_queryset(rows)
        response: Response = self.get_paginated_response(self.get_serializer(page, many=True).data)
        return response
