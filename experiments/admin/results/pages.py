"""The page with all results, its downloads, and the page that explains a figure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.utils import timezone
from django.utils.http import content_disposition_header

from config.admin.site import DomainAdmin
from config.documents import Document
from config.errors import DomainError
from experiments.admin.links import links_of
from experiments.admin.results.exposed_users import read_users
from experiments.admin.results.formatting import format_of_values
from experiments.admin.results.notes import CORRECTION_NAMES
from experiments.admin.results.panel import build_panel
from experiments.admin.results.report import (
    PLOT_KINDS,
    describe_design,
    describe_method,
    draw_plot,
    drawings,
    file_name,
)
from experiments.admin.words import describe_definition, describe_moment
from experiments.api.result_answers import ResultsOfExperiment
from experiments.api.result_table import results_csv
from experiments.exposures.queries import can_be_arrivals, current_arrivals, has_arrivals
from experiments.metrics.definition import Definition, definitions_of, primary_of
from experiments.models import Experiment, Status
from experiments.models.phases import choices
from experiments.results.analyse import analyse_experiment, explain_metric, known_attributes
from experiments.results.outcomes import Outcome, outcome_of, outcomes_of
from experiments.results.types import Results
from experiments.stats.numbers import NO_FIGURE, format_count, format_number

_CHOICES = ("control", "correction", "breakdown", "phase", "maturity")
_TEMPLATES = "admin/experiments/experiment"


class ResultPages(DomainAdmin):
    """The pages of results, for everyone who may view the experiment."""

    def get_urls(self) -> list[Any]:
        own = (
            ("results/", self.results_view, "results"),
            ("results/changed/", self.changed_view, "results_changed"),
            ("results.csv", self.table_view, "results_csv"),
            ("results.json", self.document_view, "results_json"),
            ("results/<int:metric_index>/", self.explained_view, "explanation"),
            ("results/<int:metric_index>/<str:kind>.svg", self.plot_view, "plot"),
            ("report/", self.report_view, "report"),
            ("users/", self.users_view, "users"),
        )
        urls = [self.route(f"<path:object_id>/{address}", view, page) for address, view, page in own]
        return [*urls, *super().get_urls()]

    def results_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show all results, with the choices from the query string."""
        experiment = self._visible(request, object_id)
        if experiment is None:
            return self.missing(request, object_id)
        links = links_of(request, experiment)
        context: dict[str, Any] = {"original": experiment, "title": f"Results of {experiment.key}", "links": links}
        if experiment.status != Status.DRAFT:
            # Before the results are read, so that nothing falls in between.
            follows = experiment.frozen_at is None and not _has_assignment_audit(request)
            context["arrivals"] = current_arrivals() if follows else ""
            results = _results_to_show(request, experiment)
            attributes = known_attributes(experiment)
            panel = build_panel(results, _outcome(request, results))
            context |= {
                "panel": panel,
                "cards": [(card, links.metrics.get(card.definition.key, "")) for card in panel.cards],
                "attributes": attributes,
                "corrections": CORRECTION_NAMES.items(),
                "has_change_permission": self.has_change_permission(request, experiment),
                **self.results_context(request, experiment),
            }
        return self.page(request, f"{_TEMPLATES}/whole_results.html", context)

    def results_context(self, request: HttpRequest, experiment: Experiment) -> dict[str, Any]:
        """Return what the page shows besides the results of a started experiment."""
        return {}

    def changed_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Answer whether the results may have changed since a position, with the position for the next question."""
        experiment = self._visible(request, object_id)
        if experiment is None:
            return JsonResponse({"error": "There is no such experiment."}, status=404)
        since = request.GET.get("since", "")
        if not can_be_arrivals(since):
            return JsonResponse({"error": "since: Must be the position of the page or of the last answer."}, status=400)
        position = current_arrivals()
        names = {name for definition in definitions_of(experiment) for name in definition.events}
        return JsonResponse({"position": position, "hasChanged": has_arrivals(experiment, names, since)})

    def table_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Return the results as a CSV file."""
        return self._download(request, object_id, "csv", "text/csv; charset=utf-8", results_csv)

    def document_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Return the results as JSON, as the API does."""
        return self._download(request, object_id, "json", "application/json", orjson.dumps)

    def explained_view(self, request: HttpRequest, object_id: str, metric_index: int) -> HttpResponse:
        """Show how the value of a metric in a variant is computed, by default in the control."""
        experiment = self._visible(request, object_id)
        if experiment is None:
            return self.missing(request, object_id)
        variant = request.GET.get("variant", experiment.variant_keys[0])
        if metric_index >= len(experiment.metrics) or variant not in experiment.variant_keys:
            raise Http404
        metric, phase = experiment.metrics[metric_index], request.GET.get("phase") or None
        if phase is not None and phase not in choices(experiment.phases):
            raise Http404
        explained = explain_metric(experiment, metric, variant, phase, now=timezone.now())
        context = {
            "original": experiment,
            "metric": metric,
            "variant": variant,
            "phase": phase,
            "explanation": build_explanation(definitions_of(experiment)[metric_index], explained),
            "title": f"How {metric} of {experiment.key} is computed",
        }
        return self.page(request, f"{_TEMPLATES}/explanation.html", context)

    def plot_view(self, request: HttpRequest, object_id: str, metric_index: int, kind: str) -> HttpResponse:
        """Return a plot of a metric as an SVG file."""
        experiment = self._visible(request, object_id)
        if experiment is None:
            return self.missing(request, object_id)
        known = next((name for name in PLOT_KINDS if name == kind), None)
        if known is None or metric_index >= len(experiment.metrics):
            raise Http404
        metric = experiment.metrics[metric_index]
        series = {"days": {"daily": [metric]}, "ages": {"ages": [metric]}}.get(known, {})
        try:
            results = _results(request, experiment, **series)
        except DomainError as refusal:
            raise Http404(refusal.message) from refusal
        card = next(card for card in build_panel(results).cards if card.metric_index == metric_index)
        note = f"{format_count(results.users, 'user')} as of {describe_moment(results.as_of)}"
        drawing = draw_plot(card, known, title=f"{metric} in {experiment.key}", note=note)
        if drawing is None:
            raise Http404
        disposition = content_disposition_header(True, file_name(experiment.key, metric, known)) or "attachment"
        return HttpResponse(drawing, "image/svg+xml", headers={"Content-Disposition": disposition})

    def report_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show the whole experiment on one page to print."""
        experiment = self._visible(request, object_id)
        if experiment is None:
            return self.missing(request, object_id)
        if experiment.status == Status.DRAFT:
            messages.error(request, f"{experiment.key} has not started, so there is nothing to report yet.")
            return HttpResponseRedirect(self.address_of("change", experiment.pk))
        results = _results_to_show(request, experiment)
        panel = build_panel(results, _outcome(request, results))
        context = {
            "original": experiment,
            "panel": panel,
            "cards": drawings(panel),
            "design": describe_design(experiment),
            "method": list(describe_method(results)),
        }
        return self.page(request, f"{_TEMPLATES}/report.html", context)

    def users_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        experiment = self._visible(request, object_id)
        if experiment is None:
            return self.missing(request, object_id)
        # PostgreSQL refuses texts with U+0000; with another character the id is simply unknown.
        after, variant = (request.GET.get(name, "").replace("\0", "?") for name in ("after", "variant"))
        context = {
            "original": experiment,
            "links": links_of(request, experiment),
            "page": read_users(experiment, variant=variant, after=after),
            "variant": variant,
            "after": after,
            "title": f"Users of {experiment.key}",
        }
        return self.page(request, f"{_TEMPLATES}/users.html", context)

    def _download(
        self, request: HttpRequest, object_id: str, suffix: str, content_type: str, write: Callable[[Document], Any]
    ) -> HttpResponse:
        experiment = self._visible(request, object_id)
        if experiment is None:
            return self.missing(request, object_id)
        try:
            results = _results(request, experiment, has_assignment_audit=_has_assignment_audit(request))
        except DomainError as refusal:
            raise Http404(refusal.message) from refusal
        content = write(ResultsOfExperiment.of(results).as_json())
        disposition = f'attachment; filename="{experiment.key}.{suffix}"'
        return HttpResponse(content, content_type, headers={"Content-Disposition": disposition})

    def _visible(self, request: HttpRequest, object_id: str) -> Experiment | None:
        if not self.has_view_permission(request):
            raise PermissionDenied
        experiment: Experiment | None = self.find(request, object_id)
        return experiment


