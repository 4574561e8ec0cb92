"""Bodies of callers whom only the database knows: kill switches need a token, and forms a cookie or an own origin."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings

from config.serving.gateway.admission import Admission, admit

HOOK = {"REQUEST_METHOD": "POST", "PATH_INFO": "/v1/hooks/x", "CONTENT_LENGTH": "100"}
TOKEN = {"HTTP_AUTHORIZATION": "Bearer x"}


@pytest.mark.parametrize(
    ("headers", "admission"),
    [
        (TOKEN, Admission.READ_OF_BROWSER),
        ({}, Admission.WITHHOLD),
        ({"HTTP_X_API_KEY": "x"}, Admission.WITHHOLD),
        ({**TOKEN, "CONTENT_LENGTH": str(6 * 1024**2)}, Admission.WITHHOLD),
        ({**TOKEN, "CONTENT_LENGTH": "0"}, Admission.NO_BODY),
    ],
)
def test_admit__call_of_a_kill_switch__needs_a_token_and_a_short_body(
    headers: dict[str, Any], admission: Admission
) -> None:
    assert admit({**HOOK, **headers}) is admission


FORM = {"REQUEST_METHOD": "POST", "PATH_INFO": "/admin/login/", "CONTENT_LENGTH": "100", "HTTP_HOST": "flags.example"}
OWN = {"HTTP_ORIGIN": "https://flags.example"}


def test_admit__form_of_a_page__needs_a_cookie_or_to_come_from_here(subtests: pytest.Subtests) -> None:
    for headers, admission in [
        ({"HTTP_COOKIE": f"{settings.SESSION_COOKIE_NAME}=x"}, Admission.READ_OF_BROWSER),
        (OWN, Admission.READ_OF_BROWSER),
        ({}, Admission.WITHHOLD),
        ({"HTTP_ORIGIN": "https://other.example"}, Admission.WITHHOLD),
        ({"HTTP_ORIGIN": "null"}, Admission.WITHHOLD),
        ({**OWN, "CONTENT_LENGTH": str(6 * 1024**2)}, Admission.WITHHOLD),
    ]:
        with subtests.test(headers=headers):
            assert admit({**FORM, **headers}) is admission
