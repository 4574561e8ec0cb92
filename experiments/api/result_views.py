"""The operations that return and explain the results of an experiment."""

from __future__ import annotations

import django_filters
from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from config.api.filters import SwitchFilter, TextFilter, read_parameters
from config.api.permissions import Access
from config.api.renderers import preferred
from config.api.views import ApiViewSet
from config.errors import Detail, DetailCode, ErrorCode, ValidationFailed
from config.models import Scope
from experiments.api import result_openapi
from experiments.api.result_answers import ResultsOfExperiment, explanation_document
from experiments.api.result_table import results_csv
from experiments.exposures.attributes import ATTRIBUTE_LENGTH
from experiments.lifecycle import changes
from experiments.models import Experiment
from experiments.results.computing import CORRECTIONS, analyse_experiment, explain_metric


class ResultFilter(django_filters.FilterSet):
    metric = TextFilter()
    control = TextFilter()
    correction = django_filters.ChoiceFilter(
        choices=[(correction, correction) for correction in CORRECTIONS],
        error_messages={"invalid_choice": f"Must be {' or '.join(CORRECTIONS)}."},
    )
    series = django_filters.ChoiceFilter(
        choices=[("daily", "daily")],
        error_messages={"invalid_choice": "Must be daily; leave it out for no series."},
    )
    breakdown = TextFilter(max_length=ATTRIBUTE_LENGTH)
    phase = TextFilter()
    audit = SwitchFilter()

    class Meta:
        model = Experiment
        fields = ()


class ExplanationFilter(django_filters.FilterSet):
    metric = TextFilter(required=True, error_messages={"required": "Is missing; name one of the experiment's metrics."})
    variant = TextFilter(required=True, error_messages={"required": "Is missing; name one of the variants."})
    phase = TextFilter()

    class Meta:
        model = Experiment
        fields = ()


@extend_schema(tags=["Experiments"])
class ResultViewSet(ApiViewSet):
    access = {
        "retrieve": Access(Scope.SERVER, "experiments.view_experiment"),
        "explain": Access(Scope.SERVER, "experiments.view_experiment"),
    }
    lookup_url_kwarg = "experiment_key"

    @result_openapi.retrieve
    def retrieve(self, request: Request, experiment_key: str) -> Response | HttpResponse:
        asked_for = read_parameters(request, ResultFilter)
        self.refuse_body(request)
        is_table = preferred(request._request, [result_openapi.CSV]) is not None
        if is_table and asked_for["series"]:
            raise _refused("series", "A table has no series; ask for JSON.")
        experiment = changes.get_experiment(experiment_key, self.environment)
        results = analyse_experiment(
            experiment,
            self.now,
            metric=asked_for["metric"] or None,
            control=asked_for["control"] or None,
            correction=asked_for["correction"] or CORRECTIONS[0],
            daily=experiment.metrics if asked_for["series"] else (),
            breakdown=asked_for["breakdown"] or None,
            has_assignment_audit=bool(asked_for["audit"]),
            phase=asked_for["phase"] or None,
        )
        document = ResultsOfExperiment.of(results).document()
        if is_table:
            return HttpResponse(results_csv(document), content_type=f"{result_openapi.CSV}; charset=utf-8")
        return Response(document)

    @result_openapi.explain
    def explain(self, request: Request, experiment_key: str) -> Response:
        asked_for = read_parameters(request, ExplanationFilter)
        self.refuse_body(request)
        experiment = changes.get_experiment(experiment_key, self.environment)
        metric, variant = asked_for["metric"], asked_for["variant"]
        explained = explain_metric(experiment, metric, variant, asked_for["phase"] or None)
        return Response(explanation_document(experiment, metric, variant, explained, self.now))


def _refused(parameter: str, message: str) -> ValidationFailed:
    return ValidationFailed([Detail(parameter, DetailCode.INVALID_VALUE, message)], code=ErrorCode.INVALID_PARAMETER)
