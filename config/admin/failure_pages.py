"""Pages that say why a request failed. They need no database, session or user."""

from __future__ import annotations

import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import NamedTuple

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from config.admin.passwords import TooManyChecks
from config.api.edge import is_of_api
from config.api.failures import RETRY_AFTER_SECONDS, log_outage, request_id
from config.database.outages import is_outage

logger = logging.getLogger(__name__)

_SECONDS_UNTIL_A_PASSWORD_IS_CHECKED = 3
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self' data:; font-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
}


class Failure(NamedTuple):
    """The texts of a page: what happened, what that means for a form, and when to try again."""

    status: HTTPStatus
    title: str
    text: str
    about_form: str = ""
    retry_after: int | None = None
    """The seconds after which the same request may succeed, if it may."""


_MAYBE_SAVED = "Your form may not have been saved. Go back, and check before you send it again."
_NOT_SAVED = "Nothing was saved. Wait a few seconds, and send the form again."

UNREADABLE = Failure(
    HTTPStatus.BAD_REQUEST, "This request cannot be read", "Its address or its content is invalid. Nothing was saved."
)
FORBIDDEN = Failure(
    HTTPStatus.FORBIDDEN, "You may not do this", "Your account lacks the permission. An administrator can grant it."
)
OUTDATED_FORM = Failure(
    HTTPStatus.FORBIDDEN,
    "This form is out of date",
    "You have signed in or out since you opened it, or your browser blocks cookies.",
    "Nothing was saved. Open the form again, and send it once more.",
)
NOT_FOUND = Failure(
    HTTPStatus.NOT_FOUND, "Page not found", "There is no page at this address. What it showed may have been deleted."
)
WRONG_METHOD = Failure(
    HTTPStatus.METHOD_NOT_ALLOWED,
    "This address cannot be used like this",
    "It may belong to a form or a button. Open the page of the form, and use it there. Nothing was changed.",
)
LATE = Failure(HTTPStatus.REQUEST_TIMEOUT, "Your form took too long", "The connection may be slow.", _NOT_SAVED)
DEFECT = Failure(
    HTTPStatus.INTERNAL_SERVER_ERROR,
    "The service failed",
    "This is a defect of Halyard. The log of the service describes it.",
    _MAYBE_SAVED,
)
OUTAGE = Failure(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "The database cannot answer now",
    "It is away, accepts no changes, or needed too long for this page. Applications still get their flags.",
    _MAYBE_SAVED,
    RETRY_AFTER_SECONDS,
)
BUSY = Failure(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "There is too much to do now",
    "Too many other requests are waiting, so yours was not begun.",
    _NOT_SAVED,
    RETRY_AFTER_SECONDS,
)
PASSWORDS = Failure(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "Too many passwords to check now",
    "Several people are signing in or changing a password at this moment. Yours was not checked.",
    _NOT_SAVED,
    _SECONDS_UNTIL_A_PASSWORD_IS_CHECKED,
)


def answer_unavailable(request: HttpRequest, error: Exception) -> HttpResponse | None:
    """Return the answer to a temporary error, or None for any other error."""
    if isinstance(error, TooManyChecks):
        return answer(request, PASSWORDS)
    if is_outage(error):
        log_outage(request, error)
        return answer(request, OUTAGE)
    return None


def answer(request: HttpRequest, failure: Failure) -> HttpResponse:
    """Return the page of a failure. Under the paths of the API, `EdgeMiddleware` adds the body."""
    retry = {} if failure.retry_after is None else {"Retry-After": str(failure.retry_after)}
    if is_of_api(request.path_info):
        return HttpResponse(status=failure.status, headers=retry)
    is_form = request.method == "POST"
    label, address = _next_step(request, failure, is_form)
    context = {
        "failure": failure, "is_form": is_form, "label": label, "address": address, "request_id": request_id(request)
    }  # fmt: skip
    body = render_to_string("failure.html", context)  # without the request, whose user is in the database
    return HttpResponse(body, status=failure.status, headers=_HEADERS | retry)


def _next_step(request: HttpRequest, failure: Failure, is_form: bool) -> tuple[str, str]:
    """Return the label and the address of the link on the page."""
    if is_form and failure.about_form:
        return "Back to the form", _form_of(request)
    if failure.retry_after is not None:
        return "Try again", request.get_full_path()
    return "Open the admin", reverse("admin:index")


def _form_of(request: HttpRequest) -> str:
    """Return the address of the page with the form, which may differ from the address that the form is sent to."""
    page = request.headers.get("Referer", "")
    is_ours = url_has_allowed_host_and_scheme(page, {request.get_host()}, require_https=request.is_secure())
    return page if is_ours else request.get_full_path()


def show(failure: Failure) -> Callable[..., HttpResponse]:
    """Return a view that shows this failure, whatever else Django calls it with."""

    def view(request: HttpRequest, *_: object, **__: object) -> HttpResponse:
        return answer(request, failure)

    return view


def handler500(request: HttpRequest) -> HttpResponse:
    """Log the id of the request, by which people report the error. Django has logged the error itself."""
    logger.error("%s %s failed, request %s", request.method, request.path, request_id(request))
    return answer(request, DEFECT)


handler400, handler403, handler404 = show(UNREADABLE), show(FORBIDDEN), show(NOT_FOUND)
