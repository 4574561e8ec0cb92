"""The page that plans experiments: a form, and what it takes. It writes nothing, and its address can be kept."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.utils import timezone
from unfold.widgets import UnfoldAdminSelectWidget

from config.admin.current_environment import current_environment
from config.admin.forms import NumberField, StrictForm, TextField
from config.admin.site import DomainAdmin
from config.errors import DomainError
from experiments.admin.metrics import known_metrics
from experiments.admin.planner_panel import panel_of
from experiments.models import Experiment
from experiments.planner.plan import ALPHA, POWER, VARIANTS, plan
from experiments.planner.question import Kind, Question
from experiments.stats.types import TUNING_SIZE

_USUAL_EFFECT = 0.05
_MOST_CHOICES = 200
_KINDS = (("", "Automatic"), (Kind.RATE, "A rate"), (Kind.MEAN, "A mean"))


class WholeNumberField(NumberField):
    """The same without a fraction."""

    def clean(self, value: Any) -> int | None:
        number: int | float | None = super().clean(value)
        if isinstance(number, float):
            raise forms.ValidationError("Must be a whole number such as 2.")
        return number


class PlannerForm(StrictForm, forms.Form):
    """`more` are the fields that most people leave as they are."""

    metric = TextField(help_text="A metric, or an event. What is known of it fills what you leave empty.")
    experiment = TextField(help_text="A running one tells what it could find by each day.")
    mde = NumberField(
        label="Effect to find", help_text="As a share of the baseline: 0.05 for a rise by 5 %, -0.05 for a fall."
    )
    type = forms.ChoiceField(
        choices=_KINDS,
        required=False,
        label="What is measured",
        widget=UnfoldAdminSelectWidget(),
        help_text="A rate: did it happen? A mean: how much? Automatic: what the metric is, or a rate.",
    )
    baseline = NumberField(help_text="What the control gives: 0.1 where 10 % of users convert, or the mean of a user.")
    standard_deviation = NumberField(help_text="Of one user. For means only.")
    variants = WholeNumberField(help_text=f"With the control. Empty: those of the experiment, or {VARIANTS}.")
    users_per_day = NumberField(label="Users a day", help_text="In all variants together.")
    power = NumberField(help_text=f"The chance to find the effect, if there is one. Empty: {POWER}.")
    alpha = NumberField(label="Significance", help_text=f"The chance to find one where there is none. Empty: {ALPHA}.")
    tuning_sample_size = WholeNumberField(
        help_text=f"The users at which always-valid intervals are narrowest. Empty: {TUNING_SIZE:,}."
    )
    more = ("power", "alpha", "tuning_sample_size")

    def __init__(self, data: Any = None) -> None:
        super().__init__(data, initial={"mde": _USUAL_EFFECT}, label_suffix="")
        self.fields["metric"].widget.attrs.update({"list": "hy-metrics", "autocomplete": "off"})
        self.fields["experiment"].widget.attrs.update({"list": "hy-experiments", "autocomplete": "off"})

    def question(self) -> Question:
        typed = {name: None if value == "" else value for name, value in self.cleaned_data.items()}
        kind, tuning_size = typed.pop("type"), typed.pop("tuning_sample_size")
        return Question(kind=Kind(kind) if kind else None, tuning_size=tuning_size, **typed)

    @property
    def usual_fields(self) -> list[Any]:
        return [self[name] for name in self.fields if name not in self.more]

    @property
    def more_fields(self) -> list[Any]:
        return [self[name] for name in self.more]

    @property
    def is_more_asked_for(self) -> bool:
        return any(field.value() or field.errors for field in self.more_fields)


class PlannerPage(DomainAdmin):
    """Adds the page to those of experiments."""

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.planner_view)
        return [path("planner/", view, name="experiments_experiment_planner"), *super().get_urls()]

    def planner_view(self, request: HttpRequest) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        here = current_environment(request)
        form = PlannerForm(request.GET or None)
        experiments = Experiment.objects.in_environment(here).values_list("key", flat=True)[:_MOST_CHOICES]
        context: dict[str, Any] = {
            "form": form,
            "title": "Planner",
            "metrics": known_metrics(),
            "experiments": experiments,
        }
        if form.is_valid():
            try:
                context["panel"] = panel_of(plan(form.question(), here, timezone.now()))
            except DomainError as refusal:
                form.add_refusal(refusal)
        return self.page(request, "admin/experiments/planner.html", context)
