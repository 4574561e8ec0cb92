"""The operation that plans experiments: read the parameters, one call of the domain, serialise."""

from __future__ import annotations

from typing import Any

import django_filters
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from config.api.filters import NumberFilter, TextFilter, read_parameters
from config.api.permissions import Access
from config.api.views import ApiViewSet
from config.models import Scope
from config.timestamps import format_timestamp
from experiments.api import planner_openapi
from experiments.models import Experiment
from experiments.planner.forecast import DetectableDay
from experiments.planner.history import History
from experiments.planner.plan import Plan, Size, plan
from experiments.planner.question import Assumptions, Kind, Question

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
"""What the parameters are called in a `Question`."""


class PlannerFilter(django_filters.FilterSet):
    type = django_filters.ChoiceFilter(
        choices=[(each.value, each.value) for each in Kind],
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
        return Response(_told(plan(Question(**question), self.environment, self.now)))


def _told(made: Plan) -> dict[str, Any]:
    return {
        "fixedHorizon": _size(made.fixed_horizon),
        "alwaysValid": _size(made.always_valid),
        "assumptions": _assumptions(made.assumptions),
        "history": None if made.history is None else _history(made.history),
        "detectable": None if made.detectable is None else [_day(each) for each in made.detectable],
    }


def _size(size: Size) -> dict[str, Any]:
    return {"usersPerVariant": size.users_per_variant, "users": size.users, "days": size.days}


def _assumptions(assumed: Assumptions) -> dict[str, Any]:
    return {
        "type": assumed.kind.value,
        "baseline": assumed.baseline,
        "standardDeviation": assumed.standard_deviation,
        "mde": assumed.mde,
        "power": assumed.power,
        "alpha": assumed.alpha,
        "variants": assumed.variants,
        "smallestShare": float(assumed.smallest_share),
        "usersPerDay": assumed.users_per_day,
        "tuningSampleSize": assumed.tuning_size,
    }


def _history(history: History) -> dict[str, Any]:
    return {
        "experiment": history.experiment and history.experiment.key,
        "from": format_timestamp(history.start),
        "to": format_timestamp(history.end),
        "users": history.users,
        "usersPerDay": history.users_per_day,
        "baseline": history.baseline,
        "standardDeviation": history.standard_deviation,
    }


def _day(each: DetectableDay) -> dict[str, Any]:
    return {
        "day": each.day.isoformat(),
        "users": each.users,
        "isForecast": each.is_forecast,
        "fixedHorizon": each.fixed_horizon,
        "alwaysValid": each.always_valid,
    }
