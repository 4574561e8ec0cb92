"""Metrics in the admin. All environments share them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from datetime import timedelta
from functools import partial
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from config.admin.columns import brief, column, in_two_lines, time_cell
from config.admin.current_environment import current_environment
from config.admin.navigation import may_view
from config.admin.site import Confirmation, DomainAdmin, writer
from config.change_log.reversion import reversibles
from config.change_log.sentences import kind_words
from config.documents import Document, is_same
from config.models import Environment
from config.slugs import NAME_LENGTH
from events.admin.descriptions import STOPPED_RULE, describe_stopped
from events.admin.name_page import address_of_event
from events.counts.queries import frequent_names, missing_names
from events.counts.stopped import Stopped
from events.queries import newest_events
from experiments.admin.change_words import METRIC_WORDS
from experiments.admin.metric_form import DENOMINATOR_FIELDS, MetricForm, denominator_of, loaded_denominator
from experiments.admin.words import describe_definition, describe_margin
from experiments.metrics import changes
from experiments.metrics.changes import Metrics, experiments_measuring, name_experiments, uses_of
from experiments.metrics.conditions import OPERATORS
from experiments.metrics.definition import Definition, definition_of, never_received, stopped
from experiments.models import Experiment, Metric, MetricType, Role
from flags.explanations.rule_words import operator_choices

_TYPES = {kind: kind.label.split(":")[0] for kind in MetricType}
_MEASUREMENT = ("type", "event", "where", "steps", "property", "quantile", "currency", *DENOMINATOR_FIELDS)
_CAPS = ("cap_value", "cap_percentile")
_MARGINS = ("margin", "margin_absolute")
_WRITTEN = (
    *("description", "type", "event", "where", "steps", "property", "quantile", "currency"),
    *("window_hours", "from_day", "to_day", *_CAPS, "direction", "role", *_MARGINS),
)
_SEEN_WITHIN = timedelta(days=30)
_SHOWN = ["shown_type", "shown_meaning", "shown_role", "shown_margin", "shown_direction", "version", "shown_update"]


reversibles[changes.KIND] = Metrics()
kind_words[changes.KIND] = METRIC_WORDS


class MetricAdmin(DomainAdmin):
    kind = changes.KIND
    version_field = "seen"
    form = MetricForm
    list_display = ("shown_key", "shown_type", "shown_meaning", "shown_role", "version", "shown_update")
    search_fields = ("key", "description", "event")
    search_help_text = "Key, description or event"
    ordering = ("key",)
    change_form_outer_before_template = "admin/experiments/metric/used.html"
    change_form_after_template = "admin/experiments/metric/known.html"

    # the list

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        request.uses = _count_uses()  # type: ignore[attr-defined]  # ours, for all rows of the list
        answer: HttpResponse = super().changelist_view(request, extra_context)
        return answer

    def for_page(self, request: HttpRequest, queryset: Any) -> Any:
        metrics, environment = list(queryset), current_environment(request)
        definitions = [definition_of(metric) for metric in metrics]
        request.missing = never_received(definitions, environment)  # type: ignore[attr-defined]
        request.stopped = stopped(definitions, environment, timezone.now())  # type: ignore[attr-defined]
        return metrics

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        uses: Counter[str] = getattr(request, "uses", None) or Counter()

        @column("What it computes", ordering="event")
        def shown_computation(metric: Metric) -> SafeString:
            definition = definition_of(metric)
            # Both are read for the rows of the page, after the columns are made.
            missing: set[str] = getattr(request, "missing", set())
            all_stopped: dict[str, Stopped] = getattr(request, "stopped", {})
            warning = _warn(definition, missing, all_stopped, current_environment(request))
            error = format_html('<em class="hy-error">{}</em>', warning) if warning else ""
            return format_html("<div>{}{}</div>", describe_definition(definition), error)

        @column("Used by", empty_value="no experiments yet")
        def shown_use(metric: Metric) -> str | None:
            number = uses[metric.key]
            return f"{number:,} experiment{'' if number == 1 else 's'}" if number else None

        key, kind, _meaning, role, version, update = self.list_display
        return [key, kind, shown_computation, role, shown_use, version, update]

    @column("Metric", ordering="key")
    def shown_key(self, metric: Metric) -> SafeString:
        return in_two_lines(metric.key, brief(metric.description))

    @column("Type", ordering="type")
    def shown_type(self, metric: Metric) -> str:
        return _TYPES[MetricType(metric.type)]

    @column("What it computes", ordering="event")
    def shown_meaning(self, metric: Metric) -> str:
        return describe_definition(definition_of(metric))

    @column("Role", ordering="role", label={Role.GOAL: "success", Role.GUARDRAIL: "warning"})
    def shown_role(self, metric: Metric) -> str:
        return metric.role

    @column("Margin")
    def shown_margin(self, metric: Metric) -> str:
        return describe_margin(definition_of(metric))

    @column("Direction", ordering="direction")
    def shown_direction(self, metric: Metric) -> str:
        return metric.get_direction_display()

    @column("Updated", ordering="updated_at")
    def shown_update(self, metric: Metric) -> SafeString | None:
        return time_cell(metric.updated_at)

    # the form

    def get_fieldsets(self, request: HttpRequest, obj: Metric | None = None) -> Any:
        if obj is not None and not self.has_change_permission(request, obj):
            return [(None, {"fields": ["key", "description", *_SHOWN]})]
        period = ["window_hours", "delay_hours", "from_day", "to_day"]
        confirmation = ["new_version"] if obj is not None and experiments_measuring(obj) else []
        return [
            (None, {"fields": ["key", "description", "role", *_MARGINS, "direction"]}),
            ("Measurement", {"fields": _MEASUREMENT}),
            ("Window and cap", {"fields": [*period, *_CAPS]}),
            (None, {"fields": [*confirmation, "reason"]}),
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Metric | None = None) -> Any:
        if obj is None or self.has_change_permission(request, obj):
            return [] if obj is None else ["key"]
        return ["key", *_SHOWN]

    def get_form(self, request: HttpRequest, obj: Metric | None = None, change: bool = False, **options: Any) -> Any:
        form = super().get_form(request, obj, change, **options)
        if "new_version" in form.base_fields and obj is not None:
            confirmation = form.base_fields["new_version"]
            confirmation.label = f"Create version {obj.version + 1}"
            confirmation.help_text = (
                f"{name_experiments(experiments_measuring(obj))} measured version {obj.version} and will not change. "
                "To change the definition, turn this on: experiments that start from now on will use the new version. "
                "A new description needs no new version."
            )
        return form

    def loaded(self, request: HttpRequest, obj: Metric | None) -> dict[str, Any]:
        initial = super().loaded(request, obj)
        return initial if obj is None else {**initial, "seen": obj.etag, **loaded_denominator(obj.denominator)}

    def form_context(self, request: HttpRequest, object_id: str | None) -> dict[str, Any]:
        environment = current_environment(request)
        known = {
            "operator_choices": _operator_choices(),
            "event_names": frequent_names(environment, timezone.now() - _SEEN_WITHIN),
            "event_page": {"address": self.address_of("event"), "environment": environment.name},
        }
        if object_id is None:
            return known
        return {
            **known,
            "uses": partial(self._uses, request, object_id),
            "reception": partial(self._reception, request, object_id),
            "environment": environment,
        }

    def _uses(self, request: HttpRequest, object_id: str) -> Any:
        metric = self.find(request, object_id)
        return [] if metric is None else uses_of(metric.key)

    def _reception(self, request: HttpRequest, object_id: str) -> dict[str, Any]:
        """Return the events of the metric with links, and what is wrong with their reception."""
        metric, environment = self.find(request, object_id), current_environment(request)
        if metric is None:
            return {}
        definition = definition_of(metric)
        missing, has_stopped = (
            never_received([definition], environment),
            stopped([definition], environment, timezone.now()),
        )
        links = [(name, address_of_event(name)) for name in sorted(definition.events)]
        return {
            "events": links if may_view(request, "events.event") else [],
            "warning": _warn(definition, missing, has_stopped, environment),
            "rule": STOPPED_RULE if has_stopped else "",
        }

    def get_urls(self) -> list[Any]:
        return [self.route("event/", self.event_view, "event"), *super().get_urls()]

    def event_view(self, request: HttpRequest) -> HttpResponse:
        """Answer whether an event was ever received, and which properties it had lately."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        name, environment = request.GET.get("name", ""), current_environment(request)
        if not 0 < len(name) <= NAME_LENGTH or "\0" in name:
            return JsonResponse({"isReceived": False, "properties": []})
        properties = [{"name": seen.name, "kind": seen.kind} for seen in newest_events(environment, name).properties]
        is_received = bool(properties) or not missing_names(environment, [name])
        return JsonResponse({"isReceived": is_received, "properties": properties})

    # the domain

    def write(self, request: HttpRequest, obj: Metric, values: dict[str, Any], *, is_new: bool) -> Metric:
        if is_new:
            common = {"reason": values["reason"], **writer(request)}
            return changes.create_metric(key=values["key"], **_properties(values), **common)
        return self.rewrite(request, obj, values)

    def rewrite(self, request: HttpRequest, obj: Metric, values: dict[str, Any]) -> Metric:
        new, common = _properties(values), {"reason": values["reason"], **writer(request)}
        edited = {name: value for name, value in new.items() if not is_same(value, getattr(obj, name))}
        return changes.update_metric(
            key=obj.key,
            changes=edited,
            if_match=values["seen"],
            may_make_version=values.get("new_version", False),
            **common,
        )

    def document_of(self, request: HttpRequest, obj: Metric) -> Document:
        return changes.metric_as_json(obj)

    def remove(self, request: HttpRequest, obj: Metric, reason: str) -> None:
        changes.delete_metric(key=obj.key, reason=reason, **writer(request))

    def deletion(self, request: HttpRequest, obj: Metric) -> Confirmation:
        return Confirmation(
            f"Delete {obj.key}?",
            (
                "The metric is deleted in every environment.",
                "Experiments that name it then measure the share of users with an event of that name.",
                "You cannot delete a metric of a draft or a running experiment.",
                "Stopped experiments keep their results. The history of the metric stays in the change log.",
            ),
            "Delete the metric",
        )