def _daily(request: HttpRequest, experiment: Experiment) -> list[str]:
    """Return the metric to show by day: the one in the query string, else the primary metric."""
    if request.GET.get("daily") in experiment.metrics:
        return [request.GET["daily"]]
    primary = primary_of(definitions_of(experiment))
    return [primary.key] if primary else []


def _ages(request: HttpRequest, experiment: Experiment) -> list[str]:
    """Return the metric to show by days since the exposure: the one in the query string, if any."""
    return [request.GET["ages"]] if request.GET.get("ages") in experiment.metrics else []


def _results_to_show(request: HttpRequest, experiment: Experiment) -> Results:
    """Return the results for the choices. If a choice is invalid, show an error, and the defaults."""
    shown: dict[str, Any] = {
        "daily": _daily(request, experiment),
        "ages": _ages(request, experiment),
        "has_assignment_audit": _has_assignment_audit(request),
    }
    try:
        return _results(request, experiment, **shown)
    except DomainError as refusal:
        messages.error(request, refusal.message)
        return analyse_experiment(experiment, timezone.now(), **shown)


def _results(request: HttpRequest, experiment: Experiment, **shown: Any) -> Results:
    # PostgreSQL refuses texts with U+0000; with another character the name is simply unknown.
    typed = {name: request.GET.get(name, "").replace("\0", "?") for name in _CHOICES}
    chosen: dict[str, Any] = {name: value for name, value in typed.items() if value}
    return analyse_experiment(experiment, timezone.now(), **chosen, **shown)


