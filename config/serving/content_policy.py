"""What the browser may load and run on pages: nothing from other hosts, and no script that is written into a page."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from config.serving import worker_process

_HEADER = "Content-Security-Policy"
_COMMON = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; worker-src 'self' blob:"
)
_EVALUATES = "'unsafe-eval'"
"""Alpine, with which the theme of the admin is made, evaluates the attributes of elements."""


class ContentPolicyMiddleware:
    """Adds the header to pages that have none of their own."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if response.headers.get("Content-Type", "").startswith("text/html") and _HEADER not in response.headers:
            response.headers[_HEADER] = _policy(request)
        return response


def _policy(request: HttpRequest) -> str:
    scripts = "'self'"
    if request.path.startswith(reverse("admin:index")):
        scripts += f" {_EVALUATES}"
    return "; ".join([_COMMON, f"script-src {scripts}", " ".join(["connect-src 'self'", *_streams(request)])])


def _streams(request: HttpRequest) -> list[str]:
    """Return the origin of the event streams, if there are any."""
    if settings.STREAM_URL:
        parts = urlsplit(settings.STREAM_URL)
        return [f"{parts.scheme}://{parts.netloc}"]
    if worker_process.stream_port is None or request.is_secure():
        return []
    host = urlsplit(f"//{request.get_host()}").hostname or ""
    return [f"http://{f'[{host}]' if ':' in host else host}:{worker_process.stream_port}"]
