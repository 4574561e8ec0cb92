"""The search for requests that the malformed ones lack: never a 500, always the envelope, nothing half-written."""

from __future__ import annotations

import json
from random import Random
from typing import Any
from urllib.parse import quote, quote_from_bytes

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.config.api.anything import any_json, nearly_right
from tests.config.api.conftest import World
from tests.config.api.malformed.cases import FORM, LISTS, OPERATIONS, Operation
from tests.config.api.wire import Answer, failure, send
from tests.transactions import undone

pytestmark = pytest.mark.broad

BODIES = 60
"""How many are tried on each operation."""
# The same requests in every run: what was found is a row of the table before it is a coincidence.
search = settings(
    max_examples=60,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

any_text = st.text(st.characters(exclude_categories=()), max_size=12)


def try_out(world: World, method: str, target: str, body: bytes = b"", **headers: str | None) -> Answer:
    """Send a request, hold its answer to the promises that all answers keep, and take back what it did."""
    before = world.stored()
    try:
        with undone():
            answer = send(method, target, body, headers or None, key=world.key)
            if answer.status >= 400:
                error = failure(answer)
                assert answer.status < 500, error
                assert world.stored() == before
            else:
                assert answer.status == 204 or answer.json().keys() == {"data"}
        assert "x-request-id" in answer.headers
    except Exception as error:
        error.add_note(f"{method} {target} with {body!r}")
        raise
    return answer


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_body__nearly_right__is_taken_or_refused_whole(world: World, operation: Operation) -> None:
    chance = Random(operation.name)
    for _ in range(BODIES):
        try_out(world, operation.method, operation.path, json.dumps(nearly_right(chance, operation)).encode())


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_body__any_json_or_any_bytes__is_taken_or_refused_whole(world: World, operation: Operation) -> None:
    chance = Random(operation.name)
    for number in range(BODIES):
        body = chance.randbytes(1 + number) if number % 2 else json.dumps(any_json(chance)).encode()
        try_out(world, operation.method, operation.path, body)


def test_batch__of_any_events__acknowledges_each_in_order_or_refuses_all(world: World) -> None:
    track, chance = next(operation for operation in OPERATIONS if operation.name == "track"), Random(1)
    for _ in range(BODIES):
        events = [
            nearly_right(chance, track) if chance.random() < 0.7 else any_json(chance)
            for _ in range(chance.randint(1, 6))
        ]
        answer = try_out(world, "POST", "/v1/events/batch", json.dumps({"events": events}).encode())
        if answer.status == 202:
            statuses = [each["status"] for each in answer.json()["data"]]
            assert len(statuses) == len(events)
            assert "accepted" in statuses
            assert set(statuses) <= {"accepted", "duplicate", "rejected"}


_PARAMETERS = [
    "limit", "cursor", "search", "enabled", "status", "userId", "event", "experimentId", "from", "to", "x", "tag",
    "owner", "archived", "expired", "object", "actor", "source", "variant", "properties.a", "properties.",
]  # fmt: skip
_escaped = any_text.map(lambda text: quote(text, safe="", errors="surrogatepass")) | st.binary(max_size=9).map(
    quote_from_bytes
)
_queries = st.lists(st.tuples(st.sampled_from(_PARAMETERS), _escaped), max_size=4).map(
    lambda pairs: "&".join(f"{name}={text}" for name, text in pairs)
) | st.text(st.characters(min_codepoint=1, max_codepoint=255), max_size=30)


@pytest.mark.parametrize("path", LISTS)
def test_query_string__of_any_kind__is_taken_or_refused(world: World, path: str) -> None:
    @search
    @given(_queries)
    def check(query: str) -> None:
        try_out(world, "GET", f"{path}?{query}")

    check()


@search
@given(
    method=st.sampled_from(["GET", "HEAD", "POST", "PATCH", "DELETE", "PUT", "OPTIONS", "TRACE"]),
    area=st.sampled_from(["flags", "segments", "metrics", "audit", "evaluate", "experiments", "events", ""]),
    parts=st.lists(_escaped, max_size=3),
)
def test_path__of_any_kind__is_found_or_not(world: World, method: str, area: str, parts: list[str]) -> None:
    if method == "HEAD":
        assert send(method, "/".join(["/v1", area, *parts]), key=world.key).status < 500
    else:
        try_out(world, method, "/".join(["/v1", area, *parts]))


_HEADERS = [
    "Content-Type",
    "Authorization",
    "X-API-Key",
    "X-Environment",
    "If-Match",
    "X-Change-Reason",
    "Accept",
    "X-Request-Id",
    "Origin",
    "Cookie",
    "Host",
    "X-Forwarded-For",
    "Sec-Fetch-Site",
    "X-CSRFToken",
    "Content-Length",
]
_header_texts = st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=20) | st.sampled_from(
    ["application/json; charset=hex", "http://[", "Bearer", "*", "null", FORM["Content-Type"], "multipart/form-data"]
)


@search
@given(headers=st.dictionaries(st.sampled_from(_HEADERS), _header_texts, max_size=4), anonymous=st.booleans())
def test_headers__of_any_kind__are_taken_or_refused(
    world: World, settings: Any, headers: dict[str, str], anonymous: bool
) -> None:
    settings.ANONYMOUS_SCOPE = "manage" if anonymous else "none"
    if anonymous:
        headers = {"Authorization": None, **headers}  # type: ignore[dict-item]
    for method, path, body in (("GET", "/v1/flags", b""), ("PATCH", "/v1/flags/known", b'{"enabled": true}')):
        try_out(world, method, path, body, **headers)
