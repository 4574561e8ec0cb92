"""Failures in the words of OFREP: its error codes and bodies, with the statuses that its clients read bodies of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.response import Response

from config.api import failures
from config.errors import ErrorCode
from flags.ofrep.answers import FailureCode, tell_failure

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
    response.data = _told(failures.as_domain_error(error).code, response.data["error"]["message"], context["kwargs"])
    response.status_code = _STATUSES.get(response.status_code, response.status_code)
    return response


def _told(code: ErrorCode, details: str, names: Mapping[str, str]) -> dict[str, Any]:
    told = _CODES.get(code)
    if told is None:
        return {"errorDetails": details}
    if "flag_key" in names:
        return tell_failure(names["flag_key"], told, details)
    return {"errorCode": told.value, "errorDetails": details}
