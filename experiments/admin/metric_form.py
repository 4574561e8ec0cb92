"""The form of a metric with the fields of all types. A script hides those that the type or the role does not use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django import forms
from django.db.models import TextChoices
from django.forms.widgets import Script
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget, UnfoldBooleanSwitchWidget

from config.admin.forms import DescriptionField, DomainForm, JSONField, TextField
from config.admin.numbers import FractionField, NumberField, PercentField
from config.errors import Detail, DetailCode, DomainError
from experiments.metrics.checks import DENOMINATOR, FUNNEL, types_with
from experiments.metrics.definition import DEFAULT_MARGIN
from experiments.models import Direction, MetricType, Role

_DENOMINATOR = "denominator"
DENOMINATOR_FIELDS = tuple(f"{_DENOMINATOR}_{name}" for name in DENOMINATOR)
# Advice in messages of the API that does not apply to a form.
_ADVICE_FOR_JSON = re.compile("(?:, (?:and|or)|;) send [^.]+")
_IN_PERCENT = {
    "margin": "Must be above 0 and at most 100 %.",
    "quantile": "Must be above 0 and below 100 %: 50 % is the median.",
}
"""What the form says about the range of fields that it shows in percent."""


def _choice(choices: type[TextChoices], label: str, **attributes: str) -> forms.ChoiceField:
    """Return a select of a few choices, with the first one as default."""
    widget = UnfoldAdminSelectWidget(attributes)
    return forms.ChoiceField(choices=choices.choices, initial=choices.values[0], label=label, widget=widget)


class MetricForm(DomainForm):
    key = TextField(
        required=True, help_text="The name in experiments, such as revenue-a-week. It cannot be changed later."
    )
    description = DescriptionField(help_text="What the metric measures, and why it matters.")
    type = _choice(MetricType, "Type")
    event = TextField(required=True, help_text="The name of the events to measure, such as purchase.")
    where = JSONField(
        name="where", editor="where", rows=4, label="Conditions", help_text="Only events that meet all of these count."
    )
    steps = JSONField(
        name="steps",
        editor="steps",
        rows=8,
        label="Steps",
        help_text="2 to 10 events that a user must have in this order. Other events in between do no harm.",
    )
    property = TextField(
        help_text="The property to measure. Empty in a ratio: the number of events; in distinct: the number of days."
    )
    quantile = PercentField(
        label="Quantile in percent", help_text="50 % is the median. 95 %: all but one in 20 events are below the value."
    )
    currency = TextField(help_text="Such as EUR. Required for revenue: only amounts in this currency are added.")
    denominator_event = TextField(
        label="Denominator event", help_text="The name of the events to divide by, such as page_view."
    )
    denominator_where = JSONField(
        name="denominatorWhere",
        editor="denominatorWhere",
        rows=4,
        label="Denominator conditions",
        help_text="Only denominator events that meet all of these count.",
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
    margin = PercentField(
        label="Margin in percent",
        help_text="How much worse than in the control the metric may be. Shipping requires that it is shown to be "
        f"within this margin. Empty: {100 * DEFAULT_MARGIN:g} %.",
    )
    margin_absolute = FractionField(
        label="Absolute margin",
        help_text="Instead of percent: the same in the unit of the metric. For a share of users, 0.01 or 1 % "
        "is one percentage point.",
    )
    new_version = forms.BooleanField(required=False, widget=UnfoldBooleanSwitchWidget())
    # The version that the page showed; if the metric has changed since, the edit is refused.
    seen = forms.CharField(required=False, widget=forms.HiddenInput())

    class Media:
        js = (
            Script("experiments/metric.js", type="module", blocking="render"),
            Script("experiments/metric_events.js", type="module", blocking="render"),
        )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["event"].required = self.data.get("type") != FUNNEL
        for name, field in self.fields.items():
            types = _types_of(name)
            if len(types) < len(MetricType):
                field.widget.attrs["data-types"] = " ".join(types)
            if name.startswith("margin"):
                field.widget.attrs["data-roles"] = Role.GUARDRAIL
            if isinstance(field.widget, UnfoldAdminTextInputWidget):
                field.widget.attrs["autocomplete"] = "off"

    def add_refusal(self, refusal: DomainError) -> None:
        details = [Detail(_path_of(detail.field), detail.code, self._for_people(detail)) for detail in refusal.details]
        super().add_refusal(DomainError(refusal.code, refusal.message, details))

    def _for_people(self, detail: Detail) -> str:
        """Reword a message of the API for a form: with labels for JSON names, and without advice on JSON."""
        if detail.code is DetailCode.OUT_OF_RANGE and detail.field in _IN_PERCENT:
            return _IN_PERCENT[detail.field]
        message = detail.message
        for name, field in self.fields.items():
            # A name of one word may be an ordinary word of the message.
            if field.label and (name_in_json := _property_of(name)) not in (name, _DENOMINATOR):
                message = message.replace(name_in_json, f'"{field.label}"')
        return _ADVICE_FOR_JSON.sub("", message).replace("leave it out", "leave it empty")


def denominator_of(values: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the denominator from its fields; None if all are empty."""
    denominator = {name: values[f"{_DENOMINATOR}_{name}"] for name in DENOMINATOR}
    if not denominator["where"]:
        del denominator["where"]
    return denominator if any(denominator.values()) else None


def loaded_denominator(denominator: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the values of the fields of a denominator."""
    return {f"{_DENOMINATOR}_{name}": value for name, value in (denominator or {}).items()}


def _types_of(field: str) -> tuple[str, ...]:
    """Return the types of metrics that have the field. A funnel has its events in its steps."""
    name = _property_of(field)
    return tuple(kind for kind in types_with(name) if name != "event" or kind != FUNNEL)


def _property_of(field: str) -> str:
    """Return `windowHours` for `window_hours`, and `denominator` for each field of the denominator."""
    first, *more = field.split("_")
    return _DENOMINATOR if first == _DENOMINATOR else first + "".join(word.capitalize() for word in more)


def _path_of(path: str) -> str:
    """Return the path in the form: `denominatorWhere[0].value` for `denominator.where[0].value`."""
    first, _, inner = path.partition(".")
    if first != _DENOMINATOR:
        return path
    is_field = re.split(r"\W", inner)[0] in DENOMINATOR
    return first + (inner[0].upper() + inner[1:] if is_field else "Event")
