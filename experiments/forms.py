"""The forms of an experiment: all of a draft can change, and of a started one the description alone."""

from __future__ import annotations

from django.forms.widgets import Script

from config.forms import DescriptionField, EnvironmentalForm, JSONField, TextField

TWO_EQUAL_VARIANTS = [{"key": "control", "weight": 50}, {"key": "treatment", "weight": 50}]


class ExperimentForm(EnvironmentalForm):
    """What can be said of an experiment at any time."""

    description = DescriptionField(help_text="What you want to find out, and why.")


class DraftForm(ExperimentForm):
    variants = JSONField(
        name="variants",
        editor="variants",
        help_text="The first one is the control. Weights are relative to their sum.",
    )
    metrics = JSONField(
        name="metrics",
        editor="metrics",
        label="Metrics",
        help_text="Names of events. The first one is what the results report: who did it after having seen a variant.",
    )

    class Media:
        js = (Script("experiments/design.js", type="module"),)


class NewDraftForm(DraftForm):
    key = TextField(required=True, help_text="What the code asks for, such as checkout-button. It never changes.")
