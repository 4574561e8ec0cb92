"""Rows: events and batches that are not acceptable."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.config.api.malformed.cases import BATCH, ID, TRACK, Case


def events() -> Iterator[Case]:
    properties = {
        "revenue is a text": ({"revenue": "19.99"}, "properties.revenue"),
        "currency has two letters": ({"currency": "EU"}, "properties.currency"),
        "currency has digits": ({"currency": "E12"}, "properties.currency"),
        "currency has other letters": ({"currency": "\u0415UR"}, "properties.currency"),
        "properties of 33 KiB": ({"text": "x" * 33 * 1024}, "properties"),
        "properties of 33 KiB in one name": ({"x" * 33 * 1024: 1}, "properties"),
        "properties of 33 KiB of emoji": ({"text": "🙂" * (33 * 256)}, "properties"),
    }
    for name, (value, field) in properties.items():
        body = json.dumps({"event": "buy", "userId": "u", "properties": value}).encode()
        yield Case(f"track: {name}", "POST", TRACK.path, body, field=field)
        body = json.dumps({"events": [{"event": "buy", "userId": "u", "properties": value}]}).encode()
        yield Case(f"batch: {name}", "POST", BATCH.path, body, field=f"events[0].{field}")
    ids = {
        "no UUID": "order-17",
        "empty": "",
        "a UUID in braces": f"{{{ID}}}",
        "a UUID as a URN": f"urn:uuid:{ID}",
        "a UUID without hyphens": ID.replace("-", ""),
        "a UUID with a letter too many": f"{ID}0",
        "a UUID with a newline": f"{ID}\n",
    }
    for name, value in ids.items():
        body = json.dumps({**TRACK.body, "id": value}).encode()
        yield Case(f"track: id is {name}", "POST", TRACK.path, body, field="id")
    event = {"event": "buy", "userId": "u"}
    batches: Mapping[str, tuple[list[Any], str]] = {
        "no event": ([], "events"),
        "an event is null": ([None], "events[0]"),
        "an event is a string": (["buy"], "events[0]"),
        "an event is an array": ([[event]], "events[0]"),
        "an event has no user": ([{"event": "buy"}], "events[0].userId"),
        "an event has a field too many": ([{**event, "user": "u"}], "events[0].user"),
        "all events are bad": ([{"event": "buy"}, {"userId": 1}], "events[0].userId"),
        "an event has no such day": ([{**event, "timestamp": "2026-02-30"}], "events[0].timestamp"),
        "an event has a bad id": ([{**event, "id": "1"}], "events[0].id"),
    }
    for name, (sent, field) in batches.items():
        yield Case(f"batch: {name}", "POST", BATCH.path, json.dumps({"events": sent}).encode(), field=field)
    yield Case("batch: empty object", "POST", BATCH.path, b"{}", field="events")
    yield Case("batch: no body", "POST", BATCH.path, field="events")
    yield Case("batch: events twice", "POST", BATCH.path, b'{"events": [], "events": []}', field="events")
    yield Case("track: userId twice", "POST", TRACK.path, b'{"event":"e","userId":"u","userId":"v"}', field="userId")
    yield Case("track: no body", "POST", TRACK.path, field="event")
    yield Case("batch: a surrogate as a field", "POST", BATCH.path, rb'{"\ud800": 1, "events": []}', field="?")
    body = json.dumps({"events": [event] * 1001}).encode()
    yield Case("batch: 1,001 events", "POST", BATCH.path, body, status=413, code="batch_too_large")
