"""The form of a metric: what goes with its type, of which a script shows no more."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django import forms
from django.db.models import TextChoices
from django.forms.widgets import Script
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget, UnfoldBooleanSwitchWidget

from config.admin.forms import DescriptionField, DomainForm, NumberField, TextField
from config.errors import Detail, DomainError
from experiments.metrics.checks import QUANTITY, types_with
from experiments.models import Direction, MetricType, Role

_DENOMINATOR = "denominator"
_ADVICE_FOR_JSON = re.compile(", (?:and|or) send [^.]+")


def _choice(choices: type[TextChoices], label: str) -> forms.ChoiceField:
    """One of a few, the first unless chosen otherwise."""
    widget = UnfoldAdminSelectWidget()
    return forms.ChoiceField(choices=choices.choices, initial=choices.values[0], label=label, widget=widget)


class MetricForm(DomainForm):
    key = TextField(required=True, help_text="What experiments name it by, such as revenue-a-week. It never changes.")
    description = DescriptionField(help_text="What it tells, and why it matters.")
    type = _choice(MetricType, "What it tells")
    event = TextField(required=True, help_text="The name of the events that it looks at, such as purchase.")
    property = TextField(help_text="The property whose numbers are added. Where it is empty, a ratio counts events.")
    currency = TextField(help_text="Such as EUR: only amounts in one currency are added. Needed for revenue.")
    denominator_event = TextField(label="Divided by event", help_text="What stands under the line, such as page_view.")
    denominator_property = TextField(label="Its property", help_text="Empty: the number of these events.")
    denominator_currency = TextField(label="Its currency", help_text="Where that property is revenue.")
    window_hours = NumberField(
        label="Window in hours",
        help_text="For how long events of a user count; 168 is a week. Empty: until the experiment stops.",
    )
    delay_hours = NumberField(label="Delay in hours", help_text="How long after the exposure the window begins.")
    from_day = NumberField(label="From day", help_text="The first day that counts; day 0 begins with the exposure.")
    to_day = NumberField(
        label="To day", help_text="The first day that counts no more: from 7 to 14 is the second week."
    )
    cap_value = NumberField(
        label="Cap at value", help_text="What is above counts as this, so that a few users do not decide alone."
    )
    cap_percentile = NumberField(
        label="Cap at percentile", help_text="Or at a percentile of the users who have a value, such as 99."
    )
    direction = _choice(Direction, "Which way is good")
    role = _choice(Role, "What it is for")
    new_version = forms.BooleanField(required=False, widget=UnfoldBooleanSwitchWidget())
    # The version that was looked at; an edit of any other is refused.
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
        details = [Detail(_own_name(each.field), each.code, self._own_words(each.message)) for each in refusal.details]
        super().add_refusal(DomainError(refusal.code, refusal.message, details))

    def _own_words(self, message: str) -> str:
        """What the domain says to who sends JSON, for people who see labels and can leave a field empty."""
        for name, field in self.fields.items():
            # A name of one word is a word like others.
            if field.label and (name_in_json := _property_of(name)) not in (name, _DENOMINATOR):
                message = message.replace(name_in_json, f'"{field.label}"')
        return _ADVICE_FOR_JSON.sub("", message).replace("leave it out", "leave it empty")


def denominator_of(values: Mapping[str, Any]) -> dict[str, str] | None:
    """What a ratio divides by, of three fields; with nothing in any of them, nothing."""
    denominator = {name: values[f"{_DENOMINATOR}_{name}"] for name in QUANTITY}
    return denominator if any(denominator.values()) else None


def loaded_denominator(denominator: Mapping[str, str] | None) -> dict[str, str]:
    """The three fields of what a ratio divides by."""
    return {f"{_DENOMINATOR}_{name}": value for name, value in (denominator or {}).items()}


def _property_of(field: str) -> str:
    """`windowHours` for `window_hours`, and the denominator for each of its three fields."""
    first, *more = field.split("_")
    return _DENOMINATOR if first == _DENOMINATOR else first + "".join(word.capitalize() for word in more)


def _own_name(path: str) -> str:
    """The name of the field for what the domain says of a path such as `denominator.event`."""
    first, _, inner = path.partition(".")
    if first != _DENOMINATOR:
        return path
    return first + (inner if inner in QUANTITY else "event").capitalize()
