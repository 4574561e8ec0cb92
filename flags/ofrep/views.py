"""The two operations of OFREP: evaluate one flag for a user, or all flags. Their failures have the protocol's codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from drf_spectacular.utils import extend_schema
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from config import snapshot
from config.answers import Answer
from config.api import failures
from config.api.permissions import Access
from config.api.views import ApiViewSet
from config.errors import DomainError, ErrorCode
from config.models import Scope
from config.serving.fast_lane import Fast
from flags.engine.evaluation import TargetingKeyMissing
from flags.engine.types import Context
from flags.ofrep import client_state, openapi
from flags.ofrep.answers import FailureCode, OfrepRefusal, answer_failure, answer_missing_key
from flags.ofrep.client_state import matches
from flags.ofrep.evaluations import (
    EvaluationOfAll,
    answer_evaluate,
    answer_evaluate_all,
    context_of,
    evaluate_one,
    offer_to,
)
from flags.usage import counting

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


class BareRenderer(BaseRenderer):
    """JSON without an envelope, or an empty body."""

    media_type = "application/json"
    format = "json"
    charset = None
    render_style = "binary"

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        return b"" if data is None else msgspec.json.encode(data)


@extend_schema(tags=["OpenFeature"])
class OfrepViewSet(ApiViewSet):
    access = {
        "evaluate": Access(Scope.CLIENT, "flags.view_flag"),
        "evaluate_all": Access(Scope.CLIENT, "flags.view_flag"),
    }
    fast_lane = {"evaluate": Fast(answer_evaluate), "evaluate_all": Fast(answer_evaluate_all)}
    answers_from_memory = evaluates = ("evaluate", "evaluate_all")
    lookup_url_kwarg = "flag_key"
    renderer_classes = [BareRenderer]

    def get_exception_handler(self) -> Callable[[Exception, dict[str, Any]], Response]:
        return answer_exception

    @openapi.evaluate
    def evaluate(self, request: Request, flag_key: str) -> Response:
        context = self._context(request)
        try:
            return Response(evaluate_one(context, flag_key, self.caller))
        except TargetingKeyMissing:
            counting.count(self.environment, context)
            return Response(answer_missing_key(flag_key), status=400)

    @openapi.evaluate_all
    def evaluate_all(self, request: Request) -> Response:
        if request.META.get("QUERY_STRING"):
            tags = request.query_params.getlist("flagConfigEtag")
            snapshot.catch_up_to(client_state.newest_revision(tags))
        context = self._context(request)
        if_none_match = request.META.get("HTTP_IF_NONE_MATCH")
        offer = offer_to(self.caller, request._request, context, if_none_match)
        evaluation = EvaluationOfAll(context, self.caller, offer)
        headers = {"ETag": evaluation.etag}
        if matches(if_none_match, headers["ETag"]):
            return Response(status=304, headers=headers)
        return Response(evaluation.answer(), headers=headers)

    def _context(self, request: Request) -> Context:
        if request.stream is None:
            raise DomainError(ErrorCode.MALFORMED_JSON, "The body is empty; send one JSON document in UTF-8.")
        return context_of(request.data, self.caller, self.now)


# --- failures --------------------------------------------------------------------------------------------------------


def answer_exception(error: Exception, context: dict[str, Any]) -> Response:
    """Return the protocol's answer to an exception, with the log entry and headers of failures under /v1."""
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
