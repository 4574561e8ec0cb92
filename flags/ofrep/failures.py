"""Failures in the words of OFREP: its error codes and bodies, with the statuses that its clients read bodies of."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from config.api import failures
from config.errors import ErrorCode
from flags.ofrep.answers import FailureCode

# Of other failures, clients go by the status alone.
_CODES = {
    ErrorCode.MALFORMED_JSON: FailureCode.PARSE_ERROR,
    ErrorCode.UNSUPPORTED_MEDIA_TYPE: FailureCode.PARSE_ERROR,
    ErrorCode.VALIDATION_FAILED: FailureCode.INVALID_CONTEXT,
    ErrorCode.BODY_TOO_LARGE: FailureCode.GENERAL,
    ErrorCode.INVALID_PARAMETER: FailureCode.GENERAL,
    ErrorCode.INTERNAL_ERROR: FailureCode.GENERAL,
    ErrorCode.FLAG_NOT_FOUND: FailureCode.FLAG_NOT_FOUND,
}
_STATUSES = {415: 400, 413: 400}


def answer_exception(error: Exception, context: dict[str, Any]) -> Response:
    """Turn what a view raised into its answer, logged and with the headers as under /v1."""
    response = failures.answer_exception(error, context)
    code = _CODES.get(failures.as_domain_error(error).code)
    body = {} if code is None else {"errorCode": code.value}
    if code is not None and "flag_key" in context["kwargs"]:
        body = {"key": context["kwargs"]["flag_key"], **body}
    response.data = {**body, "errorDetails": response.data["error"]["message"]}
    response.status_code = _STATUSES.get(response.status_code, response.status_code)
    return response
