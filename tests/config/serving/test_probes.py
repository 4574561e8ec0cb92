"""What probes learn of a worker, in each state that it can be in."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from config import snapshot
from config.monitoring import metrics
from config.serving.probes import measure_state, report
from config.snapshot import Lateness, freshness
from config.snapshot.tables import current
from tests.counted import counted

pytestmark = pytest.mark.django_db

READY = {"status": "ready", "database": "up", "staleSeconds": 0}


@pytest.fixture
def loaded() -> Iterator[None]:
    snapshot.refresh()
    yield
    snapshot.reset()


def ask(path: str = "/readyz", method: str = "GET", *, is_stopping: bool = False) -> tuple[int, Any]:
    response = report({"REQUEST_METHOD": method, "PATH_INFO": path}, is_stopping=is_stopping)
    assert response is not None
    assert response["Cache-Control"] == "no-store"
    assert response["Content-Length"] == str(len(response.content))
    return response.status_code, json.loads(response.content)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_livez__in_any_state__is_live(method: str) -> None:
    assert ask("/livez", method, is_stopping=True) == (200, {"status": "live"})


def test_report__request_id__is_that_of_the_client_or_a_new_one() -> None:
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/livez"}
    own = report(environ | {"HTTP_X_REQUEST_ID": "abc-1"}, is_stopping=False)
    new = report(environ, is_stopping=False)
    assert own is not None
    assert new is not None
    assert (own["X-Request-Id"], len(new["X-Request-Id"])) == ("abc-1", 36)


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/livez"), ("GET", "/livez/"), ("GET", "/"), ("DELETE", "/readyz"), ("GET", "/ready")]
)
def test_report__anything_else__is_no_probe(method: str, path: str) -> None:
    assert report({"REQUEST_METHOD": method, "PATH_INFO": path}, is_stopping=False) is None


def test_readyz__newest_state__is_ready(loaded: None) -> None:
    assert ask() == (200, {**READY, "revision": snapshot.revision()})


@pytest.mark.parametrize(
    ("lateness", "database"), [(Lateness.CUT_OFF, "away"), (Lateness.LARGE_CHANGE, "up")], ids=lambda value: str(value)
)
def test_readyz__older_state__is_ready_and_says_how_old(
    loaded: None, monkeypatch: pytest.MonkeyPatch, lateness: Lateness, database: str
) -> None:
    monkeypatch.setattr(current, "lateness", lateness)
    monkeypatch.setattr(current, "known_at", time.monotonic() - 70.5)
    expected = {**READY, "database": database, "staleSeconds": 70, "revision": snapshot.revision()}
    assert ask() == (200, expected)


def test_readyz__follower_that_does_not_come_back__says_that_the_database_is_away(
    loaded: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(current, "is_followed", True)
    monkeypatch.setattr(current, "known_at", time.monotonic() - freshness.SECONDS_UNTIL_STALE - 1)
    assert ask()[1]["database"] == "away"


def test_readyz__database_that_lacks_migrations__is_unready_whatever_is_known(
    loaded: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(current, "lateness", Lateness.OLD_SCHEMA)
    status, document = ask()
    assert (status, document["status"], document["database"]) == (503, "unready", "up")
    assert "run `manage.py migrate`" in document["reason"]


def test_readyz__no_state__is_unready(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot.reset()
    monkeypatch.setattr(current, "lateness", Lateness.CUT_OFF)
    reason = "The database does not answer, and no last known state is stored on this host."
    assert ask() == (503, {"status": "unready", "database": "away", "reason": reason})


def test_readyz__server_that_stops__is_unready(loaded: None) -> None:
    status, document = ask(is_stopping=True)
    assert (status, document["reason"]) == (503, "This server is stopping.")


TOKEN = "token-of-prometheus"


def ask_for_metrics(address: str = "127.0.0.1", **headers: str) -> tuple[int, bytes]:
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/metrics", "REMOTE_ADDR": address}
    response = report(environ | {f"HTTP_{name}": value for name, value in headers.items()}, is_stopping=True)
    assert response is not None
    assert response["Cache-Control"] == "no-store"
    return response.status_code, response.content


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "127.8.8.8"])
def test_metrics__asked_for_on_this_machine__need_no_token(address: str) -> None:
    metrics.events.add(1, "accepted")
    status, content = ask_for_metrics(address)
    assert status == 200
    assert b'halyard_events_total{status="accepted"}' in content


@pytest.mark.parametrize(
    ("address", "headers"),
    [
        ("10.0.0.7", {}),
        ("127.0.0.1", {"X_FORWARDED_FOR": "10.0.0.7"}),
        ("127.0.0.1", {"FORWARDED": "for=10.0.0.7"}),
        ("127.0.0.1", {"SEC_FETCH_SITE": "cross-site"}),
        ("", {}),
    ],
)
def test_metrics__asked_for_elsewhere__need_the_token(settings: Any, address: str, headers: dict[str, str]) -> None:
    settings.METRICS_TOKEN = TOKEN
    assert ask_for_metrics(address, **headers)[0] == 401
    assert ask_for_metrics(address, **headers, AUTHORIZATION=f"Bearer {TOKEN}")[0] == 200
    for wrong in ("Bearer ", "Bearer other", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", "Bearer tokén"):
        status, content = ask_for_metrics(address, **headers, AUTHORIZATION=wrong)
        assert (status, content.startswith(b"Send METRICS_TOKEN")) == (401, True)


def test_metrics__without_a_token_in_the_settings__are_for_this_machine_alone(settings: Any) -> None:
    settings.METRICS_TOKEN = ""
    assert ask_for_metrics("10.0.0.7", AUTHORIZATION="Bearer ")[0] == 401


def test_metrics__of_the_state__say_what_readyz_says(loaded: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def state() -> list[float]:
        measure_state()
        numbers = counted()
        return [numbers[f"halyard_{name}",] for name in ("database_up", "staleness_seconds", "revision")]

    assert state() == [1, 0, snapshot.revision()]
    monkeypatch.setattr(current, "lateness", Lateness.CUT_OFF)
    monkeypatch.setattr(current, "known_at", time.monotonic() - 70.5)
    assert state() == [0, 70, snapshot.revision()]
