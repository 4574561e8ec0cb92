"""How the OpenAPI document describes the operation that says how many events there were."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema

from config.api.schema import KEY, MOMENT, NAME, TEXT, Schema, answer, closed_object, component, errors, query
from events.count_queries import MOST_NAMES
from events.intervals import MOST_INTERVALS, Interval

_MOMENT: Schema = {"type": "string", "format": "date-time"}
_COUNT: Schema = {"type": "integer", "minimum": 1}
_NUMBER: Schema = {"type": "integer", "minimum": 0}
_INTERVAL: Schema = {"type": "string", "enum": [each.value for each in Interval]}
_OTHER: Schema = {
    **_NUMBER,
    "description": f"Events of all other names. It is there where there are more than {MOST_NAMES} names.",
}
_NAMED: Schema = closed_object({"event": NAME, "count": _COUNT}, "The events of one name.")
_INTERVAL_COUNTS: Schema = closed_object(
    {
        "at": {**_MOMENT, "description": "The start of the interval, in UTC."},
        "local": {**_MOMENT, "description": "The same moment by the clocks of the time zone."},
        "counts": {"type": "object", "additionalProperties": _COUNT, "description": "By name of the event."},
        "other": _OTHER,
    },
    "The events of one hour or day.",
    optional=["other"],
)
_COUNTS = component(
    "EventCounts",
    closed_object(
        {
            "environment": KEY,
            "interval": _INTERVAL,
            "timeZone": TEXT,
            "from": {**_MOMENT, "description": "The start of the first interval."},
            "to": {**_MOMENT, "description": "The end of the last interval; what happens then is not in it any more."},
            "total": _NUMBER,
            "events": {
                "type": "array",
                "items": component("NamedCount", _NAMED),
                "maxItems": MOST_NAMES,
                "description": f"The {MOST_NAMES} most frequent names of all intervals together, the first one first.",
            },
            "other": _OTHER,
            "series": {
                "type": "array",
                "items": component("IntervalCounts", _INTERVAL_COUNTS),
                "minItems": 1,
                "maxItems": MOST_INTERVALS,
                "description": "Every interval in order of time, also where nothing happened.",
            },
        },
        "How many events there were in the environment of the request.",
        optional=["other"],
    ),
)

retrieve = extend_schema(
    operation_id="count_events",
    summary="Count events",
    description="How many events there were of each name, by the hours or days of a time zone and the `timestamp` of "
    "the events. Counts are exact at the moment of reading: they change with the events, in one transaction. Days are "
    "dates of the local calendar, of 23 or 25 hours where clocks change; the hour that is repeated then stands there "
    f"twice. Intervals are always whole, and at most {MOST_INTERVALS:,}: the first one holds `from`, the last one "
    "`to`. Only years from 1980 on can be asked for.",
    parameters=[
        query("interval", {**_INTERVAL, "default": "day"}, "What the series is in steps of."),
        query("timeZone", {**TEXT, "default": "UTC"}, "Whose hours and days: an IANA name such as `Europe/Zurich`."),
        query("event", NAME, "Only events of this name."),
        query(
            "from",
            MOMENT,
            "From the interval of this moment on; a date is one of the time zone. Default: 30 days before `to`, or 48 "
            "hours where the interval is `hour`.",
        ),
        query("to", MOMENT, "Up to the interval of this moment, or to the end of this date. Default: now."),
    ],
    responses={
        200: answer(
            _COUNTS,
            "The counts.",
            {
                "environment": "production",
                "interval": "day",
                "timeZone": "Europe/Zurich",
                "from": "2026-03-27T23:00:00.000000Z",
                "to": "2026-03-29T22:00:00.000000Z",
                "total": 42,
                "events": [{"event": "page_view", "count": 40}, {"event": "purchase", "count": 2}],
                "series": [
                    {
                        "at": "2026-03-27T23:00:00.000000Z",
                        "local": "2026-03-28T00:00:00+01:00",
                        "counts": {"page_view": 40, "purchase": 2},
                    },
                    {"at": "2026-03-28T23:00:00.000000Z", "local": "2026-03-29T00:00:00+01:00", "counts": {}},
                ],
            },
        ),
        **errors(),
    },
)
