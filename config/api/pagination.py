"""Paging by key: a page begins after the last row of the previous page, so deep pages are as fast as the first."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import orjson
from django.core.exceptions import ValidationError
from django.db.models import DateTimeField, Model, QuerySet
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response

from config.database.expressions import after
from config.errors import Detail, DetailCode, ErrorCode, ValidationFailed
from config.timestamps import parse_timestamp


class KeysetPagination(BasePagination):
    """Paging by `limit` and `cursor`. The `Link` header has the next page, so the body is only the rows.

    `ordering` must name columns that are unique together, all ascending or all descending. Without a `default_limit`,
    the answer has all rows.
    """

    ordering: Sequence[str] = ("pk",)
    default_limit: int | None = None
    max_limit = 1000
    parameters = ("limit", "cursor")

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        self.request = request
        limit = self._limit(request.query_params.get("limit"))
        rows: QuerySet[Any] = queryset.order_by(*self.ordering)
        if cursor := request.query_params.get("cursor"):
            rows = rows.filter(after(self.ordering, self._decode(cursor, queryset.model)))
        fetched = list(rows) if limit is None else list(rows[: limit + 1])
        has_more = limit is not None and len(fetched) > limit
        page = fetched[:limit]
        self.next_cursor = self._encode(page[-1]) if has_more else None
        return page

    def get_paginated_response(self, data: Any) -> Response:
        return Response(data, headers={"Link": self._link()} if self.next_cursor else None)

    def _link(self) -> str:
        query = self.request.query_params.copy()
        query["cursor"] = self.next_cursor or ""
        return f'<{self.request.build_absolute_uri(self.request.path)}?{query.urlencode()}>; rel="next"'

    def _limit(self, text: str | None) -> int | None:
        if text is None:
            return self.default_limit
        if not (text.isascii() and text.isdecimal()):
            raise _refused("limit", DetailCode.INVALID_TYPE, f"Must be a whole number from 1 to {self.max_limit}.")
        if len(text) > 9 or not 1 <= int(text) <= self.max_limit:
            raise _refused("limit", DetailCode.OUT_OF_RANGE, f"Must be from 1 to {self.max_limit}.")
        return int(text)

    def _columns(self) -> list[str]:
        return [name.removeprefix("-") for name in self.ordering]

    def _encode(self, row: Any) -> str:
        values = {column: str(getattr(row, column)) for column in self._columns()}
        return base64.urlsafe_b64encode(orjson.dumps(values)).decode().rstrip("=")

    def _decode(self, cursor: str, model: type[Model]) -> list[Any]:
        """Return the values of a cursor. A changed cursor or one of another list is refused."""
        columns = self._columns()
        try:
            sent = orjson.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
            if not isinstance(sent, dict) or [*sent] != columns or "\0" in "".join(sent.values()):
                raise ValueError("not a cursor of this list")
            values = [_read(model._meta.get_field(column), sent[column]) for column in columns]
            if [str(value) for value in values] != [*sent.values()]:
                raise ValueError("not as it was written")
            return values
        except (ValueError, TypeError, ValidationError):
            message = "Take the cursor from the `Link` header of the page before, unchanged."
            raise _refused("cursor", DetailCode.INVALID_VALUE, message) from None


def _read(field: Any, text: str) -> Any:
    return parse_timestamp(text) if isinstance(field, DateTimeField) else field.to_python(text)


def _refused(parameter: str, code: DetailCode, message: str) -> ValidationFailed:
    return ValidationFailed([Detail(parameter, code, message)], code=ErrorCode.INVALID_PARAMETER)
