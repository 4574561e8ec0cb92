"""Events as a file: asked for by `Accept`, whole, in order, page after page, and torn where something goes wrong."""

from __future__ import annotations

import csv
import io
import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection

from config.csv_cells import unescape
from config.models import Environment
from events import exports
from events.api import event_views
from tests.answers import data, error
from tests.cases import undone
from tests.conftest import NOON
from tests.events.admin.test_events import store
from tests.factories import EventFactory

NDJSON, CSV = "application/x-ndjson", "text/csv"
STRANGE = {"text": 'a "b", c\r\n;d', "é": "🙂", "number": 1e20, "none": None, "list": [1, {"x": True}]}


def export(client: Any, accept: str, query: str = "") -> Any:
    return client.get(f"/v1/events{query}", HTTP_ACCEPT=accept)


def records(response: Any) -> list[dict[str, Any]]:
    """The records of an export in either form, as those of the API."""
    assert response.status_code == 200
    body = b"".join(response.streaming_content).decode()
    if response["Content-Type"] == NDJSON:
        assert body == "" or body.endswith("\n")
        return [json.loads(line) for line in body.split("\n")[:-1]]
    assert response["Content-Type"] == f"{CSV}; charset=utf-8"
    assert body.startswith("id,event,userId,timestamp,receivedAt,properties\r\n")
    rows = list(csv.DictReader(io.StringIO(body, newline=""), strict=True))
    rows = [{name: unescape(value) for name, value in row.items()} for row in rows]
    return [{**row, "properties": json.loads(row["properties"])} for row in rows]


@pytest.mark.parametrize("accept", [NDJSON, CSV])
def test_export__of_all_events__has_the_records_of_the_api_newest_first(
    api: Any, production: Environment, staging: Environment, accept: str
) -> None:
    store(production, ("u", "see"), ("=1+1", 'a,"b"\n'), ("é 🙂", "buy"), **STRANGE)
    store(production, ("u", "none"))
    store(staging, ("other", "see"))
    exported = records(export(api, accept))
    assert exported == data(api.get("/v1/events"))
    assert len(exported) == 4
    assert list(exported[0]) == ["id", "event", "userId", "timestamp", "receivedAt", "properties"]


@pytest.mark.parametrize("accept", [NDJSON, CSV])
def test_export__of_nothing__is_an_empty_file(api: Any, accept: str) -> None:
    assert records(export(api, accept)) == []