def _properties(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that the form sends."""
    delay = values["delay_hours"] or 0
    return {name: values[name] for name in _WRITTEN} | {"denominator": denominator_of(values), "delay_hours": delay}


def known_metrics() -> dict[str, str]:
    """Return the keys of all metrics, each with what it computes, for suggestions in forms."""
    return {metric.key: describe_definition(definition_of(metric)) for metric in Metric.objects.all()}


def _warn(
    definition: Definition, missing: Set[str], all_stopped: Mapping[str, Stopped], environment: Environment
) -> str:
    """Say which events of a metric were never received, and which have stopped; empty if there are none."""
    has_stopped = {name: all_stopped[name] for name in definition.events if name in all_stopped}
    words = (
        _describe_missing(definition.events & missing, environment),
        describe_stopped(has_stopped, environment.name),
    )
    return " ".join(filter(None, words))


def _describe_missing(missing: Set[str], environment: Environment) -> str:
    """Return `The event buy was never received in Production.`"""
    if not missing:
        return ""
    names = ", ".join(sorted(missing))
    subject = f"The event {names} was" if len(missing) == 1 else f"The events {names} were"
    return f"{subject} never received in {environment.name}."


def _operator_choices() -> list[Any]:
    """Return the operators of metrics in named groups, for a form."""
    groups = [
        (group, [choice for choice in choices if choice[0] in OPERATORS]) for group, choices in operator_choices()
    ]
    return [(group, choices) for group, choices in groups if choices]


def _count_uses() -> Counter[str]:
    """Return how many experiments use each metric, with one query."""
    return Counter(name for metrics in Experiment.objects.values_list("metrics", flat=True) for name in metrics)
