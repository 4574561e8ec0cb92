"""The operation that plans an experiment."""

from __future__ import annotations

import django_filters
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from config.api.filters import NumberFilter, TextFilter, read_parameters
from config.api.permissions import Access
from config.api.views import ApiViewSet
from config.models import Scope
from experiments.api import planner_openapi
from experiments.models import Experiment
from experiments.planner.plan import plan
from experiments.planner.question import Kind, Question

PARAMETERS = {
    "type": "kind",
    "baseline": "baseline",
    "standardDeviation": "standard_deviation",
    "mde": "mde",
    "power": "power",
    "alpha": "alpha",
    "variants": "variants",
    "usersPerDay": "users_per_day",
    "tuningSampleSize": "tuning_size",
    "metric": "metric",
    "experiment": "experiment",
}
"""The fields of `Question` by the names of the parameters."""


class PlannerFilter(django_filters.FilterSet):
    type = django_filters.ChoiceFilter(
        choices=[(kind.value, kind.value) for kind in Kind],
        error_messages={"invalid_choice": "Must be rate or mean."},
    )
    baseline = NumberFilter()
    standardDeviation = NumberFilter()
    mde = NumberFilter()
    power = NumberFilter()
    alpha = NumberFilter()
    variants = NumberFilter(is_whole=True)
    usersPerDay = NumberFilter()
    tuningSampleSize = NumberFilter(is_whole=True)
    metric = TextFilter()
    experiment = TextFilter()

    class Meta:
        model = Experiment
        fields = ()


@extend_schema(tags=["Experiments"])
class PlannerViewSet(ApiViewSet):
    access = {"retrieve": Access(Scope.SERVER, "experiments.view_experiment")}

    @planner_openapi.retrieve
    def retrieve(self, request: Request) -> Response:
        sent = read_parameters(request, PlannerFilter)
        self.refuse_body(request)
        question = {name: None if sent[parameter] == "" else sent[parameter] for parameter, name in PARAMETERS.items()}
        question["kind"] = Kind(question["kind"]) if question["kind"] else None
        made = plan(Question(**question), self.environment, self.now)
        return Response(planner_openapi.Plan.of(made).document())
