"""Failures of OFREP: the error codes of the protocol, with the statuses whose bodies its clients read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.response import Response

from config.answers import Answer
from config.api import failures
from config.errors import ErrorCode
from flags.ofrep.answers import FailureCode, OfrepRefusal, answer_failure

# For all other failures, clients look at the status alone.
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
    """Return the answer to an exception of a view, with the log entry and the headers of a failure under /v1."""
    response = failures.answer_exception(error, context)
    details = response.data["error"]["message"]
    response.data = _failure(failures.as_domain_error(error).code, details, context["kwargs"])
    response.status_code = _STATUSES.get(response.status_code, response.status_code)
    return response


def _failure(code: ErrorCode, details: str, arguments: Mapping[str, str]) -> Answer | dict[str, Any]:
    protocol_code = _CODES.get(code)
    if protocol_code is None:
        return OfrepRefusal(error_details=details)
    if "flag_key" in arguments:
        return answer_failure(arguments["flag_key"], protocol_code, details)
    return {"errorCode": protocol_code.value, "errorDetails": details}
