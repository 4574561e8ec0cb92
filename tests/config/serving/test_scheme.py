"""What a proxy says of the connection of its client counts only if settings trust that proxy."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest

from config.serving.wsgi import Request


@pytest.mark.parametrize(
    ("sender", "says", "is_secure"),
    [
        ("10.1.2.3", "https", True),
        ("10.1.2.3", "http", False),
        ("10.1.2.3", None, False),
        ("203.0.113.7", "https", False),
        ("127.0.0.1", "https", False),
    ],
)
def test_scheme__of_a_forwarded_request__is_believed_of_trusted_proxies_alone(
    settings: Any, sender: str, says: str | None, is_secure: bool
) -> None:
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    settings.TRUSTED_PROXIES = ["10.0.0.0/8"]
    environ = {
        "REQUEST_METHOD": "GET", "PATH_INFO": "/", "REMOTE_ADDR": sender, "wsgi.url_scheme": "http",
        "wsgi.input": BytesIO(),
        **({} if says is None else {"HTTP_X_FORWARDED_PROTO": says}),
    }  # fmt: skip
    assert Request(environ).is_secure() is is_secure
