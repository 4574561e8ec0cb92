"""The forms of an experiment. A draft can change entirely, a started experiment only in a few fields."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any, cast

from django import forms
from django.forms.widgets import Script
from django.http import QueryDict
from unfold.widgets import UnfoldAdminSelectWidget

from config.admin.conflicts import Conflict
from config.admin.forms import DescriptionField, EnvironmentalForm, JSONField, ReasonField, StrictForm, TextField
from config.admin.numbers import NumberField, PercentageField, PercentField, WholeNumberField
from config.errors import Detail, DomainError
from experiments.models import AnalysisMethod, Experiment
from experiments.models.plan import MAX_EFFECT
from experiments.stats.types import TUNING_SIZE

PLAN_FIELDS = (
    *("planned_sample_size", "minimum_effect", "analysis", "minimum_days", "lookback_days", "tuning_sample_size"),
)
COLUMNS = {
    **{name: name for name in ("description", "variants", "metrics", "percentage", "conditions", "group", "flag")},
    "forced_variants": "forced_variants",
    **{name: name for name in ("owner", "hypothesis", "minimum_effect", "analysis", "minimum_days", "lookback_days")},
    "planned_sample_size": "planned_size",
    "tuning_sample_size": "given_tuning_size",
}
"""The column of each field that is a property of the experiment."""
TWO_EQUAL_VARIANTS = [{"key": "control", "weight": 50}, {"key": "treatment", "weight": 50}]


class ExperimentForm(EnvironmentalForm):
    """The fields that can change at any time."""

    description = DescriptionField(help_text="What is tested, for people who find the experiment later.")
    hypothesis = DescriptionField(
        help_text="What the change should cause, and why: such as a shorter form brings more sign-ups."
    )
    owner = TextField(help_text="The person or team to ask about the experiment.")
    forced_variants = JSONField(
        name="forcedVariants",
        editor="testers",
        blank=dict,
        rows=4,
        label="Testers",
        help_text="Users who always see the variant you choose here. The results leave them out.",
    )
    version = forms.CharField(required=False, widget=forms.HiddenInput())

    class Media:
        js = (Script("experiments/audience.js", type="module", blocking="render"),)


class MeasuredForm(ExperimentForm):
    """The form of a started experiment whose results are not frozen, which can get further metrics."""

    metrics = JSONField(
        name="metrics",
        editor="metrics",
        label="Metrics",
        help_text="You can add metrics. They are marked as post hoc, and the verdict ignores them.",
    )

    class Media:
        js = (Script("experiments/design.js", type="module", blocking="render"),)


class DraftForm(ExperimentForm):
    """All fields of a draft except its key."""

    variants = JSONField(
        name="variants",
        editor="variants",
        help_text="The first one is the control. Weights are relative: 50 and 50 split users as 1 and 1 do.",
    )
    metrics = JSONField(
        name="metrics",
        editor="metrics",
        label="Metrics",
        help_text="Metrics, or names of events: the share of users who had the event after their exposure. The first "
        "goal is the primary metric, which the verdict rests on. Definitions are fixed when the experiment starts.",
    )
    percentage = PercentageField(
        label="Percentage", help_text="The share of the users who meet the conditions that takes part. Empty: all."
    )
    conditions = JSONField(
        name="conditions", editor="conditions", help_text="Only users who meet all of these conditions take part."
    )
    group = JSONField(
        name="group",
        editor="group",
        blank=lambda: None,
        rows=4,
        help_text="Experiments of a group exclude each other: each has its own range of users.",
    )
    flag = JSONField(
        name="flag",
        editor="driven-flag",
        blank=lambda: None,
        rows=6,
        help_text="Optional. While the experiment runs, the flag serves each user what you choose here for their "
        "variant.",
    )
    planned_sample_size = WholeNumberField(
        label="Planned sample size",
        help_text="The number of users, in all variants together, to reach before a decision. Shipping a "
        "variant earlier requires a reason.",
    )
    minimum_effect = PercentField(
        label="Smallest effect of interest, in percent",
        help_text="Such as 5 %, more or less than the control. If the interval of the lift lies within it at "
        "the planned size, the verdict is that there is no difference that matters.",
    )
    analysis = forms.ChoiceField(
        choices=AnalysisMethod.choices,
        initial=AnalysisMethod.SEQUENTIAL,
        widget=UnfoldAdminSelectWidget(),
        help_text="A fixed analysis finds smaller effects, but decides only once, at the planned size.",
    )
    minimum_days = NumberField(
        label="Shortest run in days",
        help_text="No variant is recommended before. A whole number of weeks includes each day of the week as often.",
    )
    lookback_days = NumberField(
        label="Look-back in days",
        help_text="What users did in these days before their exposure makes the intervals narrower. 0: not used.",
    )
    tuning_sample_size = WholeNumberField(
        label="Tuning sample size",
        help_text="The number of users, in the control and one treatment, at which always-valid intervals are "
        f"narrowest. Empty: it follows from the planned size; {TUNING_SIZE:,} without one.",
    )

    class Media:
        js = (
            Script("experiments/design.js", type="module", blocking="render"),
            Script("experiments/driven_flag.js", type="module", blocking="render"),
        )

    def add_refusal(self, refusal: DomainError) -> None:
        details = [_in_percent(detail) for detail in refusal.details]
        super().add_refusal(DomainError(refusal.code, refusal.message, details))


class NewDraftForm(DraftForm):
    """All fields of a new experiment."""

    key = TextField(
        required=True, help_text="The name in the code, such as checkout-button. It cannot be changed later."
    )


class GuidedForm(StrictForm, forms.Form):
    """Some fields of `NewDraftForm` for one step of the guided form. A new experiment has no stored values."""

    class Media:
        js = (
            Script("experiments/audience.js", type="module", blocking="render"),
            Script("experiments/design.js", type="module", blocking="render"),
            Script("experiments/driven_flag.js", type="module", blocking="render"),
        )

    def __init__(self, data: Any, *, names: Iterable[str], experiment: Experiment | None, asks_reason: bool) -> None:
        super().__init__(data, label_suffix="")
        self.conflict: Conflict | None = None
        self.names = list(names)
        for name in self.names:
            self.fields[name] = deepcopy(NewDraftForm.base_fields[name])
            if experiment is not None and name in COLUMNS:
                self.initial[name] = getattr(experiment, COLUMNS[name])
        if experiment is not None:
            self.fields["version"] = deepcopy(NewDraftForm.base_fields["version"])
            self.initial["version"] = experiment.etag
        if asks_reason:
            self.fields["reason"] = ReasonField()
            self.fields["reason"].required = True

    def resolve(self, conflict: Conflict) -> None:
        """Show two versions. If this form is sent again, it replaces what somebody else has saved."""
        self.conflict, data = conflict, cast(QueryDict, self.data).copy()
        data["version"] = conflict.version
        self.data = data

    @property
    def values(self) -> dict[str, Any]:
        """Return the properties that were sent, by column."""
        return {COLUMNS[name]: self.cleaned_data[name] for name in self.names if name in COLUMNS}

    def add_refusal(self, refusal: DomainError) -> None:
        details = [_in_percent(detail) for detail in refusal.details]
        super().add_refusal(DomainError(refusal.code, refusal.message, details))


def _in_percent(detail: Detail) -> Detail:
    """Return the error of the smallest effect in percent, as the form shows it."""
    if detail.field != "minimumEffect":
        return detail
    return Detail(detail.field, detail.code, f"Must be above 0 and at most {100 * MAX_EFFECT:,} %.")
