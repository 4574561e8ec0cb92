"""The forms of an experiment: all of a draft can change, of a started one the description, testers, more metrics."""

from __future__ import annotations

from django.forms.widgets import Script

from config.admin.forms import DescriptionField, EnvironmentalForm, JSONField, NumberField, TextField

TWO_EQUAL_VARIANTS = [{"key": "control", "weight": 50}, {"key": "treatment", "weight": 50}]


class ExperimentForm(EnvironmentalForm):
    """What can be said of an experiment at any time."""

    description = DescriptionField(help_text="What you want to find out, and why.")
    forced_variants = JSONField(
        name="forcedVariants",
        editor="testers",
        blank=dict,
        rows=4,
        label="Testers",
        help_text="Users who see a variant of your choice, wherever they would belong. They never count.",
    )

    class Media:
        js = (Script("experiments/audience.js", type="module"),)


class MeasuredForm(ExperimentForm):
    """Those of a started one, too, whose results are not frozen."""

    metrics = JSONField(
        name="metrics",
        editor="metrics",
        label="Metrics",
        help_text="More can be added while it is measured: they are marked as post hoc, and decide nothing.",
    )

    class Media:
        js = (Script("experiments/design.js", type="module"),)


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
    percentage = NumberField(
        label="Percentage", help_text="How many percent of those whom the conditions allow are taken in. Empty: all."
    )
    conditions = JSONField(
        name="conditions", editor="conditions", help_text="Only users for whom all of these hold are taken in."
    )
    group = JSONField(
        name="group",
        editor="group",
        blank=lambda: None,
        rows=4,
        help_text="Of a group of experiments, each has a part of the users to itself: nobody is in two of them.",
    )
    flag = JSONField(
        name="flag",
        editor="driven-flag",
        blank=lambda: None,
        rows=6,
        help_text="Optional. From the start on the flag serves each user what their variant says, until the experiment "
        "is stopped or a variant is shipped.",
    )
    planned_sample_size = NumberField(
        label="Planned size",
        help_text="How many users it is to have, in all variants together, before anybody decides. Who ships a variant "
        "earlier has to say why.",
    )
    tuning_sample_size = NumberField(
        required=True,
        label="Tuned for",
        help_text="At about how many users you expect to decide: the always-valid intervals are narrowest there.",
    )

    class Media:
        js = (
            Script("experiments/design.js", type="module"),
            Script("experiments/driven_flag.js", type="module"),
        )


class NewDraftForm(DraftForm):
    key = TextField(required=True, help_text="What the code asks for, such as checkout-button. It never changes.")
