"""Fixtures for all tests: a separate runtime folder, an empty snapshot, clients of each kind."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import TestCase
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from config import snapshot
from config.access.api_keys import create_key
from config.change_log.writing import Actor
from config.database.engines import is_distributed
from config.models import Environment, Scope, Source
from config.snapshot import signal_file
from tests.fast_lane import FastLaneHandler

pytest.register_assert_rewrite("tests.system.recorders")  # which judges for tests of several folders
pytest_plugins = [
    "tests.chromium",
    "tests.citus.databases",
    "tests.emptying",
    "tests.selection",
    "tests.replica_logs",
    "tests.threads",
]

ACTOR = Actor("test", Source.COMMAND)
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def pytest_collection() -> None:
    """Collect no garbage while tests are loaded: nearly everything stays."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Exempt loaded objects from garbage collection, which would otherwise take a third of the time, and collect the
    garbage of tests less often than a server has to. Hypothesis, too, runs code of its own at each collection.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests of what the fast lane serves both with it and without it."""
    if metafunc.definition.get_closest_marker("both_lanes"):
        metafunc.parametrize("fast_lane", [False, True], ids=["django", "fast"], indirect=True)


@pytest.fixture(autouse=True)
def fast_lane(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether clients go through the fast lane."""
    CommittingClient.uses_fast_lane = getattr(request, "param", False)
    yield CommittingClient.uses_fast_lane
    CommittingClient.uses_fast_lane = False


class CommittingClient(APIClient):
    """A client whose requests end as in production: commits are announced before the next request."""

    uses_fast_lane = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if self.uses_fast_lane:
            self.handler = FastLaneHandler(enforce_csrf_checks=False)

    def request(self, **kwargs: Any) -> Any:
        with TestCase.captureOnCommitCallbacks(execute=True):
            return super().request(**kwargs)


@pytest.fixture(autouse=True)
def _own_runtime(settings: Any, tmp_path: Path) -> Iterator[None]:
    settings.RUNTIME_DIR = tmp_path
    settings.ANONYMOUS_SCOPE = "none"
    snapshot.reset()
    yield
    snapshot.reset()
    signal_file._shared.cache_clear()


@pytest.fixture
def django_assert_num_queries(db: None, django_assert_num_queries: Any) -> Any:
    """Count statements on one server only. On Citus, a mark and a snapshot take more, by what workers still do."""
    if not is_distributed():
        return django_assert_num_queries
    return lambda *_, **__: CaptureQueriesContext(connection)


@pytest.fixture
def production(db: None) -> Environment:
    return Environment.objects.get(key="production")


@pytest.fixture
def staging(db: None) -> Environment:
    return Environment.objects.get(key="staging")


@pytest.fixture
def client_of(db: None) -> Callable[..., CommittingClient]:
    """Make a client with a key of a scope, in an environment."""

    def make(scope: Scope, environment: str = "production", *, common: bool = True) -> CommittingClient:
        row = Environment.objects.get(key=environment)
        common = scope == Scope.MANAGE and common
        name = f"{scope} of {environment}"
        _, secret = create_key(name=name, environment=row, scope=scope, common=common, actor=ACTOR, now=NOON)
        client = CommittingClient()
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
        client.default_format = "json"
        return client

    return make


@pytest.fixture
def api(client_of: Callable[..., CommittingClient]) -> CommittingClient:
    """A client that may do everything in production."""
    return client_of(Scope.MANAGE)


@pytest.fixture
def staging_api(client_of: Callable[..., CommittingClient]) -> CommittingClient:
    """A client that may do everything in staging."""
    return client_of(Scope.MANAGE, "staging")
