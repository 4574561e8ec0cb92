"""The operation that checks an experiment before it starts."""

from __future__ import annotations

from typing import Annotated

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from config.answers import Answer, described, one_of
from config.api.permissions import Access
from config.api.schema import answer, operation
from config.api.structs import schema_of
from config.api.views import ApiViewSet
from config.models import Scope
from experiments.lifecycle.checklist import Check, Level, check_experiment
from experiments.models.documents import get_experiment


class Finding(Answer):
    """One thing that was checked, and its result."""

    check: Annotated[str, one_of(Check), described("What was checked.")]
    status: Annotated[str, one_of(Level), described("The result; `unknown` if it cannot be known yet.")]
    message: Annotated[str, described("Why, and what to do about it.")]


_EXAMPLE = {
    "check": "metric_seen",
    "status": "warning",
    "message": "purchase: no event purchase in the last 7 days; check that it is tracked.",
}


@extend_schema(tags=["Experiments"])
class ChecklistViewSet(ApiViewSet):
    access = {"list": Access(Scope.SERVER, "experiments.view_experiment")}

    @operation(
        "check_experiment",
        "Check an experiment before its start",
        description="Checks what could make the results of an experiment unreliable, and returns a finding for each "
        "check. Checks of metrics have a finding for each metric. The findings do not prevent the start.\n\n"
        "- Metrics: their events came lately, one of them decides, and their tests were calibrated.\n"
        "- Users: the split, the flag, how many recent users the start affects, the group, and running experiments "
        "that may share users.\n"
        "- Plan: how long the planned size takes, and whether it suffices for the smallest effect and the guardrails. "
        "Also the shortest run and the look-back.",
        responses={200: answer(schema_of(list[Finding]), "The findings.", [_EXAMPLE])},
    )
    def list(self, request: Request, experiment_key: str) -> Response:
        self.refuse_input(request)
        findings = check_experiment(get_experiment(experiment_key, self.environment), self.now)
        return Response([Finding.of(finding).document() for finding in findings])
