"""The operation that looks at an experiment before it starts, and how the OpenAPI document describes it."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from config.api.filters import refuse_parameters
from config.api.permissions import Access
from config.api.schema import answer, errors, key_in_path
from config.api.views import ApiViewSet
from config.errors import ErrorCode
from config.models import Scope
from experiments.lifecycle.checklist import Check, Level, check_experiment
from experiments.models.documents import get_experiment


class FindingSerializer(serializers.Serializer[Any]):
    """One thing that was looked at, and how it stands."""

    check = serializers.ChoiceField(choices=[each.value for each in Check], help_text="What was looked at.")
    status = serializers.ChoiceField(
        choices=[each.value for each in Level], help_text="How it stands; `unknown` where nobody can tell yet."
    )
    message = serializers.CharField(help_text="Why, and what to do about it.")


_EXAMPLE = {
    "check": "metric_seen",
    "status": "warning",
    "message": "purchase: no event purchase in the last 7 days; is it tracked?",
}


@extend_schema(tags=["Experiments"])
class ChecklistViewSet(ApiViewSet):
    access = {"list": Access(Scope.SERVER, "experiments.view_experiment")}

    @extend_schema(
        operation_id="check_experiment",
        summary="Check an experiment before its start",
        description="Whether what the metrics look at has happened lately, whether one of them decides, how users are "
        "split, whether flag and group are free, which running experiments may have users in common with it, whether "
        "the planned size is reached in time, and whether the tests of its metrics were calibrated. It refuses "
        "nothing: an experiment may be started all the same. Of metrics there is a finding for each.",
        parameters=[key_in_path("experiment_key", "experiment")],
        responses={
            200: answer(FindingSerializer(many=True), "What was found.", _EXAMPLE),
            **errors(ErrorCode.EXPERIMENT_NOT_FOUND),
        },
    )
    def list(self, request: Request, experiment_key: str) -> Response:
        refuse_parameters(request)
        self.refuse_body(request)
        found = check_experiment(get_experiment(experiment_key, self.environment), self.now)
        return Response([{"check": each.check, "status": each.status, "message": each.message} for each in found])
