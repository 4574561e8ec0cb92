"""`/livez` and `/readyz`: whether a worker answers, and whether it may get requests.

The answers come from memory, in the thread that takes the request. So neither a database that hangs
nor a lack of free threads delays them. They need no key, and no `Host` that is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from django.http import JsonResponse

from config import snapshot
from config.snapshot import Lateness

_MISSING_MIGRATIONS = "The database lacks migrations of this version: run `manage.py migrate`."
_NO_STATE = "The database does not answer, and no last known state is stored on this host."
_STOPPING = "This server is stopping."


def report(environ: Mapping[str, Any], *, is_stopping: bool) -> JsonResponse | None:
    """Return the answer to a request without a body, or None if the request is not for a probe."""
    if environ["REQUEST_METHOD"] not in {"GET", "HEAD"}:
        return None
    match environ["PATH_INFO"]:
        case "/livez":
            response = JsonResponse({"status": "live"})
        case "/readyz":
            response = _readiness(is_stopping)
        case _:
            return None
    response["Cache-Control"] = "no-store"
    response["Content-Length"] = str(len(response.content))
    return response


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
