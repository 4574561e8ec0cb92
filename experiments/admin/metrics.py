"""Metrics in the admin: what they compute, and who measures them. They are common to all environments."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString

from config.admin.current_environment import current_environment
from config.admin.site import Confirmation, DomainAdmin, column, in_two_lines, moment, writer
from config.documents import is_same
from experiments.admin.metric_forms import MetricForm, denominator_of, loaded_denominator
from experiments.admin.words import definition_in_words
from experiments.metrics import changes
from experiments.metrics.changes import experiments_measuring, name_experiments, uses_of
from experiments.metrics.documents import definition_of
from experiments.models import Experiment, Metric, MetricType, Role

_TYPES = {kind: kind.label.split(":")[0] for kind in MetricType}
_QUANTITY = ("event", "property", "currency")
_DENOMINATOR = ("denominator_event", "denominator_property", "denominator_currency")
_CAPS = ("cap_value", "cap_percentile")
_WRITTEN = ("description", "type", *_QUANTITY, "window_hours", "from_day", "to_day", *_CAPS, "direction", "role")


class MetricAdmin(DomainAdmin):
    kind = changes.KIND
    form = MetricForm
    list_display = ("shown_key", "shown_type", "shown_meaning", "shown_role", "version", "shown_update")
    search_fields = ("key", "description", "event")
    search_help_text = "Key, description or event"
    ordering = ("key",)
    change_form_outer_before_template = "admin/experiments/metric/used.html"

    # the list

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        request.uses = _count_uses()  # type: ignore[attr-defined]  # ours, for all rows of the list
        answer: HttpResponse = super().changelist_view(request, extra_context)
        return answer

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        uses: Counter[str] = getattr(request, "uses", None) or Counter()

        @column("Used by", empty_value="nobody yet")
        def shown_use(metric: Metric) -> str | None:
            number = uses[metric.key]
            return f"{number:,} experiment{'' if number == 1 else 's'}" if number else None

        *first, version, update = self.list_display
        return [*first, shown_use, version, update]

    @column("Metric", ordering="key")
    def shown_key(self, metric: Metric) -> SafeString:
        return in_two_lines(metric.key, metric.description[:100])

    @column("Type", ordering="type")
    def shown_type(self, metric: Metric) -> str:
        return _TYPES[MetricType(metric.type)]

    @column("What it computes", ordering="event")
    def shown_meaning(self, metric: Metric) -> str:
        return definition_in_words(definition_of(metric))

    @column("Role", ordering="role", label={Role.GOAL: "success", Role.GUARDRAIL: "warning"})
    def shown_role(self, metric: Metric) -> str:
        return metric.role

    @column("Good is", ordering="direction")
    def shown_direction(self, metric: Metric) -> str:
        return metric.get_direction_display()

    @column("Updated", ordering="updated_at")
    def shown_update(self, metric: Metric) -> SafeString | None:
        return moment(metric.updated_at)

    # the form

    def get_fieldsets(self, request: HttpRequest, obj: Metric | None = None) -> Any:
        if obj is not None and not self.has_change_permission(request, obj):
            shown = ["shown_type", "shown_meaning", "shown_role", "shown_direction", "version", "shown_update"]
            return [(None, {"fields": ["key", "description", *shown]})]
        period = ["window_hours", "delay_hours", "from_day", "to_day"]
        confirmation = ["new_version"] if obj is not None and experiments_measuring(obj) else []
        return [
            (None, {"fields": ["key", "description", "role", "direction"]}),
            ("What is counted", {"fields": ["type", *_QUANTITY, *_DENOMINATOR]}),
            ("Since when, and how much of it", {"fields": [*period, *_CAPS]}),
            (None, {"fields": [*confirmation, "reason"]}),
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Metric | None = None) -> Any:
        if obj is None or self.has_change_permission(request, obj):
            return [] if obj is None else ["key"]
        return ["key", "shown_type", "shown_meaning", "shown_role", "shown_direction", "version", "shown_update"]

    def get_form(self, request: HttpRequest, obj: Metric | None = None, change: bool = False, **options: Any) -> Any:
        form = super().get_form(request, obj, change, **options)
        if "new_version" in form.base_fields and obj is not None:
            confirmation = form.base_fields["new_version"]
            confirmation.label = f"Make version {obj.version + 1}"
            confirmation.help_text = (
                f"{name_experiments(experiments_measuring(obj))} measured version {obj.version}, "
                "and will not follow. What you change above counts for experiments that start from now on; "
                "tick this to say that you mean it. (A description, or a reason, changes no meaning.)"
            )
        return form

    def loaded(self, request: HttpRequest, obj: Metric | None) -> dict[str, Any]:
        here = super().loaded(request, obj)
        return here if obj is None else {**here, "seen": obj.etag, **loaded_denominator(obj.denominator)}

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> Any:
        # Not looked up before Django knows that there is such a metric.
        context = {"uses": partial(self._uses, request, object_id), "here": current_environment(request)}
        return super().change_view(request, object_id, form_url, {**context, **(extra_context or {})})

    def _uses(self, request: HttpRequest, object_id: str) -> Any:
        metric = self.find(request, object_id)
        return [] if metric is None else uses_of(metric.key)

    # the domain

    def write(self, request: HttpRequest, obj: Metric, values: dict[str, Any], *, is_new: bool) -> Metric:
        new = {name: values[name] for name in _WRITTEN}
        new |= {"denominator": denominator_of(values), "delay_hours": values["delay_hours"] or 0}
        common = {"reason": values["reason"], **writer(request)}
        if is_new:
            return changes.create_metric(key=values["key"], **new, **common)
        edited = {name: value for name, value in new.items() if not is_same(value, getattr(obj, name))}
        return changes.update_metric(
            key=obj.key,
            changes=edited,
            if_match=values["seen"],
            may_make_version=values.get("new_version", False),
            **common,
        )

    def remove(self, request: HttpRequest, obj: Metric, reason: str) -> None:
        changes.delete_metric(key=obj.key, reason=reason, **writer(request))

    def deletion(self, request: HttpRequest, obj: Metric) -> Confirmation:
        return Confirmation(
            f"Delete {obj.key}?",
            (
                "The metric goes from every environment. Its name then stands for users with an event of that name.",
                "While an experiment that is a draft or runs names it, it cannot be deleted.",
                "Stopped experiments keep what they measured. Its history stays in the change log.",
            ),
            "Delete the metric",
        )


def known_metrics() -> dict[str, str]:
    """Every metric that is defined, with what it computes, for whoever chooses among them."""
    return {metric.key: definition_in_words(definition_of(metric)) for metric in Metric.objects.all()}


def _count_uses() -> Counter[str]:
    """How many experiments name each metric. One query for the whole list."""
    return Counter(name for metrics in Experiment.objects.values_list("metrics", flat=True) for name in metrics)
