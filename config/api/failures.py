"""Failures under /v1, which all have the same shape: `{"error": {"code", "message", "details", "requestId"}}`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import orjson
from django.core.exceptions import (
    BadRequest,
    PermissionDenied,
    RequestDataTooBig,
    SuspiciousOperation,
    TooManyFieldsSent,
)
from django.db import DatabaseError, InterfaceError
from django.http import Http404, HttpRequest, HttpResponse, UnreadablePostError
from django.http.multipartparser import MultiPartParserError
from rest_framework import exceptions
from rest_framework.response import Response

from config.api.limits import TooManyRequests
from config.database.outages import is_outage
from config.errors import Detail, DetailCode, DomainError, ErrorCode, ValidationFailed

logger = logging.getLogger(__name__)

RETRY_AFTER_SECONDS = 1

# Answers stay small, even if many fields are wrong or the caller's names are long.
MAX_DETAILS = 100
_MAX_NAME_LENGTH = 300
_MAX_MESSAGE_LENGTH = 1000

_DETAIL_CODES = {
    **{code.value: code for code in DetailCode},
    # the codes of DRF
    "null": DetailCode.INVALID_TYPE,
    "not_a_list": DetailCode.INVALID_TYPE,
    "not_a_dict": DetailCode.INVALID_TYPE,
    "blank": DetailCode.OUT_OF_RANGE,
    "empty": DetailCode.OUT_OF_RANGE,
    "min_length": DetailCode.OUT_OF_RANGE,
    "max_length": DetailCode.TOO_LONG,
    "min_value": DetailCode.OUT_OF_RANGE,
    "max_value": DetailCode.OUT_OF_RANGE,
}


def answer_exception(error: Exception, context: dict[str, Any]) -> Response:
    """Return the answer to an exception of a view. Defects are logged with the id of the request."""
    request = context["request"]
    failure = as_domain_error(error)
    headers = {}
    if failure.code is ErrorCode.INTERNAL_ERROR:
        logger.error("%s %s failed, request %s", request.method, request.path, request_id(request), exc_info=error)
    if failure.code is ErrorCode.UNAVAILABLE:
        log_outage(request, error)
    if failure.code in (ErrorCode.UNAVAILABLE, ErrorCode.RATE_LIMITED):
        headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    if isinstance(failure, TooManyRequests):
        headers.update(failure.headers)
    if failure.code is ErrorCode.UNAUTHENTICATED:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(payload(failure, request_id(request)), status=failure.code.status, headers=headers)


def log_outage(request: Any, error: Exception) -> None:
    """Log a failure of the database, which is not a defect."""
    logger.warning(
        "%s %s: database unavailable, request %s: %s", request.method, request.path, request_id(request), error
    )


def as_domain_error(error: Exception) -> DomainError:
    match error:
        case DomainError():
            return error
        case exceptions.ValidationError():
            return ValidationFailed(flatten(error.detail))
        case Http404() | exceptions.NotFound():
            return DomainError(ErrorCode.NOT_FOUND, "There is nothing at this path; see /docs for all paths.")
        case exceptions.NotAuthenticated() | exceptions.AuthenticationFailed():
            return DomainError(ErrorCode.UNAUTHENTICATED, str(error.detail))
        case PermissionDenied():
            return DomainError(ErrorCode.FORBIDDEN, str(error) or "You are not allowed to do this.")
        case exceptions.PermissionDenied():
            return DomainError(ErrorCode.FORBIDDEN, str(error.detail))
        case exceptions.MethodNotAllowed():
            return DomainError(ErrorCode.METHOD_NOT_ALLOWED, f"{error.detail} `Allow` lists the methods of this path.")
        case exceptions.UnsupportedMediaType():
            return DomainError(
                ErrorCode.UNSUPPORTED_MEDIA_TYPE, "Send the body as `Content-Type: application/json`, in UTF-8."
            )
        case DatabaseError() | InterfaceError() if is_outage(error):
            message = "The database cannot answer now; send the same request again later, with the same ids for events."
            return DomainError(ErrorCode.UNAVAILABLE, message)
        case _:
            message = "The service failed; this is a defect, please report it with the requestId."
            return _unreadable(error) or DomainError(ErrorCode.INTERNAL_ERROR, message)


def _unreadable(error: Exception) -> DomainError | None:
    """Return the error for a request that Django cannot read. Sessions make Django read forms, too."""
    match error:
        case TooManyFieldsSent():
            return DomainError(ErrorCode.INVALID_PARAMETER, "Too many parameters; send each once.")
        case RequestDataTooBig():
            return DomainError(ErrorCode.BODY_TOO_LARGE, "The request is too large.")
        case BadRequest() | SuspiciousOperation() | MultiPartParserError() | UnreadablePostError():
            return DomainError(ErrorCode.MALFORMED_JSON, "The body cannot be read; send one JSON document in UTF-8.")
        case _:
            return None


def flatten(detail: Any, path: str = "") -> Iterator[Detail]:
    """Flatten DRF's nested errors to details with one path each, such as `variants[1].weight`."""
    if isinstance(detail, dict):
        for name, item in detail.items():
            if isinstance(name, int):
                yield from flatten(item, f"{path}[{name}]")
            elif name == "non_field_errors":
                yield from flatten(item, path)
            else:
                yield from flatten(item, f"{path}.{name}" if path else str(name))
    elif isinstance(detail, list):
        for index, item in enumerate(detail):
            yield from flatten(item, path if isinstance(item, exceptions.ErrorDetail) else f"{path}[{index}]")
    else:
        yield Detail(path, _detail_code(detail.code), str(detail))


