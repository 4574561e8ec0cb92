"""The /v1/audit operation: the changes of all kinds of objects."""

from __future__ import annotations

import django_filters
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from config.api.filters import ChoiceFilter, MomentFilter, TextFilter
from config.api.history import ENTRIES, EXAMPLE, HistoryViewSet
from config.api.parameters import query
from config.api.permissions import Access
from config.api.schema import answer, operation
from config.errors import Detail, DetailCode, ErrorCode, ValidationFailed
from config.models import KINDS, Change, ChangeQuerySet, Scope, Source, kinds_of

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
