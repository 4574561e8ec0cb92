"""The page of the planner: a form, and the plan that answers it. A draft can take over the plan."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.utils import timezone
from unfold.widgets import UnfoldAdminSelectWidget

from config.admin.current_environment import current_environment
from config.admin.forms import StrictForm, TextField
from config.admin.numbers import FractionField, NumberField, PercentField, WholeNumberField
from config.admin.reasons import reason_of
from config.admin.site import Confirmation, DomainAdmin, writer_here
from config.errors import Detail, DomainError
from experiments.admin.metrics import known_metrics
from experiments.admin.planner_panel import CHART_KINDS, build_panel, draw_chart
from experiments.lifecycle.changes import update_experiment
from experiments.models import AnalysisMethod, Experiment, Status
from experiments.planner.plan import ALPHA, POWER, VARIANTS, plan, plan_for
from experiments.planner.question import (
    MAX_ALPHA,
    MAX_MDE,
    MAX_POWER,
    MAX_REDUCTION,
    MIN_ALPHA,
    MIN_MDE,
    MIN_POWER,
    BaselineKind,
    Question,
)
from experiments.planner.words import describe_size, percent

_USUAL_EFFECT = 0.05
_MAX_CHOICES = 200
_IN_PERCENT = "in_percent"
_SHARES = ("mde", "power", "alpha", "variance_reduction")
_RANGE = "Must be from "
_RANGES = {
    "mde": f"{100 * MIN_MDE:g} % to {100 * MAX_MDE:,.0f} %; for a fall, below 0 % and above -100 %.",
    "power": f"{100 * MIN_POWER:g} % to {100 * MAX_POWER:g} %.",
    "alpha": f"{100 * MIN_ALPHA:g} % to {100 * MAX_ALPHA:g} %.",
    "varianceReduction": f"0 % to {100 * MAX_REDUCTION:g} %.",
}
"""The ranges of these fields as the form shows them."""
_KINDS = (("", "Automatic"), (BaselineKind.RATE, "A rate"), (BaselineKind.MEAN, "A mean"))


class PlannerForm(StrictForm, forms.Form):
    """What to plan. The fields in `more` are folded, because few people change them."""

    metric = TextField(
        help_text="A metric, or the name of an event. Its past data fills in the fields that you leave empty."
    )
    experiment = TextField(
        help_text="Optional. For a running experiment, the plan shows what it can detect by each day."
    )
    mde = PercentField(
        label="Effect to detect",
        help_text="Relative to the baseline: 5 % for an increase, -5 % for a decrease. Empty: the smallest "
        "effect of interest of the experiment.",
    )
    type = forms.ChoiceField(
        choices=_KINDS,
        required=False,
        label="Type of metric",
        widget=UnfoldAdminSelectWidget(),
        help_text="A rate: the share of users who do something. A mean: how much each user does. Automatic: the type "
        "of the metric, or a rate.",
    )
    baseline = FractionField(help_text="The value of the control: 10 % or 0.1 of users, or the mean per user.")
    standard_deviation = NumberField(help_text="The spread between users. For means only.")
    variants = WholeNumberField(
        help_text=f"The number of variants with the control. Empty: as in the experiment, or {VARIANTS}."
    )
    users_per_day = NumberField(label="Users a day", help_text="New users a day in all variants together.")
    power = PercentField(help_text=f"The probability to detect the effect if there is one. Empty: {percent(POWER)}.")
    alpha = PercentField(
        label="Significance level",
        help_text=f"The probability to report an effect if there is none. Empty: {percent(ALPHA)}.",
    )
    tuning_sample_size = WholeNumberField(
        help_text="The number of users at which always-valid intervals are narrowest. Empty: as in the experiment, or "
        "the users of the control and one treatment in this plan."
    )
    variance_reduction = PercentField(
        label="Expected variance reduction",
        help_text="The share of the variance that CUPED removes, such as 30 %. Empty: as in the past data.",
    )
    more = ("power", "alpha", "variance_reduction", "tuning_sample_size")

    def __init__(self, data: QueryDict | None = None) -> None:
        typed = data and (data if _IN_PERCENT in data else _with_percent_signs(data))
        super().__init__(typed, initial={"mde": _USUAL_EFFECT}, label_suffix="")
        self.fields["metric"].widget.attrs.update({"list": "hy-metrics", "autocomplete": "off"})
        self.fields["experiment"].widget.attrs.update({"list": "hy-experiments", "autocomplete": "off"})

    def to_question(self) -> Question:
        typed = {name: None if value == "" else value for name, value in self.cleaned_data.items()}
        kind, tuning_size = typed.pop("type"), typed.pop("tuning_sample_size")
        return Question(kind=BaselineKind(kind) if kind else None, tuning_size=tuning_size, **typed)

    def add_refusal(self, refusal: DomainError) -> None:
        details = [Detail(detail.field, detail.code, _for_people(detail)) for detail in refusal.details]
        super().add_refusal(DomainError(refusal.code, refusal.message, details))

    @property
    def usual_fields(self) -> list[Any]:
        return [self[name] for name in self.fields if name not in self.more]

    @property
    def more_fields(self) -> list[Any]:
        return [self[name] for name in self.more]

    @property
    def is_more_open(self) -> bool:
        """Return whether a folded field has a value or an error."""
        return any(field.value() or field.errors for field in self.more_fields)


def _with_percent_signs(data: QueryDict) -> QueryDict:
    """Return the parameters as the form has them.

    Addresses that the form did not make have shares in these fields, as in the API: `mde=0.05` is 5 %.
    """
    shown = data.copy()
    for name in _SHARES:
        share = _share(shown.get(name, ""))
        if share is not None:
            shown[name] = f"{100 * share:.15g} %"
    return shown


def _for_people(detail: Detail) -> str:
    """Return the message of the API with shares in percent."""
    if detail.field in _RANGES and detail.message.startswith(_RANGE):
        return _RANGE + _RANGES[detail.field]
    return detail.message.replace("such as 0.05 for 5 %", "such as 5 %")


def _share(text: str) -> float | None:
    try:
        share = float(text)
    except ValueError:
        return None
    return share if math.isfinite(share) else None


class PlannerPage(DomainAdmin):
    def get_urls(self) -> list[Any]:
        return [
            self.route("planner/", self.planner_view, "planner"),
            self.route("planner/<str:kind>.svg", self.drawing_view, "plan_drawing"),
            self.route("<path:object_id>/use_plan/<str:analysis>/", self.use_plan_view, "use_plan"),
            *super().get_urls(),
        ]

    def planner_view(self, request: HttpRequest) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        environment = current_environment(request)
        form = PlannerForm(request.GET or None)
        experiments = Experiment.objects.in_environment(environment).values_list("key", flat=True)[:_MAX_CHOICES]
        context: dict[str, Any] = {
            "form": form,
            "title": "Planner",
            "opts": None,  # so that the heading is the title, not the list of experiments
            "metrics": known_metrics(),
            "experiments": experiments,
        }
        if form.is_valid():
            try:
                made = plan(form.to_question(), environment, timezone.now())
            except DomainError as refusal:
                form.add_refusal(refusal)
            else:
                context |= {"panel": build_panel(made), "uses": self._uses(request, made.experiment)}
        return self.page(request, "admin/experiments/planner.html", context)

    def _uses(self, request: HttpRequest, experiment: Experiment | None) -> dict[str, str]:
        """Return the addresses at which a draft takes over the plan, by analysis; empty if it cannot."""
        if experiment is None or not self._may_use(request, experiment):
            return {}
        query = request.GET.urlencode()
        return {
            analysis: f"{self.address_of('use_plan', experiment.pk, analysis)}?{query}"
            for analysis in AnalysisMethod.values
        }

    def _may_use(self, request: HttpRequest, experiment: Experiment) -> bool:
        return experiment.status == Status.DRAFT and self.has_change_permission(request, experiment)

    def use_plan_view(self, request: HttpRequest, object_id: str, analysis: str) -> HttpResponse:
        """Write the planned size, the effect and the analysis of a plan into its draft, after a question."""
        experiment, form = self.find(request, object_id), PlannerForm(request.GET)
        if experiment is None:
            return self.missing(request, object_id)
        if not self._may_use(request, experiment):
            raise PermissionDenied
        if analysis not in AnalysisMethod.values or not form.is_valid():
            raise Http404
        try:
            question = replace(form.to_question(), experiment=experiment.key)
            made = plan(question, current_environment(request), timezone.now())
        except DomainError as refusal:
            raise Http404(refusal.message) from refusal
        size, effect = plan_for(made, analysis), abs(made.assumptions.mde)
        changes = {"planned_size": size.users, "minimum_effect": effect, "analysis": analysis}
        confirmation = Confirmation(
            f"Use this plan for {experiment.key}?",
            (
                f"The planned size becomes {describe_size(size)}.",
                f"The smallest effect of interest becomes {percent(effect)}.",
                f"The analysis becomes {AnalysisMethod(analysis).label.lower()}.",
            ),
            "Use this plan",
            is_dangerous=False,
        )

        def act() -> None:
            common = {"reason": reason_of(request), **writer_here(request)}
            update_experiment(key=experiment.key, changes=changes, **common)

        return self.confirm(request, experiment, confirmation, act, f"{experiment.key} has this plan.")

    def drawing_view(self, request: HttpRequest, kind: str) -> HttpResponse:
        """Return a chart of a plan as an SVG file, for the same fields as the page."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        known, form = next((name for name in CHART_KINDS if name == kind), None), PlannerForm(request.GET)
        if known is None or not form.is_valid():
            raise Http404
        try:
            panel = build_panel(plan(form.to_question(), current_environment(request), timezone.now()))
        except DomainError as refusal:
            raise Http404(refusal.message) from refusal
        drawing = draw_chart(panel, known)
        if drawing is None:
            raise Http404
        headers = {"Content-Disposition": f'attachment; filename="plan-{kind}.svg"'}
        return HttpResponse(drawing, "image/svg+xml", headers=headers)