def _detail_code(code: str) -> DetailCode:
    return _DETAIL_CODES.get(code, DetailCode.INVALID_VALUE)


def payload(failure: DomainError, request_id: str) -> dict[str, Any]:
    error: dict[str, Any] = {"code": failure.code.value, "message": _writable(failure.message, _MAX_MESSAGE_LENGTH)}
    if failure.details:
        error["details"] = details(failure.details)
    error["requestId"] = request_id
    return {"error": error}


def details(found: Iterable[Detail]) -> list[dict[str, str]]:
    """Return the first details as JSON. An error of the whole body has the field `body`."""
    return [
        {
            "field": _writable(detail.field, _MAX_NAME_LENGTH) or "body",
            "code": detail.code.value,
            "message": _writable(detail.message, _MAX_MESSAGE_LENGTH),
        }
        for detail in islice(found, MAX_DETAILS)
    ]


def _writable(text: str, longest: int) -> str:
    """Shorten text that may contain input, and replace lone surrogates, which UTF-8 cannot encode."""
    return text[:longest].encode(errors="replace").decode()


def request_id(request: Any) -> str:
    """Return the id that `EdgeMiddleware` gave the request."""
    return str(getattr(request, "request_id", ""))


_BY_STATUS = {
    400: DomainError(
        ErrorCode.INVALID_PARAMETER, "The request line or a header is not acceptable; check the `Host` header."
    ),
    403: DomainError(ErrorCode.FORBIDDEN, "This request is refused."),
    404: as_domain_error(Http404()),
    405: DomainError(ErrorCode.METHOD_NOT_ALLOWED, "`Allow` lists the methods of this path."),
    408: DomainError(ErrorCode.BODY_TIMEOUT, "The body took too long; send the request again, all at once."),
    413: DomainError(ErrorCode.BODY_TOO_LARGE, "The request is too large."),
    503: DomainError(ErrorCode.UNAVAILABLE, "The service cannot answer now; send the same request again later."),
}


def reshape(
    request: HttpRequest, response: HttpResponse, shape: Callable[[DomainError, str], dict[str, Any]] = payload
) -> HttpResponse:
    """Replace an answer of Django, usually HTML, by an error of the API with the same status and headers."""
    failure = _BY_STATUS.get(response.status_code, as_domain_error(Exception()))
    if failure.code is ErrorCode.INTERNAL_ERROR:
        logger.error("%s %s failed outside of its view, request %s", request.method, request.path, request_id(request))
    shaped = HttpResponse(
        orjson.dumps(shape(failure, request_id(request))),
        status=response.status_code if failure.code is not ErrorCode.INTERNAL_ERROR else 500,
        content_type="application/json",
    )
    for name, value in response.items():
        if name not in ("Content-Type", "Content-Length", "Content-Encoding"):
            shaped[name] = value
    return shaped
