"""The operation that says how often a flag was evaluated: read the period, one call of the domain, serialise."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import django_filters
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from config.api.filters import MomentFilter, read_parameters
from config.api.permissions import Access
from config.api.views import ApiViewSet
from config.errors import Detail, DetailCode, ErrorCode, ValidationFailed
from config.models import Scope
from config.timestamps import format_timestamp
from flags import changes
from flags import usage_openapi as openapi
from flags.models import Usage
from flags.usage_figures import Figures, Interval, usage_of
from flags.usage_storage import KEPT

_USUAL = timedelta(days=7)
_FIRST = datetime.min.replace(tzinfo=UTC)


class PeriodFilter(django_filters.FilterSet):
    interval = django_filters.ChoiceFilter(
        choices=[(each.value, each.value) for each in Interval],
        error_messages={"invalid_choice": "Must be hour or day."},
    )
    to = MomentFilter(end_of_day=True)

    class Meta:
        model = Usage
        fields = ()


# A word of Python cannot name an attribute.
PeriodFilter.base_filters["from"] = MomentFilter()


@extend_schema(tags=["Flags"])
class UsageViewSet(ApiViewSet):
    access = {"retrieve": Access(Scope.SERVER, "flags.view_flag")}
    lookup_url_kwarg = "flag_key"

    @openapi.retrieve
    def retrieve(self, request: Request, flag_key: str) -> Response:
        asked_for = read_parameters(request, PeriodFilter)
        self.refuse_body(request)
        interval = Interval(asked_for["interval"] or Interval.HOUR)
        start, end = _period(asked_for["from"], asked_for["to"], self.now)
        flag = changes.get_flag(flag_key, self.environment)
        figures = usage_of(flag, self.environment, start=start, end=end, interval=interval)
        about = {"flag": flag.key, "environment": self.environment.key}
        period = {"from": format_timestamp(start), "to": format_timestamp(end), "interval": interval.value}
        return Response({**about, **period, **_told(figures)})


def _period(start: datetime | None, end: datetime | None, now: datetime) -> tuple[datetime, datetime]:
    end = end or now
    start = start or end - min(_USUAL, end - _FIRST)
    if start > end:
        raise _refused("Must not be after `to`.")
    if end - start > KEPT:
        raise _refused(f"Must be at most {KEPT.days} days before `to`: counts are kept for so long.")
    return start, end


def _refused(message: str) -> ValidationFailed:
    return ValidationFailed([Detail("from", DetailCode.OUT_OF_RANGE, message)], code=ErrorCode.INVALID_PARAMETER)


def _told(figures: Figures) -> dict[str, Any]:
    last = figures.last_hour
    return {
        "total": figures.total,
        "lastEvaluatedAt": format_timestamp(last) if last else None,
        "outcomes": [{"outcome": each.key, "count": each.count, "share": each.share} for each in figures.outcomes],
        "series": [{"at": format_timestamp(at), "counts": counts} for at, counts in figures.series.items()],
    }
