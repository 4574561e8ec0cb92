"""What a row of the table is, and the operations that the rows are sent to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

FLAG = "/v1/flags/known"
SEGMENT = "/v1/segments/listed"
METRIC = "/v1/metrics/defined"
DRAFT = "/v1/experiments/draft"
RUNNING = "/v1/experiments/running"
ID = "01937a5e-9c1b-7d3a-8f00-4e1d2c3b4a59"
VARIANTS = [{"key": "a", "weight": 1}, {"key": "b", "weight": 1}]
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class Case(NamedTuple):
    """One request and its answer. `field` is the first that is blamed, or None where no field is."""

    name: str
    method: str
    target: str
    body: bytes = b""
    status: int = 400
    code: str = "validation_failed"
    field: str | None = None
    headers: Mapping[str, str | None] = {}


class Operation(NamedTuple):
    """An operation that takes a body, with one that it would accept."""

    name: str
    method: str
    path: str
    body: dict[str, Any]


CREATE_FLAG = Operation(
    "create flag",
    "POST",
    "/v1/flags",
    {"key": "new", "description": "d", "enabled": True, "rules": [{"type": "percentage", "percentage": 5}]},
)
UPDATE_FLAG = Operation("update flag", "PATCH", FLAG, {"description": "other", "enabled": True, "rules": []})
EVALUATE = Operation("evaluate", "POST", f"{FLAG}/evaluate", {"userId": "u", "attributes": {"plan": "pro"}})
EVALUATE_ALL = Operation("evaluate all", "POST", "/v1/evaluate", {"userId": "u", "attributes": {}, "flags": ["known"]})
EXPLAIN = Operation("explain", "POST", f"{FLAG}/explain", {"userId": "u", "attributes": {}, "at": "2099-01-31"})
PREVIEW = Operation(
    "preview", "POST", f"{FLAG}/preview", {"enabled": True, "rules": [{"type": "percentage", "percentage": 5}]}
)
ARCHIVE = Operation("archive", "POST", f"{FLAG}/archive", {})
RESTORE = Operation("restore", "POST", "/v1/flags/archived/restore", {})
REVERT = Operation("revert", "POST", "/v1/flags/archived/revert", {"revision": 3})
PROMOTE = Operation("promote", "POST", "/v1/promote", {"from": "staging", "flags": ["known"], "dryRun": True})
CREATE_SEGMENT = Operation(
    "create segment",
    "POST",
    "/v1/segments",
    {
        "key": "new",
        "description": "d",
        "conditions": [{"attribute": "plan", "operator": "equals", "value": "pro"}],
        "userIds": ["u"],
    },
)
UPDATE_SEGMENT = Operation(
    "update segment", "PATCH", SEGMENT, {"description": "other", "conditions": [], "userIds": ["u"]}
)
CREATE_METRIC = Operation(
    "create metric",
    "POST",
    "/v1/metrics",
    {"key": "new", "description": "d", "type": "ratio", "event": "buy", "denominator": {"event": "view"}},
)
UPDATE_METRIC = Operation(
    "update metric", "PATCH", METRIC, {"description": "other", "event": "order", "windowHours": 24, "capValue": 9.5}
)
CREATE_EXPERIMENT = Operation(
    "create experiment",
    "POST",
    "/v1/experiments",
    {"key": "new", "description": "d", "variants": VARIANTS, "metrics": ["buy"]},
)
UPDATE_EXPERIMENT = Operation(
    "update experiment", "PATCH", DRAFT, {"description": "other", "variants": VARIANTS, "metrics": ["other"]}
)
START = Operation("start", "POST", f"{DRAFT}/start", {})
STOP = Operation("stop", "POST", f"{RUNNING}/stop", {})
VARIANT = Operation("variant", "POST", f"{RUNNING}/variant", {"userId": "u", "attributes": {"plan": "pro"}})
TRACK = Operation(
    "track",
    "POST",
    "/v1/events",
    {
        "id": ID,
        "event": "buy",
        "userId": "u",
        "timestamp": "2026-01-31T12:00:00Z",
        "properties": {"revenue": 1.5, "currency": "EUR", "experimentId": "running", "variant": "a"},
    },
)
BATCH = Operation("batch", "POST", "/v1/events/batch", {"events": [{"event": "buy", "userId": "u"}]})
OPERATIONS = (
    CREATE_FLAG,
    UPDATE_FLAG,
    EVALUATE,
    EVALUATE_ALL,
    EXPLAIN,
    PREVIEW,
    ARCHIVE,
    RESTORE,
    REVERT,
    PROMOTE,
    CREATE_SEGMENT,
    UPDATE_SEGMENT,
    CREATE_METRIC,
    UPDATE_METRIC,
    CREATE_EXPERIMENT,
    UPDATE_EXPERIMENT,
    START,
    STOP,
    VARIANT,
    TRACK,
    BATCH,
)
LISTS = (
    "/v1/flags",
    "/v1/flags/known/history",
    "/v1/segments",
    "/v1/metrics",
    "/v1/audit",
    "/v1/environments",
    "/v1/keys",
    "/v1/experiments",
    "/v1/events",
)


BAD_KEYS = {
    "empty": "",
    "a space": " ",
    "with a space": "a b",
    "with a slash": "a/b",
    "beginning with a dot": ".a",
    "beginning with a hyphen": "-a",
    "with a newline at its end": "a\n",
    "with an umlaut": "schlüssel",
    "an emoji": "🙂",
    "Arabic digits": "\u0661\u0660",
    "of 101 characters": "a" * 101,
}
BAD_TIMESTAMPS = {
    "no date": "yesterday",
    "empty": "",
    "a number in quotes": "1767225600",
    "30 February": "2026-02-30",
    "29 February of a common year": "2026-02-29T00:00:00Z",
    "month 13": "2026-13-01",
    "hour 25": "2026-01-31T25:00:00Z",
    "minute 60": "2026-01-31T12:60:00Z",
    "second 61": "2026-01-31T12:00:61Z",
    "an offset of 99 hours": "2026-01-31T12:00:00+99:00",
    "an offset without minutes": "2026-01-31T12:00:00+2",
    "year 0": "0000-01-01T00:00:00Z",
    "year 10000": "10000-01-01T00:00:00Z",
    "before year 1 in UTC": "0001-01-01T00:00:00+14:00",
    "after year 9999 in UTC": "9999-12-31T23:59:59-14:00",
    "a week": "2026-W05-6",
    "Arabic digits": "\u0662\u0660\u0662\u0666-01-31",
    "a date in American": "01/31/2026",
}
