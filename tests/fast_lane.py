"""A test client's way through the fast lane, and what the WSGI application answers with and without it."""

from __future__ import annotations

from typing import Any

from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpResponse
from rest_framework.test import ForceAuthClientHandler

from config.serving.fast_lane import FastLane
from config.serving.wsgi import application

assert isinstance(application, FastLane)
lane: FastLane = application


class FastLaneHandler(ForceAuthClientHandler):
    """Answers by the fast lane what it serves, and all else as other test clients do."""

    def __call__(self, environ: dict[str, Any]) -> Any:
        if not environ.get("HTTP_COOKIE"):
            environ.pop("HTTP_COOKIE", None)  # a test client sends an empty one
        served = None if self._force_user else lane.serve(environ)
        if served is None:
            return super().__call__(environ)
        status, headers, body = served
        response = HttpResponse(body, status=int(status[:3]), headers=dict(headers))
        if "Content-Type" not in dict(headers):
            del response["Content-Type"]
        response.wsgi_request = WSGIRequest(environ)
        return response
