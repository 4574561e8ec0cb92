"""The fast lane answers, counts and stores exactly what Django would, for 20,000 requests of all sorts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

import pytest
import time_machine
from django.db import connection
from pytest_django import DjangoDbBlocker

from config import snapshot
from config.serving import worker_process
from events.models import Event
from experiments.models import Exposure
from flags.usage.counting import tally
from tests.config.api.wire import environ_of, own_connection
from tests.config.serving.fast_lane.requests import Request, generate
from tests.config.serving.fast_lane.world import World, build
from tests.conftest import NOON
from tests.fast_lane import lane
from tests.transactions import rolled_back, undone

CHUNKS, REQUESTS = 100, 200
MIN_SERVED = 0.4
"""The share of the requests that the lane serves itself."""
NOW = NOON + timedelta(days=2)
ID = UUID("01937a5e-9c1b-7d3a-8f00-000000000001")
_EVENTS = f"SELECT id, user_id, name, timestamp, received_at, experiment FROM {Event._meta.db_table}"
_EXPOSURES = f"SELECT experiment_id, user_id, variant, exposed_at FROM {Exposure._meta.db_table}"


class Outcome(NamedTuple):
    """All that a request leads to."""

    status: str
    headers: list[tuple[str, str]]
    body: bytes
    counts: Any
    stored: Any


@pytest.fixture(scope="module")
def world_of_the_module(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[World]:
    with rolled_back(django_db_blocker):
        yield build()


@pytest.fixture
def world(world_of_the_module: World, db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    for place in ("config.monitoring.request_ids.uuid7", "events.api.inputs.uuid7"):
        monkeypatch.setattr(place, lambda: ID)
    with own_connection(), time_machine.travel(NOW, tick=False):
        yield world_of_the_module
    tally.pop()


@pytest.mark.broad
@pytest.mark.parametrize("seed", range(CHUNKS))
def test_fast_lane__any_request__does_what_django_does(
    world: World, seed: int, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ANONYMOUS_SCOPE = ("none", "client", "server", "manage")[seed % 4]
    monkeypatch.setattr(worker_process, "stream_port", 8001 if seed % 3 else None)
    served = 0
    requests = generate(world, seed, REQUESTS)
    for request in requests:
        by_lane, is_served = _by_lane(world, request)
        assert by_lane == _by_django(world, request), request
        served += is_served
        etag = dict(by_lane.headers).get("ETag")
        if etag is not None and "If-None-Match" not in request.headers:
            requests.append(request._replace(headers={**request.headers, "If-None-Match": etag}))
    assert served >= MIN_SERVED * len(requests)


def _by_lane(world: World, request: Request) -> tuple[Outcome, bool]:
    """Return the outcome with the lane, and whether the lane itself answered."""
    passed_on: list[Mapping[str, Any]] = []

    def django(environ: dict[str, Any], start_response: Any) -> Any:
        passed_on.append(environ)
        return lane.application(environ, start_response)

    def application(environ: dict[str, Any], start_response: Any) -> Any:
        served = lane.serve(environ)
        if served is None:
            return django(environ, start_response)
        start_response(*served[:2])
        return [served[2]]

    return _outcome(application, world, request), not passed_on


def _by_django(world: World, request: Request) -> Outcome:
    return _outcome(lane.application, world, request)


def _outcome(application: Any, world: World, request: Request) -> Outcome:
    """Send the request, look at what it did, and undo that."""
    environ = environ_of(request.method, request.target, request.body, request.headers, request.address)
    environ["wsgi.url_scheme"] = "https" if request.is_secure else "http"
    snapshot.refresh()
    world.remember_variants()
    tally.pop()
    began: list[Any] = []
    with undone():
        parts = application(environ, lambda status, headers, *_: began.extend((status, headers)))
        body = b"".join(parts)
        if hasattr(parts, "close"):
            parts.close()
        status, headers = began
        stored = _stored() if status.startswith("2") else None
    return Outcome(status, sorted(headers), body, tally.pop(), stored)


def _stored() -> Any:
    """Return all events and exposures. Compiling these statements would take a quarter of the time of the test."""
    with connection.cursor() as cursor:
        cursor.execute(_EVENTS)
        events = sorted(cursor.fetchall())
        cursor.execute(_EXPOSURES)
        return events, sorted(cursor.fetchall())
