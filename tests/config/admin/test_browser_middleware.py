"""Middleware that only browsers need: calls of the API without a cookie go past it, and nothing else does."""

from __future__ import annotations

from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from config.admin import browser_middleware

pytestmark = pytest.mark.django_db


def pass_through(path: str, **headers: str) -> HttpRequest:
    """The request as it comes out of all of them."""
    seen: list[HttpRequest] = []

    def view(request: HttpRequest) -> HttpResponse:
        seen.append(request)
        return HttpResponse()

    handler: Any = view
    for middleware in (
        browser_middleware.MessageMiddleware,
        browser_middleware.AuthenticationMiddleware,
        browser_middleware.SessionMiddleware,
    ):
        handler = middleware(handler)
    assert handler(RequestFactory().post(path, headers=headers)).status_code == 200
    [request] = seen
    return request


@pytest.mark.parametrize("path", ["/v1/flags/f/evaluate", "/ofrep/v1/evaluate/flags"])
def test_browser_middleware__call_of_the_api_without_a_cookie__goes_past_it(path: str) -> None:
    request = pass_through(path, authorization="Bearer key")
    assert not any(hasattr(request, name) for name in ("session", "user", "_messages"))


@pytest.mark.parametrize(
    ("path", "headers"), [("/v1/flags", {"cookie": "a=b"}), ("/admin/", {}), ("/v1x", {}), ("/ofrep", {})]
)
def test_browser_middleware__anything_else__goes_through_it(path: str, headers: dict[str, str]) -> None:
    request = pass_through(path, **headers)
    assert all(hasattr(request, name) for name in ("session", "user", "_messages"))
