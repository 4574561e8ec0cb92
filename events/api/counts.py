"""The operation that counts events, with its OpenAPI description."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, NoReturn
from zoneinfo import ZoneInfo

import django_filters
from drf_spectacular.utils import extend_schema
from msgspec import UNSET, Meta, UnsetType, field
from rest_framework.request import Request
from rest_framework.response import Response

from config.api.filters import ChoiceFilter, MomentFilter, TextFilter, read_parameters
from config.api.parameters import parameters_of
from config.api.permissions import Access
from config.api.schema import answer, operation
from config.api.structs import Answer, Count, Key, Moment, Name, described, one_of, schema_of
from config.api.views import ApiViewSet
from config.database.replica import ReplicaReads
from config.errors import Detail, DetailCode, ErrorCode, ValidationFailed
from config.models import Scope
from config.timestamps import format_timestamp
from events.counts.intervals import MAX_INTERVALS, Interval, Intervals, intervals, zone_names
from events.counts.queries import MAX_NAMES, CountSeries, count_events
from events.counts.storage import start_of
from events.models import EventCount

_Positive = Annotated[int, Meta(ge=1)]
_Others = Annotated[
    Count | UnsetType, described(f"The events of all other names, if there are more than {MAX_NAMES} names.")
]
_EVENTS = f"The {MAX_NAMES} most frequent names of all intervals together, the most frequent first."


class NamedCount(Answer):
    """The events of one name."""

    event: Name
    count: _Positive


class IntervalCounts(Answer):
    """The events of one hour or day."""

    at: Annotated[Moment, described("The start of the interval, in UTC.")]
    local: Annotated[Moment, described("The start of the interval, in local time.")]
    counts: Annotated[dict[str, _Positive], described("The counts by name of the event.")]
    other: _Others = UNSET


class EventCounts(Answer, kw_only=True):
    """The number of events in the environment of the request."""

    environment: Key
    interval: Annotated[str, one_of(Interval)]
    time_zone: Annotated[str, Meta(min_length=1, max_length=200)]
    start: Annotated[Moment, described("The start of the first interval.")] = field(name="from")
    end: Annotated[Moment, described("The end of the last interval, which is no longer part of it.")] = field(name="to")
    total: Count
    events: Annotated[list[NamedCount], Meta(max_length=MAX_NAMES), described(_EVENTS)]
    other: _Others = UNSET
    series: Annotated[
        list[IntervalCounts],
        Meta(min_length=1, max_length=MAX_INTERVALS),
        described("All intervals in order of time, including those without events."),
    ]


_STEP = {Interval.DAY: timedelta(days=1), Interval.HOUR: timedelta(hours=1)}
_DEFAULT_SPAN = {Interval.DAY: timedelta(days=30), Interval.HOUR: timedelta(hours=48)}
_FIRST = datetime(1980, 1, 1, tzinfo=UTC)
"""Before, the offsets of some zones were not whole quarters of an hour."""
_LAST = datetime(9999, 1, 1, tzinfo=UTC)
_DATE_LENGTH = len("2026-01-31")


class CountFilter(django_filters.FilterSet):
    interval = ChoiceFilter(Interval, initial=Interval.DAY.value, label="The length of the intervals.")
    timeZone = TextFilter(
        initial="UTC", label="The time zone of the hours and days, by its IANA name, such as `Europe/Zurich`."
    )
    event = TextFilter(label="Only events with this name.")
    to = MomentFilter(
        end_of_day=True, label="The last interval contains this time, or the end of this date. Default: now."
    )

    class Meta:
        model = EventCount
        fields = ()


# A keyword of Python cannot name an attribute.
CountFilter.base_filters["from"] = MomentFilter(
    label="The first interval contains this time. A date is one of the time zone. Default: 30 "
    "days before `to`, or 48 hours if the interval is `hour`."
)


@extend_schema(tags=["Events"])
class CountViewSet(ApiViewSet):
    access = {"retrieve": Access(Scope.SERVER, "events.view_event")}

    @operation(
        "count_events",
        "Count events",
        description="Returns the number of events with each name in the hours or days of a time zone, "
        "by the `timestamp` of the events. Counts are exact, because they change in the same "
        "transaction as the events. Days are those of the local calendar; they have 23 or 25 hours "
        f"where clocks change, and a repeated hour appears twice. There are at most {MAX_INTERVALS:,} "
        "intervals, all of them whole: the first contains `from`, and the last contains `to`. Only "
        "years from 1980 on are possible.",
        parameters=parameters_of(CountFilter),
        responses={200: answer(schema_of(EventCounts), "The counts.")},
    )
    def retrieve(self, request: Request) -> Response:
        parameters = read_parameters(request, CountFilter)
        self.refuse_body(request)
        interval = Interval(parameters["interval"] or Interval.DAY)
        zone = _zone(parameters["timeZone"] or "UTC")
        start = _in_zone(parameters["from"], zone, "from", request)
        end = _in_zone(parameters["to"], zone, "to", request) or self.now
        shown = _intervals(interval, zone, start or max(_FIRST, end - _DEFAULT_SPAN[interval]), end)
        count = partial(count_events, self.environment, shown, name=parameters["event"] or None)
        counts = ReplicaReads(EventCount).read(count)
        return Response(_answer(self.environment.key, interval, counts, shown, zone).as_json())


def _zone(name: str) -> ZoneInfo:
    if name not in zone_names():
        message = "Must be the exact name of a time zone, such as Europe/Zurich or UTC."
        _refuse("timeZone", DetailCode.INVALID_VALUE, message)
    return ZoneInfo(name)


def _in_zone(sent: datetime | None, zone: ZoneInfo, parameter: str, request: Request) -> datetime | None:
    """Return a time that was sent. A date is one of the zone's calendar.

    If clocks change at midnight, the end of a date is by the clocks after the change: a repeated last hour belongs to
    the date, and the time after a skipped one does not.
    """
    if sent is None:
        return None
    if not _FIRST <= sent < _LAST:
        message = f"Must be in the years {_FIRST.year} to {_LAST.year - 1}."
        _refuse(parameter, DetailCode.OUT_OF_RANGE, message)
    is_date = len(request.query_params[parameter].strip()) == _DATE_LENGTH
    return sent.replace(tzinfo=zone, fold=int(parameter == "to")).astimezone(UTC) if is_date else sent


def _intervals(interval: Interval, zone: ZoneInfo, start: datetime, end: datetime) -> Intervals:
    if start > end:
        _refuse("from", DetailCode.OUT_OF_RANGE, "Must not be after `to`.")
    if end - start <= _STEP[interval] * (MAX_INTERVALS + 2):  # few enough to make and count them
        shown = intervals(interval, zone, start, end)
        if len(shown.starts) <= MAX_INTERVALS:
            return shown
    message = f"Must be nearer to `to`; there can be at most {MAX_INTERVALS:,} {interval}s between them."
    _refuse("from", DetailCode.OUT_OF_RANGE, message)


def _refuse(field: str, code: DetailCode, message: str) -> NoReturn:
    raise ValidationFailed([Detail(field, code, message)], code=ErrorCode.INVALID_PARAMETER)


def _answer(environment: str, interval: Interval, counts: CountSeries, shown: Intervals, zone: ZoneInfo) -> EventCounts:
    overall = counts.overall
    has_others = bool(overall.others)
    return EventCounts(
        environment=environment,
        interval=interval.value,
        time_zone=zone.key,
        start=_format(shown.starts[0]),
        end=_format(shown.end),
        total=overall.total,
        events=[NamedCount(event=name, count=count) for name, count in overall.by_name.items()],
        other=overall.others if has_others else UNSET,
        series=[
            IntervalCounts(
                at=_format(start),
                local=start_of(start).astimezone(zone).isoformat(),
                counts=dict(occurrences.by_name),
                other=occurrences.others if has_others else UNSET,
            )
            for start, occurrences in zip(shown.starts, counts.series, strict=True)
        ],
    )


def _format(quarter: int) -> str:
    return format_timestamp(start_of(quarter))
