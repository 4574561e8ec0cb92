"""Lists of changes: the base of the history of an object, and `/v1/audit`, which lists changes of all kinds.

`config.change_log.entries` makes their entries.
"""

from __future__ import annotations

from typing import Any

import django_filters
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from config.api.filters import ChoiceFilter, MomentFilter, StrictFilterBackend, TextFilter
from config.api.pagination import KeysetPagination
from config.api.parameters import query
from config.api.permissions import Access
from config.api.schema import Schema, answer, closed_object, component, operation
from config.api.views import ApiViewSet
from config.change_log.entries import MAX_CHANGES, MAX_ELEMENTS, MAX_VALUE_LENGTH, filter_visible, make_entries
from config.errors import Detail, DetailCode, ErrorCode, ValidationFailed
from config.models import KINDS, Change, ChangeQuerySet, Scope, Source, kinds_of


class HistoryPagination(KeysetPagination):
    ordering = ("-revision",)
    default_limit = 100
    max_limit = 100  # the documents of a change may have megabytes, and all of them are read


class HistoryViewSet(ApiViewSet):
    """A list of changes, as far as the environment of the request can see them."""

    pagination_class = HistoryPagination
    filter_backends = (StrictFilterBackend,)

    def history(self, request: Request, rows: ChangeQuerySet) -> Response:
        self.refuse_body(request)
        # The documents of a change may be large: only those of the page are read, one after the
        # other.
        seen = filter_visible(rows, self.environment.key).defer("before", "after")
        page: Any = self.paginate_queryset(self.filter_queryset(seen))
        return self.get_paginated_response(make_entries(page, self.environment.key))


_ANY: Schema = {}
_IN_BRIEF = (
    f"If its JSON has more than {MAX_VALUE_LENGTH:,} characters, it is the first {MAX_VALUE_LENGTH:,} as text, and `…`."
)
_VALUE = {
    "field": {"type": "string", "description": "Such as `enabled` or `rules[0].percentage`."},
    "before": {**_ANY, "description": f"The old value, left out if there was none. {_IN_BRIEF}"},
    "after": {**_ANY, "description": f"The new value, left out if there is none. {_IN_BRIEF}"},
}
_SCALARS: Schema = {"type": "array", "items": {"type": ["string", "number", "boolean", "null"]}}
_COUNT: Schema = {"type": "integer", "minimum": 1}
_ELEMENTS = {
    "field": {"type": "string", "description": "A list of texts or numbers, such as `rules[0].userIds`."},
    "added": {
        **_SCALARS,
        "maxItems": MAX_ELEMENTS,
        "description": "The added elements. Long ones are shortened like `before` and `after` of other differences.",
    },
    "removed": {
        **_SCALARS,
        "maxItems": MAX_ELEMENTS,
        "description": "The removed elements, shortened like the added ones. If none were added "
        "or removed, only the order changed.",
    },
    "moreAdded": {**_COUNT, "description": "The number of further elements that were added."},
    "moreRemoved": {**_COUNT, "description": "The number of further elements that were removed."},
}
_DIFFERENCE: Schema = {
    "oneOf": [
        component("ValueDifference", closed_object(_VALUE, optional=["before", "after"])),
        component("ListDifference", closed_object(_ELEMENTS, optional=["moreAdded", "moreRemoved"])),
    ]
}
CHANGES: Schema = {
    "changes": {"type": "array", "items": _DIFFERENCE, "maxItems": MAX_CHANGES},
    "moreChanges": {
        **_COUNT,
        "description": f"The number of differences that are not listed. At most {MAX_CHANGES} are "
        "listed, and fewer if they are long.",
    },
}
ENTRY: Schema = component(
    "HistoryEntry",
    closed_object(
        {
            "revision": {
                "type": "integer",
                "description": "The number of the change. All changes of the service share one numbering.",
            },
            "at": {"type": "string", "format": "date-time"},
            "actor": {"type": "string", "description": "Such as `key terraform`, `user ada` or `anonymous`."},
            "source": {"type": "string", "enum": [str(source) for source in Source]},
            "reason": {
                "type": "string",
                "description": "The reason that was given for the change, such as by `X-Change-Reason`.",
            },
            "action": {"type": "string", "enum": ["created", "changed", "deleted"]},
            "object": component(
                "HistoryObject",
                closed_object(
                    {name: {"type": "string"} for name in ("kind", "id", "key")}, "The object that was changed."
                ),
            ),
            "environment": {
                "type": "string",
                "description": "The environment of the change. It is left out if the change is "
                "common to all environments.",
            },
            **CHANGES,
        },
        "One change, as far as the environment of the request can see it.",
        optional=["reason", "environment", "moreChanges"],
    ),
)
ENTRIES: Schema = {"type": "array", "items": ENTRY}
EXAMPLE = {
    "revision": 42,
    "at": "2026-01-31T12:00:00.000000Z",
    "actor": "user ada",
    "source": "admin",
    "reason": "Half of them is enough",
    "action": "changed",
    "object": {"kind": "flag", "id": "01937a5e-9c1b-7d3a-8f00-4e1d2c3b4a59", "key": "new-checkout"},
    "environment": "production",
    "changes": [{"field": "rules[0].percentage", "before": 25, "after": 12.5}],
}


_OBJECT = {"type": "string", "maxLength": 300, "pattern": f"^({'|'.join(KINDS)})(/.+)?$"}


class AuditFilter(django_filters.FilterSet):
    object = TextFilter(method="choose_object", max_length=300)
    actor = TextFilter(field_name="actor", max_length=250, label="Only changes by this actor, such as `user ada`.")
    source = ChoiceFilter(Source.values, label="Only changes from this source.")

    class Meta:
        model = Change
        fields = ()

    def choose_object(self, rows: ChangeQuerySet, _name: str, text: str) -> ChangeQuerySet:
        kind, slash, key = text.partition("/")
        if kind not in KINDS:
            message = f"Must be {', '.join(KINDS)}, or one of them with a key, such as flag/new-checkout."
            raise ValidationFailed(
                [Detail("object", DetailCode.INVALID_VALUE, message)], code=ErrorCode.INVALID_PARAMETER
            )
        return rows.of_key(kind, key) if slash else rows.filter(kind__in=kinds_of(kind))


# `from` is a keyword of Python.
AuditFilter.base_filters["from"] = MomentFilter(
    field_name="at", lookup_expr="gte", label="Only changes at or after this time. A date means its first instant."
)
AuditFilter.base_filters["to"] = MomentFilter(
    field_name="at",
    lookup_expr="lte",
    end_of_day=True,
    label="Only changes at or before this time. A date means its last instant.",
)


@extend_schema(tags=["Audit"])
class AuditViewSet(HistoryViewSet):
    access = {"list": Access(Scope.SERVER, "config.view_change")}
    filterset_class = AuditFilter

    @operation(
        "list_changes",
        "List changes",
        description="Every change of the configuration that concerns the environment of the request, "
        "newest first. Changes by the API, the admin and commands are included. Each entry says who "
        "made the change, when, from where and why, and has the values before and after.",
        parameters=[
            query(
                "object",
                _OBJECT,
                "Only changes of this kind of object, such as `flag`, or of one object, such as `flag/new-checkout`.",
            )
        ],
        responses={200: answer(ENTRIES, "The changes.", [EXAMPLE])},
    )
    def list(self, request: Request) -> Response:
        return self.history(request, Change.objects.all())
