"""The operation that returns how often a flag was evaluated."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import django_filters
from drf_spectacular.utils import extend_schema
from msgspec import Meta, field
from rest_framework.request import Request
from rest_framework.response import Response

from config.api.filters import ChoiceFilter, MomentFilter, read_parameters
from config.api.parameters import parameters_of
from config.api.permissions import Access
from config.api.schema import answer, operation
from config.api.structs import Answer, Count, Key, Moment, Share, described, one_of, schema_of
from config.api.views import ApiViewSet
from config.errors import Detail, DetailCode, ErrorCode, ValidationFailed
from config.models import Scope
from config.timestamps import format_timestamp
from flags import models
from flags.changes import flag_changes
from flags.usage.series import Interval, read_usage
from flags.usage.storage import RETENTION

_Count = Annotated[int, Meta(ge=1)]
_INTERVALS = [interval.value for interval in Interval]


class OutcomeUsage(Answer):
    """An outcome of the evaluations, and how often it occurred."""

    outcome: Annotated[Key, described("The key of a variant. For a flag without variants: `on` or `off`.")]
    count: Annotated[_Count, described("The number of evaluations with this outcome.")]
    share: Annotated[Share, described("The share of all evaluations, from 0 to 1.")]


class IntervalUsage(Answer):
    """The counts of one hour or day."""

    at: Annotated[Moment, described("The start of the interval.")]
    counts: Annotated[dict[str, _Count], described("The number of evaluations by outcome.")]


_LAST_EVALUATION = (
    "The start of the hour of the last evaluation, even if it is not between `from` and `to`. It is null if there was "
    f"none in the last {RETENTION.days} days."
)


class Usage(Answer):
    """How often a flag was evaluated in the environment of the request."""

    flag: Annotated[Key, described("The key of the flag.")]
    environment: Annotated[Key, described("The key of the environment.")]
    start: Annotated[Moment, described("The start of the period.")] = field(name="from")
    end: Annotated[Moment, described("The end of the period.")] = field(name="to")
    interval: Annotated[str, one_of(_INTERVALS), described("The length of the intervals of `series`.")]
    total: Annotated[Count, described("The number of evaluations in the period.")]
    last_evaluated_at: Annotated[Moment | None, described(_LAST_EVALUATION)]
    outcomes: Annotated[list[OutcomeUsage], described("The outcomes, the most frequent first.")]
    series: Annotated[
        list[IntervalUsage], described("The intervals in order of time. Those without evaluations are left out.")
    ]


_DEFAULT_PERIOD = timedelta(days=7)
_FIRST_MOMENT = datetime.min.replace(tzinfo=UTC)


class PeriodFilter(django_filters.FilterSet):
    interval = ChoiceFilter(
        _INTERVALS, initial=Interval.HOUR.value, label="The length of the intervals of `series`. Days are those of UTC."
    )
    to = MomentFilter(end_of_day=True, label="The end. A date is its last instant. Default: now.")

    class Meta:
        model = models.Usage
        fields = ()


PeriodFilter.base_filters["from"] = MomentFilter(
    label="The start. A date is its first instant. Default: 7 days before `to`."
)  # `from` is a keyword of Python


@extend_schema(tags=["Flags"])
class UsageViewSet(ApiViewSet):
    access = {"retrieve": Access(Scope.SERVER, "flags.view_flag")}
    lookup_url_kwarg = "flag_key"

    @operation(
        "get_flag_usage",
        "Get the usage of a flag",
        description="Returns how often the flag was evaluated in the environment of the request, by "
        "outcome. Evaluations by this API and by OpenFeature's clients count, including those of a "
        "prerequisite of another flag. A flag counts once in a request. Explanations and evaluations "
        f"by callers with a ruleset do not count. Counts are kept by hour for {RETENTION.days} days "
        "and are a few seconds late. The hours of `from` and `to` count in full.",
        parameters=parameters_of(PeriodFilter),
        responses={200: answer(schema_of(Usage), "The usage.")},
    )
    def retrieve(self, request: Request, flag_key: str) -> Response:
        parameters = read_parameters(request, PeriodFilter)
        self.refuse_body(request)
        interval = Interval(parameters["interval"] or Interval.HOUR)
        start, end = _period(parameters["from"], parameters["to"], self.now)
        flag = flag_changes.get_flag(flag_key, self.environment)
        usage = read_usage(flag, self.environment, start=start, end=end, interval=interval)
        answer = Usage(
            flag=flag.key,
            environment=self.environment.key,
            start=format_timestamp(start),
            end=format_timestamp(end),
            interval=interval.value,
            total=usage.total,
            last_evaluated_at=format_timestamp(usage.last_hour) if usage.last_hour else None,
            outcomes=[
                OutcomeUsage(outcome=outcome.key, count=outcome.count, share=outcome.share)
                for outcome in usage.outcomes
            ],
            series=[IntervalUsage(at=format_timestamp(at), counts=dict(counts)) for at, counts in usage.series.items()],
        )
        return Response(answer.as_json())


def _period(start: datetime | None, end: datetime | None, now: datetime) -> tuple[datetime, datetime]:
    end = end or now
    start = start or end - min(_DEFAULT_PERIOD, end - _FIRST_MOMENT)
    if start > end:
        raise _invalid_start("Must not be after `to`.")
    if end - start > RETENTION:
        raise _invalid_start(f"Must be at most {RETENTION.days} days before `to`: counts are kept for so long.")
    return start, end


def _invalid_start(message: str) -> ValidationFailed:
    return ValidationFailed([Detail("from", DetailCode.OUT_OF_RANGE, message)], code=ErrorCode.INVALID_PARAMETER)
