"""The forms of an experiment: all of a draft can change, and of a started one the description alone."""

from __future__ import annotations

from django.forms.widgets import Script

from config.forms import DescriptionField, EnvironmentalForm, JSONField, NumberField, TextField

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
        help_text="Names of metrics, or of events: then it is who did that after having seen a variant. The first one "
        "decides; what each computes is fixed by the start.",
    )
    tuning_sample_size = NumberField(
        required=True,
        label="Tuned for",
        help_text="At about how many users you expect to decide: the always-valid intervals are narrowest there.",
    )

    class Media:
        js = (Script("experiments/design.js", type="module"),)


class NewDraftForm(DraftForm):
    key = TextField(required=True, help_text="What the code asks for, such as checkout-button. It never changes.")
