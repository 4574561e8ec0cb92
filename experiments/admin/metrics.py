"""Metrics in the admin. All environments share them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

from django import forms
from django.db.models import TextChoices
from django.forms.widgets import Script
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget, UnfoldBooleanSwitchWidget

from config.admin.current_environment import current_environment
from config.admin.forms import DescriptionField, DomainForm, NumberField, TextField
from config.admin.site import Confirmation, DomainAdmin, column, in_two_lines, moment, writer
from config.documents import is_same
from config.errors import Detail, DomainError
from experiments.admin.words import describe_definition
from experiments.metrics import changes
from experiments.metrics.changes import experiments_measuring, name_experiments, uses_of
from experiments.metrics.checks import QUANTITY, types_with
from experiments.metrics.documents import definition_of
from experiments.models import Direction, Experiment, Metric, MetricType, Role

_DENOMINATOR = "denominator"
# Advice in messages of the API that does not apply to a form.
_ADVICE_FOR_JSON = re.compile("(?:, (?:and|or)|;) send [^.]+")
_TYPES = {kind: kind.label.split(":")[0] for kind in MetricType}
_DENOMINATOR_FIELDS = tuple(f"{_DENOMINATOR}_{name}" for name in QUANTITY)
_CAPS = ("cap_value", "cap_percentile")
_WRITTEN = ("description", "type", *QUANTITY, "window_hours", "from_day", "to_day", *_CAPS, "direction", "role")


def _choice(choices: type[TextChoices], label: str) -> forms.ChoiceField:
    """A select of a few choices, with the first one as default."""
    widget = UnfoldAdminSelectWidget()
    return forms.ChoiceField(choices=choices.choices, initial=choices.values[0], label=label, widget=widget)


class MetricForm(DomainForm):
    """All fields of a metric. A script hides those that its type does not use."""

    key = TextField(
        required=True, help_text="The name in experiments, such as revenue-a-week. It cannot be changed later."
    )
    description = DescriptionField(help_text="What the metric measures, and why it matters.")
    type = _choice(MetricType, "Type")
    event = TextField(required=True, help_text="The name of the events to measure, such as purchase.")
    property = TextField(help_text="The numeric property to add up. Empty in a ratio: the number of events.")
    currency = TextField(help_text="Such as EUR. Required for revenue: only amounts in this currency are added.")
    denominator_event = TextField(
        label="Denominator event", help_text="The name of the events to divide by, such as page_view."
    )
    denominator_property = TextField(label="Denominator property", help_text="Empty: the number of these events.")
    denominator_currency = TextField(
        label="Denominator currency", help_text="Required if the denominator property is revenue."
    )
    window_hours = NumberField(
        label="Window in hours",
        help_text="How long events of a user count; 168 is a week. Empty: until the experiment stops.",
    )
    delay_hours = NumberField(
        label="Delay in hours", help_text="The time between the exposure and the start of the window."
    )
    from_day = NumberField(label="From day", help_text="The first day that counts. Day 0 starts with the exposure.")
    to_day = NumberField(
        label="To day", help_text="The first day that no longer counts. From 7 to 14 is the second week."
    )
    cap_value = NumberField(
        label="Cap at value",
        help_text="Higher values of a user count as this value, so that a few users do not decide the result.",
    )
    cap_percentile = NumberField(
        label="Cap at percentile",
        help_text="Instead of a value: a percentile of the users who have a value, such as 99.",
    )
    direction = _choice(Direction, "Direction")
    role = _choice(Role, "Role")
    new_version = forms.BooleanField(required=False, widget=UnfoldBooleanSwitchWidget())
    # The version that the page showed; if the metric has changed since, the edit is refused.
    seen = forms.CharField(required=False, widget=forms.HiddenInput())

    class Media:
        js = (Script("experiments/metric.js", type="module"),)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for name, field in self.fields.items():
            types = types_with(_property_of(name))
            if types != types_with("event"):
                field.widget.attrs["data-types"] = " ".join(types)
            if isinstance(field.widget, UnfoldAdminTextInputWidget):
                field.widget.attrs["autocomplete"] = "off"

    def add_refusal(self, refusal: DomainError) -> None:
        details = [
            Detail(_field_of(detail.field), detail.code, self._for_people(detail.message)) for detail in refusal.details
        ]
        super().add_refusal(DomainError(refusal.code, refusal.message, details))

    def _for_people(self, message: str) -> str:
        """Reword a message of the API for a form: labels instead of JSON names, no advice on JSON."""
        for name, field in self.fields.items():
            # A name of one word may be an ordinary word of the message.
            if field.label and (name_in_json := _property_of(name)) not in (name, _DENOMINATOR):
                message = message.replace(name_in_json, f'"{field.label}"')
        return _ADVICE_FOR_JSON.sub("", message).replace("leave it out", "leave it empty")


def denominator_of(values: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the denominator from its three fields; None if all are empty."""
    denominator = {name: values[f"{_DENOMINATOR}_{name}"] for name in QUANTITY}
    return denominator if any(denominator.values()) else None


def loaded_denominator(denominator: Mapping[str, str] | None) -> dict[str, str]:
    """Return the values of the three fields of a denominator."""
    return {f"{_DENOMINATOR}_{name}": value for name, value in (denominator or {}).items()}


def _property_of(field: str) -> str:
    """Return `windowHours` for `window_hours`, and `denominator` for each of its three fields."""
    first, *more = field.split("_")
    return _DENOMINATOR if first == _DENOMINATOR else first + "".join(word.capitalize() for word in more)


def _field_of(path: str) -> str:
    """Return the name of the field for a path of the domain, such as `denominator.event`."""
    first, _, inner = path.partition(".")
    if first != _DENOMINATOR:
        return path
    return first + (inner if inner in QUANTITY else "event").capitalize()


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

        @column("Used by", empty_value="no experiments yet")
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
        return describe_definition(definition_of(metric))

    @column("Role", ordering="role", label={Role.GOAL: "success", Role.GUARDRAIL: "warning"})
    def shown_role(self, metric: Metric) -> str:
        return metric.role

    @column("Direction", ordering="direction")
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
            ("Measurement", {"fields": ["type", *QUANTITY, *_DENOMINATOR_FIELDS]}),
            ("Window and cap", {"fields": [*period, *_CAPS]}),
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

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> Any:
        # Functions, which the template calls only when the metric exists.
        context = {"uses": partial(self._uses, request, object_id), "environment": current_environment(request)}
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
                "The metric is deleted in every environment.",
                "Experiments that name it then measure the share of users with an event of that name.",
                "You cannot delete a metric of a draft or a running experiment.",
                "Stopped experiments keep their results. The history of the metric stays in the change log.",
            ),
            "Delete the metric",
        )


def known_metrics() -> dict[str, str]:
    """Return the keys of all metrics, each with what it computes, for suggestions in forms."""
    return {metric.key: describe_definition(definition_of(metric)) for metric in Metric.objects.all()}


def _count_uses() -> Counter[str]:
    """Return how many experiments use each metric, with one query."""
    return Counter(name for metrics in Experiment.objects.values_list("metrics", flat=True) for name in metrics)
