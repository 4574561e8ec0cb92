"""Experiments in the admin: the list and the form. `steps` has the pages that start, ship and stop them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from config.admin.columns import brief, column, in_two_lines, time_cell, unbroken
from config.admin.current_environment import current_environment
from config.admin.filters import ChoiceFilter, MenuFilter
from config.admin.kept_input import sent_input
from config.admin.site import writer_here
from config.admin.template_filters import link_users
from config.change_log.reversion import reversibles
from config.change_log.sentences import kind_words
from config.documents import Document
from experiments.admin.change_words import EXPERIMENT_WORDS
from experiments.admin.comments import CommentPages
from experiments.admin.experiment_forms import (
    COLUMNS,
    PLAN_FIELDS,
    TWO_EQUAL_VARIANTS,
    DraftForm,
    ExperimentForm,
    MeasuredForm,
    NewDraftForm,
)
from experiments.admin.links import Links, links_of
from experiments.admin.metrics import MetricAdmin, known_metrics
from experiments.admin.planner import PlannerPage
from experiments.admin.portfolio import PortfolioPage
from experiments.admin.results.history import describe_briefly
from experiments.admin.results.panel import Panel, build_panel
from experiments.admin.steps import StepPages
from experiments.admin.user_pages import UserPages
from experiments.admin.words import (
    describe_audience,
    describe_decision,
    describe_flag,
    describe_forced_variants,
    describe_plan,
    describe_split,
)
from experiments.api.permissions import require_flag
from experiments.lifecycle import changes
from experiments.lifecycle.groups import free_in
from experiments.lifecycle.reversion import Experiments
from experiments.metrics.definition import definitions_of
from experiments.models import Experiment, ExperimentQuerySet, Metric, Status
from experiments.models.documents import with_versions
from experiments.models.plan import new_plan
from experiments.results.analyse import analyse_experiment
from experiments.results.driven_flag import off_flags
from experiments.results.outcomes import outcome_of, stored_outcomes
from flags.admin.known_flags import address_of_known_flags, known_flags
from flags.changes.flag_changes import get_flag
from flags.explanations.rule_words import operator_choices
from flags.models import Flag, Segment

admin.site.register(Metric, MetricAdmin)
kind_words[changes.KIND] = EXPERIMENT_WORDS
reversibles[changes.KIND] = Experiments()

_FACTS = ("shown_variants", "shown_audience", "shown_flag", "shown_metrics", "shown_plan")
_MOMENTS = ("shown_creation", "shown_start", "shown_end", "shown_counting")
_ABOUT = ("description", "hypothesis", "owner")
_TONES = {"archived": "default", Status.DRAFT: "info", Status.RUNNING: "success", Status.STOPPED: "default"}


class StatusFilter(ChoiceFilter):
    title = "status"
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return list(Status.choices)

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return queryset.filter(status=self.value()) if self.value() else queryset


class ShelfFilter(ChoiceFilter):
    """Shows experiments in use, unless the archived ones are chosen."""

    title = "shelf"
    parameter_name = "shelf"
    otherwise = "In use"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("archived", "Archived")]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return queryset.archived() if self.value() == "archived" else queryset.current()


class OwnerFilter(MenuFilter):
    title = "owner"
    parameter_name = "owner"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        owned = Experiment.objects.in_environment(current_environment(request)).exclude(owner="")
        names = owned.order_by("owner").values_list("owner", flat=True).distinct()
        return [(name, name) for name in names]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return queryset.filter(owner=self.value()) if self.value() else queryset


@admin.register(Experiment)
class ExperimentAdmin(StepPages, PlannerPage, PortfolioPage, CommentPages, UserPages):
    kind = changes.KIND
    is_common = False
    is_environmental = True
    list_display = ("shown_key", "shown_status", "shown_variants", "shown_metrics", "shown_start", "shown_creation")
    list_filter = (StatusFilter, ShelfFilter, OwnerFilter)
    search_fields = ("key", "description", "hypothesis")
    search_help_text = "Key, description or hypothesis"
    ordering = ("-created_at", "-id")
    actions_detail = ("start", "ship", "new_phase", "stop", "reopen", "archive", "unarchive")
    change_form_outer_before_template = "admin/experiments/experiment/results.html"
    change_form_after_template = "admin/experiments/experiment/known.html"

    def get_queryset(self, request: HttpRequest) -> ExperimentQuerySet:
        # The environment's name goes into the change log with every write.
        return with_versions(current_environment(request)).select_related("environment")

    # the list

    def for_page(self, request: HttpRequest, queryset: Any) -> Any:
        experiments = list(queryset)
        off, outcomes = off_flags(experiments, current_environment(request)), stored_outcomes(experiments)
        for experiment in experiments:
            experiment.history = describe_briefly(experiment, outcomes.get(experiment.pk))
            driven = experiment.flag["key"] if experiment.flag and experiment.status == Status.RUNNING else None
            experiment.is_flag_off = driven in off
        return experiments

    @column("Experiment", ordering="key")
    def shown_key(self, experiment: Experiment) -> SafeString:
        history = getattr(experiment, "history", "")
        about = " · ".join(filter(None, (history, experiment.owner, brief(experiment.description))))
        is_off = getattr(experiment, "is_flag_off", False)
        off = format_html(' <span class="hy-state hy-state-warning">{}</span>', "flag off") if is_off else ""
        return in_two_lines(format_html("{}{}", experiment.key, off), about)

    @column("Status", ordering="status", label=_TONES)
    def shown_status(self, experiment: Experiment) -> str:
        return experiment.status if experiment.archived_at is None else "archived"

    @column("Variants")
    def shown_variants(self, experiment: Experiment) -> str:
        return unbroken(describe_split(experiment.variants))

    @column("Metrics", empty_value="none")
    def shown_metrics(self, experiment: Experiment) -> str | None:
        return ", ".join(experiment.metrics) or None

    @column("Audience")
    def shown_audience(self, experiment: Experiment) -> SafeString:
        return link_users(describe_audience(experiment))

    @column("Testers")
    def shown_testers(self, experiment: Experiment) -> SafeString:
        return link_users(describe_forced_variants(experiment))

    @column("Flag")
    def shown_flag(self, experiment: Experiment) -> str:
        served = describe_flag(experiment)
        if experiment.status != Status.RUNNING or not experiment.flag:
            return served
        is_on = get_flag(experiment.flag["key"], experiment.environment).enabled
        return served if is_on else f"{served}. The flag is off, so no user sees a variant"

    @column("Plan")
    def shown_plan(self, experiment: Experiment) -> str:
        return describe_plan(experiment)

    @column("Decision")
    def shown_decision(self, experiment: Experiment) -> str:
        return describe_decision(experiment)

    @column("Created", ordering="created_at")
    def shown_creation(self, experiment: Experiment) -> SafeString | None:
        return time_cell(experiment.created_at)

    @column("Started", ordering="started_at", empty_value="not yet")
    def shown_start(self, experiment: Experiment) -> SafeString | None:
        return time_cell(experiment.started_at)

    @column("Stopped", empty_value="not yet")
    def shown_end(self, experiment: Experiment) -> SafeString | None:
        return time_cell(experiment.stopped_at)

    @column("Windows count until")
    def shown_counting(self, experiment: Experiment) -> SafeString | None:
        return time_cell(experiment.counts_until)

    # the form

    def get_form(
        self, request: HttpRequest, obj: Experiment | None = None, change: bool = False, **options: Any
    ) -> Any:
        form = NewDraftForm if obj is None else _form_of(request, obj)
        return super().get_form(request, obj, change, **{"form": form, **options})

    def get_fieldsets(self, request: HttpRequest, obj: Experiment | None = None) -> Any:
        if obj is None or (_is_draft_page(request, obj) and self.has_change_permission(request, obj)):
            return [
                (None, {"fields": ["key", "description", "hypothesis", "owner", "variants", "metrics"]}),
                ("Audience", {"fields": ["percentage", "conditions", "group", "forced_variants"]}),
                ("Flag", {"fields": ["flag"]}),
                ("Plan", {"fields": [*PLAN_FIELDS, "reason"]}),
            ]
        times = (obj.created_at, obj.started_at, obj.stopped_at, obj.counts_until)
        moments = dict(zip(_MOMENTS, times, strict=True))
        past = [name for name, moment in moments.items() if moment is not None]
        facts = ["key", "shown_status", *(["shown_decision"] if obj.stopped_at else []), *_FACTS, *past]
        if self.has_change_permission(request, obj):
            metric_fields = ["metrics"] if _form_of(request, obj) is MeasuredForm else []
            editable = [*_ABOUT, *metric_fields, "forced_variants", "reason"]
            facts = [name for name in facts if not (metric_fields and name == "shown_metrics")]
        else:
            editable, facts = [*_ABOUT], [*facts, "shown_testers"]
        title = None if obj.status == Status.DRAFT else "Fixed since the start"
        return [(None, {"fields": editable}), (title, {"fields": facts})]

    def get_readonly_fields(self, request: HttpRequest, obj: Experiment | None = None) -> Any:
        if obj is None:
            return []
        if _is_draft_page(request, obj) and self.has_change_permission(request, obj):
            return ["key"]
        return ["key", "shown_status", "shown_decision", *_FACTS, "shown_testers", *_MOMENTS]

    def loaded(self, request: HttpRequest, obj: Experiment | None) -> dict[str, Any]:
        initial = super().loaded(request, obj)
        if obj is None:
            return {**initial, **new_plan(), "variants": TWO_EQUAL_VARIANTS}
        sizes = {"tuning_sample_size": obj.given_tuning_size, "planned_sample_size": obj.planned_size}
        return {**initial, **sizes, "version": obj.etag}

    def form_context(self, request: HttpRequest, object_id: str | None) -> dict[str, Any]:
        known = {
            "known_metrics": known_metrics,
            "known_groups": partial(_known_groups, request),
            "known_flags": partial(known_flags, Flag.objects.current()),
            "flag_search": address_of_known_flags,
            "known_segments": _known_segments,
            "operator_choices": operator_choices,
        }
        if object_id is None:
            return known
        return {
            **known,
            "links": partial(self._links, request, object_id),
            "panel": partial(self._panel, request, object_id),
            "fixed_metrics": partial(self._fixed_metrics, request, object_id),
        }

    def _links(self, request: HttpRequest, object_id: str) -> Links | None:
        experiment = self.find(request, object_id)
        return None if experiment is None else links_of(request, experiment)

    def _panel(self, request: HttpRequest, object_id: str) -> Panel | None:
        """Return the results so far; None for a draft."""
        experiment = self.find(request, object_id)
        if experiment is None or experiment.status == Status.DRAFT:
            return None
        results = analyse_experiment(experiment, timezone.now())
        return build_panel(results, outcome_of(results))

    def _fixed_metrics(self, request: HttpRequest, object_id: str) -> list[bool]:
        """Return whether each metric of a started experiment is post hoc."""
        experiment = self.find(request, object_id)
        if experiment is None or experiment.status == Status.DRAFT:
            return []
        return [definition.is_post_hoc for definition in definitions_of(experiment)]

    # the domain

    def write(self, request: HttpRequest, obj: Experiment, values: dict[str, Any], *, is_new: bool) -> Experiment:
        if not is_new:
            return self.rewrite(request, obj, values)
        return changes.create_experiment(
            key=values["key"], **_properties(values), reason=values["reason"], **writer_here(request)
        )

    def rewrite(self, request: HttpRequest, obj: Experiment, values: dict[str, Any]) -> Experiment:
        new, common = _properties(values), {"reason": values["reason"], **writer_here(request)}
        if obj.status == Status.RUNNING and new["forced_variants"] != obj.forced_variants:
            require_flag(request.user, obj)
        return changes.update_experiment(key=obj.key, changes=new, if_match=values["version"], **common)

    def document_of(self, request: HttpRequest, obj: Experiment) -> Document:
        return changes.experiment_as_json(obj)

    def remove(self, request: HttpRequest, obj: Experiment, reason: str) -> None:
        changes.delete_experiment(key=obj.key, reason=reason, **writer_here(request))

    def has_delete_permission(self, request: HttpRequest, obj: Experiment | None = None) -> bool:
        # A started experiment has results, so it cannot be deleted.
        return super().has_delete_permission(request, obj) and (obj is None or obj.status == Status.DRAFT)


def _properties(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties that the form sends, by column."""
    return {column: values[name] for name, column in COLUMNS.items() if name in values}


def _known_groups(request: HttpRequest) -> dict[str, str]:
    """Return the groups of experiments in this environment, each with its free ranges."""
    environment = current_environment(request)
    groups = (
        Experiment.objects.in_environment(environment).exclude(status=Status.STOPPED).values_list("group", flat=True)
    )
    return {key: free_in(environment, key) for key in sorted({group["key"] for group in groups if group})}


def _known_segments() -> list[str]:
    return list(Segment.objects.values_list("key", flat=True))


def _form_of(request: HttpRequest, experiment: Experiment) -> type[ExperimentForm]:
    """Return the form of the fields that can change now, or could when the page was opened."""
    if _is_draft_page(request, experiment):
        return DraftForm
    return MeasuredForm if experiment.frozen_at is None or "metrics" in sent_input(request) else ExperimentForm


def _is_draft_page(request: HttpRequest, experiment: Experiment | None) -> bool:
    """Return whether the experiment is a draft, or was one when the page was opened."""
    return experiment is None or experiment.status == Status.DRAFT or "variants" in sent_input(request)
