"""Sessions and the middleware of pages. Requests of the APIs do not reach them."""

from __future__ import annotations

from typing import Any

from django.contrib.messages import middleware as messages
from django.contrib.sessions import middleware as sessions
from django.contrib.sessions.backends import db
from django.contrib.sessions.backends.base import UpdateError
from django.db import Error
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.utils.deprecation import MiddlewareMixin

from config.admin.failure_pages import WRONG_METHOD, answer, answer_unavailable
from config.database.outages import is_outage

ENVIRONMENT_KEY = "environment"
"""The name under which a session has the key of the chosen environment."""


class ForBrowsers(MiddlewareMixin):
    """A base of middleware that uses the database, and answers its outages with a page."""

    def __call__(self, request: HttpRequest) -> Any:
        try:
            return super().__call__(request)
        except Error as error:  # of this middleware itself, which may save the session or read messages from it
            unavailable = answer_unavailable(request, error)
            if unavailable is None:
                raise
            return unavailable


class SessionMiddleware(ForBrowsers, sessions.SessionMiddleware):
    """Django's own, for pages."""


class MessageMiddleware(ForBrowsers, messages.MessageMiddleware):
    """Django's own, for pages."""

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        """Drop messages of a request that failed, because what they say may have been rolled back."""
        return response if response.status_code >= 500 else super().process_response(request, response)


class CompressionMiddleware(GZipMiddleware):
    """Django's own, for pages. It hides their exact length, which could reveal a secret in them (BREACH)."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        is_page = response.headers.get("Content-Type", "").startswith("text/html")
        return super().process_response(request, response) if is_page else response


class FailureMiddleware(MiddlewareMixin):
    """Shows pages for outages and wrong methods, for which Django has no handlers."""

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        if not isinstance(response, HttpResponseNotAllowed):
            return response
        page = answer(request, WRONG_METHOD)
        page.headers["Allow"] = response.headers["Allow"]
        return page

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        return answer_unavailable(request, exception)


class SessionStore(db.SessionStore):
    """Sessions in the database. Keys that this service cannot have issued are refused without a query."""

    def save(self, must_create: bool = False) -> None:
        """Save the session. Django reports every error as a deleted session, so an outage is raised as such."""
        try:
            super().save(must_create)
        except UpdateError as error:
            outage = error.__context__
            if outage is None or not is_outage(outage):
                raise
            raise outage from outage.__cause__

    def _validate_session_key(self, key: Any) -> bool:
        is_valid = super()._validate_session_key(key)  # type: ignore[misc]  # not in the stubs
        # PostgreSQL would fail on a key that contains U+0000.
        return bool(is_valid) and key.isascii() and key.isalnum()
