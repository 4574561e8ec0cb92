"""The operations that return and explain the results of an experiment, with their OpenAPI descriptions."""

from __future__ import annotations

import django_filters
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from config.api.filters import ChoiceFilter, SwitchFilter, TextFilter, read_parameters
from config.api.parameters import parameters_of
from config.api.permissions import Access
from config.api.renderers import preferred
from config.api.schema import answer, operation
from config.api.structs import schema_of
from config.api.views import ApiViewSet
from config.errors import Detail, DetailCode, ErrorCode, ValidationFailed
from config.models import Scope
from experiments.api.result_answers import ResultsOfExperiment
from experiments.api.result_explanations import ResultExplanation, explanation_as_json
from experiments.api.result_table import results_csv
from experiments.exposures.attributes import ATTRIBUTE_LENGTH
from experiments.lifecycle import changes
from experiments.models import Experiment
from experiments.results.analyse import CORRECTIONS, MATURITIES, analyse_experiment, explain_metric
from experiments.results.breakdown import MAX_VALUES

CSV = "text/csv"
SERIES = ("daily", "daysSinceExposure")


class ResultFilter(django_filters.FilterSet):
    metric = TextFilter(label="Only this metric; the verdict and the corrections still rest on all.")
    control = TextFilter(label="Compare with this variant. Default: the first one.")
    correction = ChoiceFilter(
        CORRECTIONS,
        initial=CORRECTIONS[0],
        label="How tests are corrected for their number. `holm` bounds the chance of a single false discovery, and "
        "`benjamini-hochberg` the share of false ones. The tests of the primary metric are one family, and those of "
        "all other goals are another.",
    )
    maturity = ChoiceFilter(
        MATURITIES,
        initial=MATURITIES[0],
        label="Which users count for metrics with a window. `mature` counts users whose whole window has passed. "
        "`all` also counts users whose window is still open, although their events are incomplete.",
    )
    series = ChoiceFilter(
        SERIES,
        message="Must be daily or daysSinceExposure; leave it out for no series.",
        label="`daily` adds to each variant its figures as of the end of each day, in UTC. `daysSinceExposure` adds "
        "the figures of what users did on each day since their exposure.",
    )
    breakdown = TextFilter(
        max_length=ATTRIBUTE_LENGTH,
        label="Adds the figures by the values that this attribute had at the exposure. They are those of the "
        f"{MAX_VALUES} values with the most users, of all others as one, and of the users without a value. The tests "
        "are corrected over all of them together.",
    )
    phase = TextFilter(
        label="Covers the users who were exposed in the phase of this number. Default: `all`. Phases with other "
        "weights are combined as strata, so that a change of the weights does not look like an effect. Each "
        "treatment is compared over the phases in which it and the control had users."
    )
    audit = SwitchFilter(
        label="`true` adds an audit of all exposures to the guards. It takes seconds for a million users."
    )

    class Meta:
        model = Experiment
        fields = ()


class ExplanationFilter(django_filters.FilterSet):
    metric = TextFilter(
        required=True,
        error_messages={"required": "Is missing; name one of the experiment's metrics."},
        label="A metric of the experiment.",
    )
    variant = TextFilter(
        required=True,
        error_messages={"required": "Is missing; name one of the variants."},
        label="A variant of the experiment.",
    )
    phase = TextFilter(label="As for the results.")

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

    @operation(
        "get_results",
        "Get the results of an experiment",
        description="Returns the statistics of every metric in every variant, and the verdict. They include "
        "everything that was acknowledged before the request. Frozen results (`frozenAt`) no longer change, even if "
        "further events arrive.\n\n"
        "Label, interval, p-value and lift of a row come from one test, which is corrected for several tests. With "
        "the sequential analysis, it holds for any number of looks. `singleLook` holds for a single look, at a time "
        "chosen beforehand. A missing figure is null, with its `reason`.\n\n"
        "With `Accept: text/csv`, the answer is a table with a row for each metric and variant.",
        parameters=parameters_of(ResultFilter),
        responses={200: answer(schema_of(ResultsOfExperiment), "The results."), (200, CSV): OpenApiTypes.STR},
    )
    def retrieve(self, request: Request, experiment_key: str) -> Response | HttpResponse:
        asked_for = read_parameters(request, ResultFilter)
        self.refuse_body(request)
        is_table = preferred(request._request, [CSV]) is not None
        if is_table and asked_for["series"]:
            raise _refused("series", "A table has no series; ask for JSON.")
        experiment = changes.get_experiment(experiment_key, self.environment)
        results = analyse_experiment(
            experiment,
            self.now,
            metric=asked_for["metric"] or None,
            control=asked_for["control"] or None,
            correction=asked_for["correction"] or CORRECTIONS[0],
            maturity=asked_for["maturity"] or MATURITIES[0],
            daily=experiment.metrics if asked_for["series"] == "daily" else (),
            ages=experiment.metrics if asked_for["series"] == "daysSinceExposure" else (),
            breakdown=asked_for["breakdown"] or None,
            has_assignment_audit=bool(asked_for["audit"]),
            phase=asked_for["phase"] or None,
        )
        as_json = ResultsOfExperiment.of(results).as_json()
        if is_table:
            return HttpResponse(results_csv(as_json), content_type=f"{CSV}; charset=utf-8")
        return Response(as_json)

    @operation(
        "explain_results",
        "Explain a figure of the results",
        description="Explains how the value of one metric in one variant is computed. For each condition of the "
        "metric's definition, the answer has the number of events that remain, and of their users. The service counts "
        "these events independently of the results, so that each can check the other. With millions of events this "
        "takes seconds. The explanation is stored when the results freeze.",
        parameters=parameters_of(ExplanationFilter),
        responses={200: answer(schema_of(ResultExplanation), "The explanation.")},
    )
    def explain(self, request: Request, experiment_key: str) -> Response:
        asked_for = read_parameters(request, ExplanationFilter)
        self.refuse_body(request)
        experiment = changes.get_experiment(experiment_key, self.environment)
        metric, variant = asked_for["metric"], asked_for["variant"]
        explained = explain_metric(experiment, metric, variant, asked_for["phase"] or None, now=self.now)
        return Response(explanation_as_json(experiment, metric, variant, explained, self.now))


def _refused(parameter: str, message: str) -> ValidationFailed:
    return ValidationFailed([Detail(parameter, DetailCode.INVALID_VALUE, message)], code=ErrorCode.INVALID_PARAMETER)
