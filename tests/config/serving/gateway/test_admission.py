"""Bodies for kill switches, whose callers only the database knows: they are read if there is a token at all."""

from __future__ import annotations

from typing import Any

import pytest

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
