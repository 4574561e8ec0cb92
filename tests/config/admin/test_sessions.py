"""Sessions: no cookie, however strange, reaches the database as a key that it cannot hold."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.test import Client

STRANGE = [r'"\000aaaaaaaaa"', r'"\377\376aaaaaaaa"', "a" * 7, "a" * 5000, "' or 1=1 --", '""', "a b c d e f g h"]


@pytest.mark.django_db
@pytest.mark.parametrize("value", STRANGE)
def test_session__strange_cookie__is_nobody(client: Client, value: str) -> None:
    cookie = f"{settings.SESSION_COOKIE_NAME}={value}"

    answer = client.get("/v1/flags", headers={"Cookie": cookie})
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthenticated")
    assert client.get("/admin/", headers={"Cookie": cookie}).status_code == 302
