"""Experiments in the admin: drafts are edited, started, stopped; started ones show their results."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.safestring import SafeString
from unfold.enums import ActionVariant

from config.admin_site import (
    ChoiceFilter,
    Confirmation,
    button,
    column,
    in_two_lines,
    moment,
    reason_of,
    writer_here,
)
from config.current_environment import current_environment
from experiments import lifecycle
from experiments.design import TUNING_SIZE
from experiments.forms import TWO_EQUAL_VARIANTS, DraftForm, ExperimentForm, NewDraftForm
from experiments.metrics.admin import MetricAdmin, known_metrics
from experiments.models import Experiment, ExperimentQuerySet, Metric, Status
from experiments.planner.page import PlannerPage
from experiments.results.computing import analyse_experiment
from experiments.results.pages.panel import Panel, panel_of
from experiments.results.pages.views import ResultPages

admin.site.register(Metric, MetricAdmin)

_TONES = {Status.DRAFT: "info", Status.RUNNING: "success", Status.STOPPED: "default"}


class StatusFilter(ChoiceFilter):
    title = "status"
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return list(Status.choices)

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return queryset.filter(status=self.value()) if self.value() else queryset


@admin.register(Experiment)
class ExperimentAdmin(PlannerPage, ResultPages):
    kind = lifecycle.KIND
    is_common = False
    is_environmental = True
    list_display = ("shown_key", "shown_status", "shown_variants", "shown_metrics", "shown_start", "shown_creation")
    list_filter = (StatusFilter,)
    search_fields = ("key", "description")
    search_help_text = "Key or description"
    ordering = ("-created_at", "-id")
    actions_detail = ("start", "stop")
    change_form_outer_before_template = "admin/experiments/experiment/results.html"
    change_form_after_template = "admin/experiments/experiment/known.html"

    def get_queryset(self, request: HttpRequest) -> ExperimentQuerySet:
        # The environment's name goes into the change log with every write.
        return Experiment.objects.in_environment(current_environment(request)).select_related("environment")

    # the list

    @column("Experiment", ordering="key")
    def shown_key(self, experiment: Experiment) -> SafeString:
        return in_two_lines(experiment.key, experiment.description[:100])

    @column("Status", ordering="status", label=_TONES)
    def shown_status(self, experiment: Experiment) -> str:
        return experiment.status

    @column("Variants")
    def shown_variants(self, experiment: Experiment) -> str:
        total = sum(variant["weight"] for variant in experiment.variants)
        return " · ".join(
            f"{variant['key']} {100 * variant['weight'] / total:.3g} %" for variant in experiment.variants
        )

    @column("Metrics", empty_value="none")
    def shown_metrics(self, experiment: Experiment) -> str | None:
        return ", ".join(experiment.metrics) or None

    @column("Tuned for")
    def shown_tuning_size(self, experiment: Experiment) -> str:
        return f"{experiment.tuning_size:,} users"

    @column("Created", ordering="created_at")
    def shown_creation(self, experiment: Experiment) -> SafeString | None:
        return moment(experiment.created_at)

    @column("Started", ordering="started_at", empty_value="not yet")
    def shown_start(self, experiment: Experiment) -> SafeString | None:
        return moment(experiment.started_at)

    @column("Stopped", empty_value="not yet")
    def shown_end(self, experiment: Experiment) -> SafeString | None:
        return moment(experiment.stopped_at)

    # the form

    def get_form(
        self, request: HttpRequest, obj: Experiment | None = None, change: bool = False, **options: Any
    ) -> Any:
        form = NewDraftForm if obj is None else DraftForm if _is_of_draft(request, obj) else ExperimentForm
        return super().get_form(request, obj, change, **{"form": form, **options})

    def get_fieldsets(self, request: HttpRequest, obj: Experiment | None = None) -> Any:
        if obj is None or (_is_of_draft(request, obj) and self.has_change_permission(request, obj)):
            return [(None, {"fields": ["key", "description", "variants", "metrics", "tuning_sample_size", "reason"]})]
        moments = {"shown_creation": obj.created_at, "shown_start": obj.started_at, "shown_end": obj.stopped_at}
        past = [name for name, at in moments.items() if at is not None]
        facts = ["key", "shown_status", "shown_variants", "shown_metrics", "shown_tuning_size", *past]
        editable = ["description", "reason"] if self.has_change_permission(request, obj) else ["description"]
        title = None if obj.status == Status.DRAFT else "Fixed since it was started"
        return [(None, {"fields": editable}), (title, {"fields": facts})]

    def get_readonly_fields(self, request: HttpRequest, obj: Experiment | None = None) -> Any:
        if obj is None:
            return []
        if _is_of_draft(request, obj) and self.has_change_permission(request, obj):
            return ["key"]
        moments = ["shown_creation", "shown_start", "shown_end"]
        return ["key", "shown_status", "shown_variants", "shown_metrics", "shown_tuning_size", *moments]

    def loaded(self, request: HttpRequest, obj: Experiment | None) -> dict[str, Any]:
        here = super().loaded(request, obj)
        if obj is None:
            return {**here, "variants": TWO_EQUAL_VARIANTS, "tuning_sample_size": TUNING_SIZE}
        return {**here, "tuning_sample_size": obj.tuning_size}

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        context = {"known_metrics": known_metrics}
        return super().changeform_view(request, object_id, form_url, {**context, **(extra_context or {})})

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> Any:
        # Not computed before Django knows that there is such an experiment.
        context = {"panel": partial(self._panel, request, object_id)}
        return super().change_view(request, object_id, form_url, {**context, **(extra_context or {})})

    def _panel(self, request: HttpRequest, object_id: str) -> Panel | None:
        """What has come of it so far; None for a draft, which has nothing to show."""
        experiment = self.find(request, object_id)
        if experiment is None or experiment.status == Status.DRAFT:
            return None
        return panel_of(analyse_experiment(experiment, timezone.now()))

    # the domain

    def write(self, request: HttpRequest, obj: Experiment, values: dict[str, Any], *, is_new: bool) -> Experiment:
        common = {"reason": values["reason"], **writer_here(request)}
        new: dict[str, Any] = {name: values[name] for name in ("description", "variants", "metrics") if name in values}
        if "tuning_sample_size" in values:
            new["tuning_size"] = values["tuning_sample_size"]
        if is_new:
            return lifecycle.create_experiment(key=values["key"], **new, **common)
        return lifecycle.update_experiment(key=obj.key, changes=new, **common)

    def remove(self, request: HttpRequest, obj: Experiment, reason: str) -> None:
        lifecycle.delete_experiment(key=obj.key, reason=reason, **writer_here(request))

    def has_delete_permission(self, request: HttpRequest, obj: Experiment | None = None) -> bool:
        # What was started has results, and stays.
        return super().has_delete_permission(request, obj) and (obj is None or obj.status == Status.DRAFT)

    @button("Start", permission="change", icon="play_arrow", variant=ActionVariant.PRIMARY)
    def start(self, request: HttpRequest, object_id: str) -> HttpResponse:
        experiment = self.find(request, object_id)
        if experiment is None:
            return self.missing(request, object_id)
        confirmation = Confirmation(
            f"Start {experiment.key}?",
            (
                f"From now on users are assigned: {self.shown_variants(experiment)}.",
                "Variants, weights and metrics are fixed once it has started, and so is what each metric computes.",
                "It runs until you stop it, and cannot be started a second time.",
            ),
            "Start the experiment",
            is_dangerous=False,
        )
        act = partial(self._move, request, experiment, lifecycle.start_experiment)
        return self.confirm(request, experiment, confirmation, act, f"{experiment.key} is running.")

    @button("Stop", permission="change", icon="stop", variant=ActionVariant.DANGER)
    def stop(self, request: HttpRequest, object_id: str) -> HttpResponse:
        experiment = self.find(request, object_id)
        if experiment is None:
            return self.missing(request, object_id)
        confirmation = Confirmation(
            f"Stop {experiment.key}?",
            (
                "It assigns no more variants; code that asks for one is refused.",
                "Nothing that happens after this moment counts for its results.",
                "A stopped experiment cannot be started again.",
            ),
            "Stop the experiment",
        )
        act = partial(self._move, request, experiment, lifecycle.stop_experiment)
        return self.confirm(request, experiment, confirmation, act, f"{experiment.key} is stopped.")

    def _move(self, request: HttpRequest, experiment: Experiment, move: Any) -> None:
        move(key=experiment.key, reason=reason_of(request), **writer_here(request))

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        """Start for a draft, stop for a running one; the domain decides when the button is pressed."""
        experiment = self.find(request, str(object_id))
        fitting = {Status.DRAFT: "start", Status.RUNNING: "stop"}.get(experiment.status) if experiment else None
        found = super().get_actions_detail(request, object_id)
        return [each for each in found if each.action_name == f"experiments_experiment_{fitting}"]


def _is_of_draft(request: HttpRequest, experiment: Experiment | None) -> bool:
    """Whether a page is that of a draft, or was when it was opened: then the domain answers what came of its edits."""
    return experiment is None or experiment.status == Status.DRAFT or "variants" in request.POST
