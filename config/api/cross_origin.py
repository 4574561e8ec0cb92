"""What pages of other web sites may send: requests to the paths that settings name, and there only what clients do."""

from __future__ import annotations

from typing import Any

from corsheaders.middleware import CorsMiddleware
from django.http import HttpRequest


class CrossOriginMiddleware(CorsMiddleware):
    """Events are tracked and queried at one path. Browsers ask nobody before a GET: its answer must be withheld."""

    def __call__(self, request: HttpRequest) -> Any:
        if "HTTP_ORIGIN" not in request.META:  # no page of another site; POSTs are not cached, so nobody needs `Vary`
            return self.get_response(request)
        return super().__call__(request)

    def is_enabled(self, request: HttpRequest) -> bool:
        return request.method in ("POST", "OPTIONS") and super().is_enabled(request)
