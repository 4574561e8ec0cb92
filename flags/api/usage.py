"""How the OpenAPI document describes the operation that says how often a flag was evaluated.

The operation that says how often a flag was evaluated: read the period, one call of the domain, serialise."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import django_filters
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from config.api.filters import MomentFilter, read_parameters
from config.api.permissions import Access
from config.api.schema import KEY, MOMENT, Schema, answer, closed_object, component, errors, key_in_path, query
from config.api.views import ApiViewSet
from config.errors import Detail, DetailCode, ErrorCode, ValidationFailed
from config.models import Scope
from config.timestamps import format_timestamp
from flags.changes import flag_changes
from flags.models import Usage
from flags.usage.series import Interval, UsageSeries, read_usage
from flags.usage.storage import RETENTION

_MOMENT: Schema = {"type": "string", "format": "date-time"}
_COUNT: Schema = {"type": "integer", "minimum": 1}
_INTERVAL: Schema = {"type": "string", "enum": [each.value for each in Interval]}
_OUTCOME: Schema = closed_object(
    {
        "outcome": {**KEY, "description": "The key of a variant; of a flag without variants, `on` or `off`."},
        "count": _COUNT,
        "share": {"type": "number", "minimum": 0, "maximum": 1},
    },
    "One of the things that the flag was evaluated to.",
)
_INTERVAL_COUNTS: Schema = closed_object(
    {
        "at": {**_MOMENT, "description": "The start of the interval."},
        "counts": {"type": "object", "additionalProperties": _COUNT, "description": "By outcome."},
    },
    "What was counted in one hour or day.",
)
_USAGE = component(
    "Usage",
    closed_object(
        {
            "flag": KEY,
            "environment": KEY,
            "from": _MOMENT,
            "to": _MOMENT,
            "interval": _INTERVAL,
            "total": {"type": "integer", "minimum": 0},
            "lastEvaluatedAt": {
                "type": ["string", "null"],
                "format": "date-time",
                "description": "The start of the hour in which it was last evaluated, whether or not that lies between "
                "`from` and `to`; null where it was not in the last 90 days.",
            },
            "outcomes": {
                "type": "array",
                "items": component("OutcomeUsage", _OUTCOME),
                "description": "The most frequent first.",
            },
            "series": {
                "type": "array",
                "items": component("IntervalUsage", _INTERVAL_COUNTS),
                "description": "In order of time; an interval without evaluations is left out.",
            },
        },
        "How often a flag was evaluated in the environment of the request.",
    ),
)

retrieve = extend_schema(
    operation_id="get_flag_usage",
    summary="Get the usage of a flag",
    description="How often the flag was evaluated in the environment of the request, and with what outcome: by this "
    "API and by OpenFeature's clients, for itself or because another flag needs it. In one request it counts once. "
    "Explanations do not count, nor do evaluations that callers make by a ruleset themselves. Counts are kept by whole "
    "hours for 90 days and are a few seconds late: the hour of `from` counts in full.",
    parameters=[
        key_in_path("flag_key", "flag"),
        query("from", MOMENT, "From the hour of this moment on; a date is its first instant. Default: 7 days before."),
        query("to", MOMENT, "Up to the hour of this moment; a date is its last instant. Default: now."),
        query("interval", {**_INTERVAL, "default": "hour"}, "What the series is in steps of; days are those of UTC."),
    ],
    responses={
        200: answer(
            _USAGE,
            "The usage.",
            {
                "flag": "new-checkout",
                "environment": "production",
                "from": "2026-01-24T12:00:00.000000Z",
                "to": "2026-01-31T12:00:00.000000Z",
                "interval": "day",
                "total": 4000,
                "lastEvaluatedAt": "2026-01-31T11:00:00.000000Z",
                "outcomes": [
                    {"outcome": "off", "count": 3000, "share": 0.75},
                    {"outcome": "on", "count": 1000, "share": 0.25},
                ],
                "series": [{"at": "2026-01-31T00:00:00.000000Z", "counts": {"off": 3000, "on": 1000}}],
            },
        ),
        **errors(ErrorCode.FLAG_NOT_FOUND),
    },
)


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

    @retrieve
    def retrieve(self, request: Request, flag_key: str) -> Response:
        asked_for = read_parameters(request, PeriodFilter)
        self.refuse_body(request)
        interval = Interval(asked_for["interval"] or Interval.HOUR)
        start, end = _period(asked_for["from"], asked_for["to"], self.now)
        flag = flag_changes.get_flag(flag_key, self.environment)
        usage = read_usage(flag, self.environment, start=start, end=end, interval=interval)
        about = {"flag": flag.key, "environment": self.environment.key}
        period = {"from": format_timestamp(start), "to": format_timestamp(end), "interval": interval.value}
        return Response({**about, **period, **_told(usage)})


def _period(start: datetime | None, end: datetime | None, now: datetime) -> tuple[datetime, datetime]:
    end = end or now
    start = start or end - min(_USUAL, end - _FIRST)
    if start > end:
        raise _refused("Must not be after `to`.")
    if end - start > RETENTION:
        raise _refused(f"Must be at most {RETENTION.days} days before `to`: counts are kept for so long.")
    return start, end


def _refused(message: str) -> ValidationFailed:
    return ValidationFailed([Detail("from", DetailCode.OUT_OF_RANGE, message)], code=ErrorCode.INVALID_PARAMETER)


def _told(usage: UsageSeries) -> dict[str, Any]:
    last = usage.last_hour
    return {
        "total": usage.total,
        "lastEvaluatedAt": format_timestamp(last) if last else None,
        "outcomes": [{"outcome": each.key, "count": each.count, "share": each.share} for each in usage.outcomes],
        "series": [{"at": format_timestamp(at), "counts": counts} for at, counts in usage.series.items()],
    }