def test_export__of_several_pages__holds_every_event_once_though_moments_are_equal(
    subtests: pytest.Subtests, api: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(exports, "PAGE_SIZE", 5)
    for count in [0, 1, 4, 5, 6, 10, 11]:
        for moments in [1, 3, 20]:
            with undone(subtests, count=count, moments=moments):
                made = [EventFactory(timestamp=NOON + timedelta(seconds=at % moments)) for at in range(count)]
                expected = [
                    str(e.pk) for e in sorted(made, key=lambda event: (event.timestamp, event.pk), reverse=True)
                ]
                assert [record["id"] for record in records(export(api, NDJSON))] == expected


def test_export__filters__narrow_it_as_they_do_the_list(api: Any, production: Environment) -> None:
    store(production, ("u1", "see"), ("u2", "see"), ("u1", "buy"), plan="pro", experimentId="e", variant="v")
    store(production, ("u1", "see"))
    for query in (
        "?userId=u1", "?event=see&properties.plan=pro", "?experimentId=e&variant=v", "?from=2026-01-31T12:01:00Z",
    ):  # fmt: skip
        exported = records(export(api, CSV, query))
        assert exported == data(api.get(f"/v1/events{query}"))
        assert 1 <= len(exported) < 4


def test_export__bad_parameter__is_refused_by_name(subtests: pytest.Subtests, api: Any) -> None:
    for query, field in [
        ("limit=5", "limit"), ("cursor=e30", "cursor"), ("from=never", "from"), ("variant=v", "variant"),
        ("x=1", "x"),
    ]:  # fmt: skip
        with subtests.test(query=query, field=field):
            failure = error(export(api, NDJSON, f"?{query}"), 400, "invalid_parameter")
            assert [detail["field"] for detail in failure["details"]] == [field]


def test_query__any_other_accept__is_answered_as_json(
    subtests: pytest.Subtests, api: Any, production: Environment
) -> None:
    store(production, ("u", "see"))
    for accept in [
        "", "*/*", "application/json", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "text/plain",
        "application/json, text/csv;q=0.9", "text/csv;q=0", "x", "text/csv; q*=a'b'%80", "text/csv; charset*=x''y", ",",
    ]:  # fmt: skip
        with subtests.test(accept=accept):
            assert len(data(export(api, accept))) == 1


def test_query__accept_that_prefers_a_file__is_answered_with_it(subtests: pytest.Subtests, api: Any) -> None:
    for accept, kind in [
        ("text/csv, application/json;q=0.5", CSV), ("TEXT/CSV", CSV), ("text/csv;charset=utf-8", CSV),
        ("*/*, text/csv", CSV), (f"{NDJSON}, */*;q=0.1", NDJSON), (f"text/csv;q=0.5, {NDJSON}", NDJSON),
    ]:  # fmt: skip
        with subtests.test(accept=accept, kind=kind):
            response = export(api, accept)
            assert response["Content-Type"].startswith(kind)
            assert records(response) == []


def test_export__head__is_answered_without_reading(api: Any, django_assert_max_num_queries: Any) -> None:
    api.get("/v1/events")
    with django_assert_max_num_queries(0):
        response = api.head("/v1/events", HTTP_ACCEPT=CSV)
        assert (response.status_code, response["Content-Type"]) == (200, "text/csv; charset=utf-8")
        assert b"".join(response.streaming_content) == b""


@pytest.mark.parametrize(("accept", "form"), [(NDJSON, "ndjson"), (CSV, "csv")])
def test_export__that_fails_on_the_way__ends_within_a_record(
    api: Any, production: Environment, monkeypatch: Any, accept: str, form: str
) -> None:
    monkeypatch.setattr(exports, "PAGE_SIZE", 1)
    store(production, ("u1", "see"), ("u2", "see"))
    pieces = iter(export(api, accept).streaming_content)
    read = [next(pieces), next(pieces)]
    with connection.execute_wrapper(_fail):
        read.append(next(pieces))
        with pytest.raises(OperationalError):
            next(pieces)
    torn = b"".join(read).decode()
    assert exports.FORMATS[form].broken_end.decode() in torn
    with pytest.raises((json.JSONDecodeError, csv.Error)):
        [json.loads(line) for line in torn.splitlines()] if form == "ndjson" else list(csv.reader([torn], strict=True))


def test_export__that_cannot_begin__is_answered_as_any_other_failure(api: Any, monkeypatch: Any) -> None:
    api.get("/v1/events")
    for _ in range(10):  # each gives its place back
        with connection.execute_wrapper(_fail):
            error(export(api, CSV), 503, "unavailable")


def _fail(*_: Any) -> None:
    raise OperationalError("the connection is lost")


def test_exports__as_many_as_may_be__leave_no_place_until_one_ends(api: Any, production: Environment) -> None:
    store(production, ("u", "see"))
    places = event_views._places._value
    assert places >= 1
    under_way = [export(api, NDJSON) for _ in range(places)]
    response = export(api, NDJSON)
    error(response, 429, "rate_limited")
    assert int(response["Retry-After"]) >= 1
    assert len(data(api.get("/v1/events"))) == 1
    assert len(records(under_way.pop())) == 1
    assert len(records(export(api, NDJSON))) == 1
    for answer in under_way:
        assert len(records(answer)) == 1
    assert event_views._places._value == places


def test_export__takes_one_query_a_page(api: Any, monkeypatch: Any, django_assert_max_num_queries: Any) -> None:
    monkeypatch.setattr(exports, "PAGE_SIZE", 5)
    EventFactory.create_batch(12)
    api.get("/v1/events")
    with django_assert_max_num_queries(3):
        assert len(records(export(api, NDJSON))) == 12
