"""Sessions and the middleware for pages, which no request of the API reaches."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.test import Client

from tests.trips import following

pytestmark = pytest.mark.django_db

MALFORMED = [r'"\000aaaaaaaaa"', r'"\377\376aaaaaaaa"', "a" * 7, "a" * 5000, "' or 1=1 --", '""', "a b c d e f g h"]


CALLS = [
    ("POST", "/v1/flags/f/evaluate", {}), ("POST", "/ofrep/v1/evaluate/flags", {}), ("GET", "/v1/flags", {}),
    ("PUT", "/v1/flags", {}), ("GET", "/v1/schema", {}), ("GET", "/v1/flags", {"Cookie": "a=b"}),
    ("GET", "/v1/flags", {"Cookie": f"{settings.SESSION_COOKIE_NAME}={'a' * 32}"}),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "headers"), CALLS)
def test_middleware_for_pages__request_of_the_api__does_not_reach_it(
    client: Client, method: str, path: str, headers: dict[str, str]
) -> None:
    client.generic(method, path, headers=headers)
    with following() as trip:
        client.generic(method, path, headers=headers)
    entered = {file for file in trip.files if file.startswith(("config/admin/", "config/serving/"))}
    assert entered <= ({"config/admin/browser_middleware.py"} if "halyard" in str(headers) else set())  # the session


def test_middleware_for_pages__page__passes_it(client: Client) -> None:
    with following() as trip:
        client.get("/admin/")
    assert {"config/admin/browser_middleware.py", "config/admin/kept_input.py"} <= set(trip.files)


def test_session__malformed_cookie__is_anonymous(subtests: pytest.Subtests, client: Client) -> None:
    for value in MALFORMED:
        with subtests.test(value=value):
            cookie = f"{settings.SESSION_COOKIE_NAME}={value}"

            answer = client.get("/v1/flags", headers={"Cookie": cookie})
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthenticated")
            assert client.get("/admin/", headers={"Cookie": cookie}).status_code == 302
