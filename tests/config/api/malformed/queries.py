"""Rows: query strings, limits and cursors."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

from tests.config.api.malformed.cases import BAD_TIMESTAMPS, ID, LISTS, RUNNING, Case


def cursor(document: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(document, separators=(",", ":")).encode()).decode().rstrip("=")


_AT, _LATER = "2026-01-31 12:00:00+00:00", "2026-01-31 12:00:00"
_BAD_LIMITS = (
    "ten",
    "1.5",
    "-1",
    "0",
    "1001",
    "%D9%A1%D9%A0",
    "1e3",
    "9" * 30,
    "+5",
    "0x10",
    "",
    "1%00",
    "%20 5",
    "NaN",
)
_BAD_CURSORS = {
    "garbage": "garbage",
    "empty": "",
    "not base64": "%21%21%21",
    "no JSON": base64.urlsafe_b64encode(b"{").decode(),
    "a number": cursor(1),
    "null": cursor(None),
    "an array": cursor(["a", "b"]),
    "an empty object": cursor({}),
    "of other columns": cursor({"name": "a"}),
    "with U+0000": cursor({"key": "a\0"}),
    "with an array in it": cursor({"key": ["a"], "timestamp": ["a"], "created_at": ["a"], "id": ["a"]}),
    "with a number in it": cursor({"key": 1}),
    "a whole URL": "https%3A%2F%2Ftestserver%2Fv1%2Fflags%3Fcursor%3Dabc",
    "huge": "A" * 20_000,
    "invalid UTF-8": "%FF%FE",
    "Arabic digits": "%D9%A1%D9%A0",
}


def _refused(path: str, name: str, query: str, field: str | None) -> Case:
    return Case(f"{path}: {name}", "GET", f"{path}?{query}", code="invalid_parameter", field=field)


def lists() -> Iterator[Case]:
    """What every list refuses."""
    for path in LISTS:
        for limit in _BAD_LIMITS:
            yield _refused(path, f"limit is {limit[:10]!r}", f"limit={limit}", "limit")
        for name, text in _BAD_CURSORS.items():
            yield _refused(path, f"cursor is {name}", f"limit=1&cursor={text}", "cursor")
        yield _refused(path, "unknown parameter", "offset=10", "offset")
        yield _refused(path, "parameter in another case", "Limit=10", "Limit")
        yield _refused(path, "parameter with no name", "=10", "body")
        yield _refused(path, "parameter of invalid UTF-8", "%FF=1", "?")
        yield _refused(path, "limit twice", "limit=10&limit=20", "limit")
        yield _refused(path, "2,000 parameters", "&".join(["limit=1"] * 2000), None)
        yield Case(f"{path}: a body", "GET", path, b'{"limit": 1}', field="limit")


def tampered() -> Iterator[Case]:
    """Cursors that came from elsewhere, or were changed on the way."""
    before_time = "0001-01-01 00:00:00+14:00"
    yield _refused("/v1/events", "cursor of experiments", f"cursor={cursor({'created_at': _AT, 'id': ID})}", "cursor")
    yield _refused("/v1/experiments", "cursor of events", f"cursor={cursor({'timestamp': _AT, 'id': ID})}", "cursor")
    yield _refused("/v1/audit", "cursor of flags", f"cursor={cursor({'key': 'a'})}", "cursor")
    yield _refused("/v1/audit", "cursor with no number", f"cursor={cursor({'revision': 'a'})}", "cursor")
    yield _refused("/v1/audit", "cursor with a fraction", f"cursor={cursor({'revision': '1.5'})}", "cursor")
    yield _refused("/v1/flags", "cursor of events", f"cursor={cursor({'timestamp': _AT, 'id': ID})}", "cursor")
    for name, document in {
        "with no offset": {"timestamp": _LATER, "id": ID},
        "with a date": {"timestamp": "2026-01-31", "id": ID},
        "before year 1": {"timestamp": before_time, "id": ID},
        "with no UUID": {"timestamp": _AT, "id": "1"},
        "with columns swapped": {"id": ID, "timestamp": _AT},
    }.items():
        yield _refused("/v1/events", f"cursor {name}", f"cursor={cursor(document)}", "cursor")


def filters() -> Iterator[Case]:
    """The filters of each list."""
    for path, name in (
        ("/v1/flags", "search"),
        ("/v1/flags", "owner"),
        ("/v1/segments", "search"),
        ("/v1/metrics", "search"),
        ("/v1/experiments", "search"),
        ("/v1/events", "userId"),
        ("/v1/events", "event"),
        ("/v1/events", "experimentId"),
    ):
        for kind, text in {"U+0000": "a%00", "invalid UTF-8": "%C3%28", "a surrogate": "%ED%A0%80"}.items():
            yield _refused(path, f"{name} with {kind}", f"{name}={text}", name)
        longest = 2000 if name == "experimentId" else 200
        yield _refused(path, f"{name} of too many characters", f"{name}={'x' * (longest + 1)}", name)
        yield _refused(path, f"{name} twice", f"{name}=a&{name}=a", name)
        yield _refused(path, f"{name} is empty", f"{name}=", name)
    for name in ("enabled", "archived", "expired", "stale"):
        for text in ("1", "yes", "True", "on", "null", ""):
            yield _refused("/v1/flags", f"{name} is {text!r}", f"{name}={text}", name)
    for name in ("from", "to"):
        for kind, text in BAD_TIMESTAMPS.items():
            quoted = "".join(f"%{byte:02X}" for byte in text.encode())
            for path in ("/v1/events", "/v1/audit", "/v1/flags/known/usage"):
                yield _refused(path, f"{name} is {kind}", f"{name}={quoted}", name)


def choices() -> Iterator[Case]:
    """Filters that take one of a few, or a text of another length."""
    yield _refused("/v1/flags", "tag of 51 characters", f"tag={'x' * 51}", "tag")
    yield _refused("/v1/audit", "actor of 251 characters", f"actor={'x' * 251}", "actor")
    for text in ("flags", "/known", "flag%2F%00", "x" * 301, ""):
        yield _refused("/v1/audit", f"object is {text[:10]!r}", f"object={text}", "object")
    for text in ("API", "web", ""):
        yield _refused("/v1/audit", f"source is {text!r}", f"source={text}", "source")
    for text in ("week", "Hour", "hour,day", ""):
        yield _refused("/v1/flags/known/usage", f"interval is {text!r}", f"interval={text}", "interval")


def results() -> Iterator[Case]:
    """Parameters of results and of their explanation: what the experiment does not have, and what nothing could be."""
    path = f"{RUNNING}/results"
    texts = {"unknown": "x", "U+0000": "a%00", "invalid UTF-8": "%C3%28", "a surrogate": "%ED%A0%80", "empty": ""}
    for name in ("metric", "control", "breakdown", "correction", "series", "audit"):
        for kind, text in texts.items():
            yield _refused(path, f"{name} is {kind}", f"{name}={text}", name)
        yield _refused(path, f"{name} twice", f"{name}=buy&{name}=buy", name)
        yield _refused(path, f"{name} of too many characters", f"{name}={'x' * 201}", name)
    for name, other in (("metric", "variant=a"), ("variant", "metric=buy")):
        yield _refused(f"{path}/explain", f"{name} is missing", other, name)
        for kind, text in texts.items():
            yield _refused(f"{path}/explain", f"{name} is {kind}", f"{other}&{name}={text}", name)


def numbers() -> Iterator[Case]:
    """Parameters of the planner that are numbers, or whole ones."""
    for name in (
        "mde",
        "baseline",
        "standardDeviation",
        "power",
        "alpha",
        "usersPerDay",
        "variants",
        "tuningSampleSize",
        "varianceReduction",
    ):
        for text in ("x", "nan", "Infinity", "1e999", "0x1", "1_0", "%D9%A3", "+1", "", "9" * 31, "%00", "%ED%A0%80"):
            yield _refused("/v1/planner", f"{name} is {text[:10]!r}", f"{name}={text}", name)
    for name in ("metric", "experiment"):
        yield _refused("/v1/planner", f"{name} with U+0000", f"mde=0.1&baseline=0.1&{name}=a%00", name)
    for text in ("started", "Running", "draft,running", ""):
        yield _refused("/v1/experiments", f"status is {text!r}", f"status={text}", "status")
