"""The outermost middleware: every request has an id, and every error under /v1 is JSON, whoever made it."""

from __future__ import annotations

import re
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from uuid_utils.compat import uuid7

from config.api.failures import reshape

_acceptable_id = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)


class EdgeMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        sent = request.META.get("HTTP_X_REQUEST_ID", "")
        request_id = sent if _acceptable_id.fullmatch(sent) else str(uuid7())
        request.request_id = request_id  # type: ignore[attr-defined]  # ours, read back by failures.request_id
        response = self.get_response(request)
        if response.status_code >= 400 and _is_of_the_api(request.path_info) and not _is_json(response):
            response = reshape(request, response)
        response.headers["X-Request-Id"] = request_id
        return response


def _is_of_the_api(path: str) -> bool:
    return path.startswith("/v1/") or path == "/v1"


def _is_json(response: HttpResponse) -> bool:
    return response.headers.get("Content-Type", "").startswith("application/json")