def _outcome(request: HttpRequest, results: Results) -> Outcome | None:
    """Return the outcome of a stopped experiment, whatever the choices."""
    if any(request.GET.get(name) for name in _CHOICES):
        return outcomes_of([results.experiment], results.as_of, most=1).get(results.experiment.pk)
    return outcome_of(results)


def _has_assignment_audit(request: HttpRequest) -> bool:
    return bool(request.GET.get("audit"))


# explanation


@dataclass(frozen=True, slots=True)
class ExplanationStep:
    """What is left after a condition and all above it."""

    words: str
    events: str
    users: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a value is computed. `denominator` is empty except for ratios. `sums` lead to the value."""

    words: str
    steps: Sequence[ExplanationStep]
    denominator: Sequence[ExplanationStep]
    sums: Sequence[tuple[str, str]]


def build_explanation(definition: Definition, explained: Mapping[str, Any]) -> Explanation:
    """Return the explanation for what `experiments.results.explain` returns."""
    return Explanation(
        words=describe_definition(definition, explained["cap"]),
        steps=_steps(explained["steps"]),
        denominator=_steps(explained["denominatorSteps"] or ()),
        sums=list(_sums(definition, explained)),
    )


def _steps(steps: Sequence[Mapping[str, Any]]) -> list[ExplanationStep]:
    return [ExplanationStep(step["description"], f"{step['rows']:,}", f"{step['users']:,}") for step in steps]


def _sums(definition: Definition, explained: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "Exposed users", f"{explained['users']:,}"
    if explained["cap"] is not None:
        yield f"Users above the cap of {format_number(explained['cap'])}", f"{explained['cappedUsers']:,}"
    yield _name_of_sum(definition), format_number(explained["sum"])
    if explained["denominatorSum"] is not None:
        yield "Denominator, over all users", format_number(explained["denominatorSum"])
    value = NO_FIGURE if explained["value"] is None else format_of_values(definition)(explained["value"])
    yield _name_of_value(definition), value


def _name_of_sum(definition: Definition) -> str:
    if definition.is_share:
        return "Users with such an event"
    return "Numerator, over all users" if definition.denominator else "Sum over all users"


def _name_of_value(definition: Definition) -> str:
    if definition.denominator:
        return "Numerator divided by denominator"
    return "Share of exposed users" if definition.is_share else "Sum divided by exposed users"
