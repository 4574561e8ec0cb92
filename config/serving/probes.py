"""`/livez`, `/readyz` and `/metrics`: whether a worker answers, whether it may get requests, and what all have counted.

The answers come from memory, in the thread that takes the request. So neither a database that hangs
nor a lack of free threads delays them. They need no key, and no `Host` that is allowed. Metrics are for this machine
alone, and for those who have `METRICS_TOKEN`.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.http import HttpResponse, JsonResponse

from config import snapshot
from config.api.authentication import why_not_local
from config.database import connections
from config.monitoring import metrics
from config.monitoring.exposition import render
from config.monitoring.request_ids import request_id_of
from config.snapshot import Lateness

_MISSING_MIGRATIONS = "The database lacks migrations of this version: run `manage.py migrate`."
_NO_STATE = "The database does not answer, and no last known state is stored on this host."
_STOPPING = "This server is stopping."


def report(environ: dict[str, Any], *, is_stopping: bool) -> HttpResponse | None:
    """Return the answer to a request without a body, or None if the request is not for a probe."""
    if environ["REQUEST_METHOD"] not in {"GET", "HEAD"}:
        return None
    response: HttpResponse
    match environ["PATH_INFO"]:
        case "/livez":
            response = JsonResponse({"status": "live"})
        case "/metrics":
            response = _metrics(environ)
        case "/readyz":
            response = _readiness(is_stopping)
        case _:
            return None
    response["Cache-Control"] = "no-store"
    response["X-Request-Id"] = request_id_of(environ)
    response["Content-Length"] = str(len(response.content))
    return response


def _metrics(environ: Mapping[str, Any]) -> HttpResponse:
    if why_not_local(environ) is not None and not _has_token(environ):
        words = "Send METRICS_TOKEN as `Authorization: Bearer <token>`, or ask from this machine itself.\n"
        headers = {"WWW-Authenticate": "Bearer"}
        return HttpResponse(words, status=HTTPStatus.UNAUTHORIZED, headers=headers, content_type="text/plain")
    content, content_type = render(environ.get("HTTP_ACCEPT", ""))
    return HttpResponse(content, content_type=content_type)


def _has_token(environ: Mapping[str, Any]) -> bool:
    scheme, _, token = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    if not settings.METRICS_TOKEN or scheme.lower() != "bearer":
        return False
    return secrets.compare_digest(token.strip().encode(), settings.METRICS_TOKEN.encode())


def measure_state() -> None:
    """Set the gauges of what `/readyz` tells of this process."""
    metrics.database_up.set(snapshot.lateness() is not Lateness.CUT_OFF)
    metrics.staleness.set(snapshot.staleness() or 0)
    if snapshot.is_loaded():
        metrics.revision.set(snapshot.revision())
    metrics.database_connections.set(connections.count_open())


def _readiness(is_stopping: bool) -> JsonResponse:
    lateness, obstacle = snapshot.lateness(), None
    if is_stopping:
        obstacle = _STOPPING
    elif lateness is Lateness.OLD_SCHEMA:
        obstacle = _MISSING_MIGRATIONS
    elif not snapshot.is_loaded():
        obstacle = _NO_STATE
    report: dict[str, Any] = {
        "status": "unready" if obstacle else "ready",
        "database": "away" if lateness is Lateness.CUT_OFF else "up",
    }
    if obstacle:
        report["reason"] = obstacle
    if snapshot.is_loaded():
        report |= {"revision": snapshot.revision(), "staleSeconds": snapshot.staleness() or 0}
    return JsonResponse(report, status=HTTPStatus.SERVICE_UNAVAILABLE if obstacle else HTTPStatus.OK)
