"""The operations that evaluate one flag, evaluate several, and explain one."""

from __future__ import annotations

from datetime import datetime

from drf_spectacular.utils import extend_schema
from msgspec.structs import asdict
from rest_framework.request import Request
from rest_framework.response import Response

from config.api.bodies import UserRequest
from config.api.filters import refuse_parameters
from config.api.parameters import REVISION
from config.api.permissions import Access
from config.api.schema import Schema, answer, component, operation
from config.api.structs import schema_of
from config.api.views import ApiViewSet
from config.models import Scope
from config.serving.fast_lane import Fast
from config.snapshot import revision
from config.timestamps import format_timestamp
from flags import exposures, snapshot
from flags.api.evaluation_serializers import (
    EvaluationRequestSerializer,
    EvaluationsRequest,
    EvaluationsRequestSerializer,
    Explanation,
    ExplanationRequestSerializer,
    UnknownFlag,
)
from flags.api.evaluations import (
    answer_evaluate,
    answer_evaluate_all,
    evaluate_one,
    evaluate_several,
    revision_header,
)
from flags.changes import past
from flags.engine.types import Configuration, Context
from flags.explanations.answers import Evaluation
from flags.explanations.tracing import explain
from flags.snapshot import flag_not_found

_EVALUATION = schema_of(Evaluation)
_EVALUATIONS: Schema = component(
    "EvaluationsByKey",
    {
        "type": "object",
        "description": "The evaluation of each flag by its key, or the error that no flag has this key.",
        "additionalProperties": {"anyOf": [_EVALUATION, schema_of(UnknownFlag)]},
    },
)


@extend_schema(tags=["Flags"])
class EvaluationViewSet(ApiViewSet):
    access = {
        "evaluate": Access(Scope.CLIENT, "flags.view_flag"),
        "evaluate_all": Access(Scope.CLIENT, "flags.view_flag"),
        "explain": Access(Scope.SERVER, "flags.view_flag"),
    }
    bodies = {"evaluate": UserRequest, "evaluate_all": EvaluationsRequest}
    fast_lane = {"evaluate": Fast(answer_evaluate), "evaluate_all": Fast(answer_evaluate_all)}
    answers_from_memory = evaluates = ("evaluate", "evaluate_all")
    lookup_url_kwarg = "flag_key"

    @operation(
        "evaluate_flag",
        "Evaluate a flag",
        description="Returns whether the flag is on for a user, and why. A flag with variants also has the variant "
        "that it serves, and its value. If an experiment drives the flag, the user's variant in the experiment "
        "decides, and the user keeps the variant seen first. The exposure is recorded before the answer.",
        parameters=[REVISION],
        request=EvaluationRequestSerializer,
        responses={200: answer(_EVALUATION, "The evaluation.")},
    )
    def evaluate(self, request: Request, flag_key: str) -> Response:
        refuse_parameters(request)
        body = self.read_body(request, EvaluationRequestSerializer)
        headers = revision_header()
        return Response(evaluate_one(body, flag_key, self.caller, self.now), headers=headers)

    @operation(
        "evaluate_flags",
        "Evaluate several flags",
        description="Returns all flags that are not archived, or those named in `flags`, for one user and one "
        "revision of the configuration. Each evaluation is the same as that of the flag alone, but exposures to "
        "experiments are not recorded. A key that no flag has gets an error as its entry; the other flags are "
        "evaluated.",
        parameters=[REVISION],
        request=EvaluationsRequestSerializer,
        responses={200: answer(_EVALUATIONS, "The evaluations by key.")},
    )
    def evaluate_all(self, request: Request) -> Response:
        refuse_parameters(request)
        body = self.read_body(request, EvaluationsRequestSerializer)
        headers = revision_header()
        return Response(evaluate_several(body, self.caller, self.now), headers=headers)

    @operation(
        "explain_flag",
        "Explain a flag",
        description="Returns what the flag is for a user, now or at any other moment, with each test of each rule: "
        "the data that it compared and its outcome. Nothing is recorded. A user who is in an experiment now is "
        "treated as if they had always been in it.",
        parameters=[REVISION],
        request=ExplanationRequestSerializer,
        responses={200: answer(schema_of(Explanation), "The explanation.")},
    )
    def explain(self, request: Request, flag_key: str) -> Response:
        refuse_parameters(request)
        body = self.validated(request.data, ExplanationRequestSerializer)
        headers = revision_header()
        at = body.get("at", self.now)
        configuration, at_revision = self._configuration_at(flag_key, at)
        flag = configuration.flags.get(flag_key)
        if flag is None:
            raise flag_not_found(flag_key)
        context = Context(body["userId"], body.get("attributes", {}), configuration, at)
        if configuration.experiments:
            exposures.load_assignments(self.environment, context, [flag_key], until=at if at < self.now else None)
        trace = explain(flag, context)
        explanation = Explanation(
            **asdict(trace), environment=self.environment.key, at=format_timestamp(at), revision=at_revision
        )
        return Response(explanation.as_json(), headers=headers)

    def _configuration_at(self, flag_key: str, at: datetime) -> tuple[Configuration, int]:
        """Return the configuration at a time, and its revision. For a future time, it is the current one."""
        if at < self.now:
            return past.configuration_at(flag_key, self.environment.key, at)
        newest = revision()
        return snapshot.configuration(self.environment.key), newest
