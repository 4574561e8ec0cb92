"""Sessions and the middleware that only browsers need: API calls without a cookie skip it, and nothing else does."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory

from config.admin import browser_middleware

pytestmark = pytest.mark.django_db

MALFORMED = [r'"\000aaaaaaaaa"', r'"\377\376aaaaaaaa"', "a" * 7, "a" * 5000, "' or 1=1 --", '""', "a b c d e f g h"]


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


@pytest.mark.parametrize("value", MALFORMED)
def test_session__malformed_cookie__is_anonymous(client: Client, value: str) -> None:
    cookie = f"{settings.SESSION_COOKIE_NAME}={value}"

    answer = client.get("/v1/flags", headers={"Cookie": cookie})
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthenticated")
    assert client.get("/admin/", headers={"Cookie": cookie}).status_code == 302
