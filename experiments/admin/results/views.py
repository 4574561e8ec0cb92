"""The page with all results of an experiment, what it lets one choose, and the explanation of each figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path
from django.utils import timezone

from config.admin.site import DomainAdmin
from config.documents import Document
from config.errors import DomainError
from experiments.admin.results.explained import explained
from experiments.admin.results.panel import panel_of
from experiments.api.result_answers import ResultsOfExperiment
from experiments.api.result_table import results_csv
from experiments.design.phases import choices
from experiments.metrics.definition import primary_of
from experiments.metrics.documents import definitions_of
from experiments.models import Experiment, Status
from experiments.results.computing import CORRECTIONS, analyse_experiment, known_attributes
from experiments.results.frozen import explain_metric
from experiments.results.types import Results

_LABELS = {"holm": "Holm", "benjamini-hochberg": "Benjamini-Hochberg"}
_CHOICES = ("control", "correction", "breakdown", "phase")
_TEMPLATES = "admin/experiments/experiment"


class ResultPages(DomainAdmin):
    """Adds the pages to those of an experiment, for everyone who may look at it."""

    def get_urls(self) -> list[Any]:
        own = (
            ("results/", self.results_view, "results"),
            ("results.csv", self.table_view, "results_csv"),
            ("results.json", self.document_view, "results_json"),
            ("results/<int:metric_index>/", self.explained_view, "explanation"),
        )
        urls = [
            path(f"<path:object_id>/{route}", self.admin_site.admin_view(view), name=f"experiments_experiment_{name}")
            for route, view, name in own
        ]
        return [*urls, *super().get_urls()]

    def results_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Everything, with the control, the correction and the breakdown that the address names."""
        experiment = self._visible(request, object_id)
        if experiment is None:
            return self.missing(request, object_id)
        context: dict[str, Any] = {"original": experiment, "title": f"Results of {experiment.key}"}
        if experiment.status != Status.DRAFT:
            results = _results_to_show(request, experiment)
            attributes = known_attributes(experiment)
            context |= {"panel": panel_of(results), "attributes": attributes, "corrections": _LABELS.items()}
        return self.page(request, f"{_TEMPLATES}/whole_results.html", context)

    def table_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The same figures as a file for spreadsheets."""
        return self._download(request, object_id, "csv", "text/csv; charset=utf-8", results_csv)

    def document_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The same figures as the API gives them."""
        return self._download(request, object_id, "json", "application/json", orjson.dumps)

    def explained_view(self, request: HttpRequest, object_id: str, metric_index: int) -> HttpResponse:
        """The steps from the events of a metric to its figure in one variant, the first one unless another is named."""
        experiment = self._visible(request, object_id)
        if experiment is None:
            return self.missing(request, object_id)
        variant = request.GET.get("variant", experiment.variant_keys[0])
        if metric_index >= len(experiment.metrics) or variant not in experiment.variant_keys:
            raise Http404
        metric, phase = experiment.metrics[metric_index], request.GET.get("phase") or None
        if phase is not None and phase not in choices(experiment.phases):
            raise Http404
        document = explain_metric(experiment, metric, variant, phase)
        context = {
            "original": experiment,
            "metric": metric,
            "variant": variant,
            "phase": phase,
            "explained": explained(definitions_of(experiment)[metric_index], document),
            "title": f"How the results of {experiment.key} come about",
        }
        return self.page(request, f"{_TEMPLATES}/explanation.html", context)

    def _download(
        self, request: HttpRequest, object_id: str, suffix: str, content_type: str, write: Callable[[Document], Any]
    ) -> HttpResponse:
        experiment = self._visible(request, object_id)
        if experiment is None:
            return self.missing(request, object_id)
        try:
            results = _results(request, experiment)
        except DomainError as refusal:
            raise Http404(refusal.message) from refusal
        content = write(ResultsOfExperiment.of(results).document())
        disposition = f'attachment; filename="{experiment.key}.{suffix}"'
        return HttpResponse(content, content_type, headers={"Content-Disposition": disposition})

    def _visible(self, request: HttpRequest, object_id: str) -> Experiment | None:
        if not self.has_view_permission(request):
            raise PermissionDenied
        found: Experiment | None = self.find(request, object_id)
        return found


def _daily(request: HttpRequest, experiment: Experiment) -> list[str]:
    """The metric whose course is shown: the one that the address names, or else the one that decides."""
    if request.GET.get("daily") in experiment.metrics:
        return [request.GET["daily"]]
    primary = primary_of(definitions_of(experiment))
    return [primary.key] if primary else []


def _results_to_show(request: HttpRequest, experiment: Experiment) -> Results:
    """By the choices in the address. What the experiment does not have is told, and nothing is chosen then."""
    daily = _daily(request, experiment)
    try:
        return _results(request, experiment, daily=daily)
    except DomainError as refusal:
        messages.error(request, refusal.message)
        return analyse_experiment(experiment, timezone.now(), daily=daily, is_audited=_is_audited(request))


def _results(request: HttpRequest, experiment: Experiment, *, daily: Sequence[str] = ()) -> Results:
    # What no database can compare with is no name of anything.
    control, correction, breakdown, phase = (request.GET.get(name, "").replace("\0", "?") or None for name in _CHOICES)
    return analyse_experiment(
        experiment,
        timezone.now(),
        control=control,
        correction=correction or CORRECTIONS[0],
        breakdown=breakdown,
        phase=phase,
        daily=daily,
        is_audited=_is_audited(request),
    )


def _is_audited(request: HttpRequest) -> bool:
    return bool(request.GET.get("audit"))
