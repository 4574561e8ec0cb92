"""The planner page: a form, and the plan that answers it in words, cards and charts.

It writes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import path
from django.utils import timezone
from django.utils.dateformat import format as date_format
from unfold.widgets import UnfoldAdminSelectWidget

from config.admin.current_environment import current_environment
from config.admin.forms import StrictForm, TextField
from config.admin.numbers import FractionField, NumberField, PercentField
from config.admin.site import DomainAdmin
from config.errors import Detail, DomainError
from experiments.admin.metrics import known_metrics
from experiments.models import Experiment
from experiments.planner.curve import Curve, Point, draw, points_over_users, users_shown
from experiments.planner.forecast import DetectableDay
from experiments.planner.guardrails import GuardrailPlan
from experiments.planner.history import History
from experiments.planner.plan import ALPHA, POWER, VARIANTS, Plan, plan
from experiments.planner.question import (
    LARGEST_ALPHA,
    LARGEST_MDE,
    LARGEST_POWER,
    LARGEST_REDUCTION,
    SMALLEST_ALPHA,
    SMALLEST_MDE,
    SMALLEST_POWER,
    Assumptions,
    Kind,
    Question,
)
from experiments.planner.sizes import Size
from experiments.stats.charts import Scale, Tick
from experiments.stats.numbers import NO_FIGURE, format_number, format_percent


@dataclass(frozen=True, slots=True)
class Answer:
    """The users and days that one test needs.

    `headline` is the days, or the users where the days are not known.
    """

    headline: str
    users: str
    per_variant: str


@dataclass(frozen=True, slots=True)
class UsersChart:
    """The smallest detectable effect by users per variant, with marks at the planned users."""

    curve: Curve
    ticks: Sequence[Tick]
    fixed_horizon_at: float
    always_valid_at: float


@dataclass(frozen=True, slots=True)
class DayRow:
    """A day of a running experiment, and the smallest effect that is detectable at its end."""

    day: date
    users: str
    fixed_horizon: str
    always_valid: str
    is_forecast: bool


@dataclass(frozen=True, slots=True)
class DaysChart:
    """The smallest detectable effect by day.

    `today` is where the forecast begins; None without a forecast.
    """

    curve: Curve
    days: Sequence[DayRow]
    today: float | None


@dataclass(frozen=True, slots=True)
class GuardrailRow:
    """A guardrail, and the users that each test needs until it is shown safe."""

    metric: str
    margin: str
    always_valid: str
    fixed_horizon: str


@dataclass(frozen=True, slots=True)
class Panel:
    """What the page shows of a plan. `history` says which past data it is based on, `notes` what else it assumes."""

    question: str
    fixed_horizon: Answer
    always_valid: Answer
    history: str | None
    notes: Sequence[str]
    guardrails: Sequence[GuardrailRow]
    by_users: UsersChart
    by_days: DaysChart | None


def percent(share: float) -> str:
    """Return a percentage without trailing zeros: `5 %`, `10.5 %`."""
    digits = format_percent(share).removesuffix(" %")
    return f"{digits.rstrip('0').rstrip('.') if '.' in digits else digits} %"


def build_panel(plan: Plan) -> Panel:
    assumed = plan.assumptions
    return Panel(
        question=_question(assumed),
        fixed_horizon=_answer(plan.fixed_horizon, assumed),
        always_valid=_answer(plan.always_valid, assumed),
        history=None if plan.history is None else _describe_history(plan.history, assumed),
        notes=list(_notes(assumed)),
        guardrails=[_guardrail_row(guardrail) for guardrail in plan.guardrails],
        by_users=_by_users(plan),
        by_days=_by_days(plan.detectable, assumed) if plan.detectable else None,
    )


def _question(assumed: Assumptions) -> str:
    """Return the effect in words: `an increase of 5 %, from 10 % to 10.5 %`."""
    write = percent if assumed.kind is Kind.RATE else format_number
    after = assumed.baseline * (1 + assumed.mde)
    direction = "an increase" if assumed.mde > 0 else "a decrease"
    return f"{direction} of {percent(abs(assumed.mde))}, from {write(assumed.baseline)} to {write(after)}"


def _answer(size: Size, assumed: Assumptions) -> Answer:
    users = f"{size.users:,} users"
    days = None if size.days is None else f"{size.days:,} day{'' if size.days == 1 else 's'}"
    which = "each" if assumed.are_alike else "the smallest"
    return Answer(
        headline=days or users,
        users=users if days else "",
        per_variant=f"{size.users_per_variant:,} in {which} of {assumed.variants} variants",
    )


def _describe_history(history: History, assumed: Assumptions) -> str:
    """Return `Based on checkout, 31 Jan 2026 to 5 Feb 2026: 100 users, 20 a day.` or more."""
    is_experiment = history.experiment is not None
    source = history.experiment.key if history.experiment else "all users"
    period = f"{date_format(history.start, 'j M Y')} to {date_format(history.end, 'j M Y')}"
    pace = history.users_per_day
    users = f"{history.users:,} users, {format_number(round(pace) if pace >= 10 else pace)} a day"
    if history.baseline is None:
        return f"Based on {source}, {period}: {users}."
    value = percent(history.baseline) if assumed.kind is Kind.RATE else format_number(history.baseline)
    deviation = history.standard_deviation
    spread = "" if deviation is None else f", standard deviation {format_number(deviation)}"
    whose = "the control has" if is_experiment else "their baseline is"
    return f"Based on {source}, {period}: {users}; {whose} {value}{spread}."


def _notes(assumed: Assumptions) -> Iterator[str]:
    if assumed.variance_reduction:
        yield f"CUPED is expected to remove {percent(assumed.variance_reduction)} of the variance."
    if assumed.maturity_days and assumed.users_per_day:
        days = f"{assumed.maturity_days} day{'' if assumed.maturity_days == 1 else 's'}"
        yield f"The days include {days} at the end, until the windows of the last users are over."


def _guardrail_row(guardrail: GuardrailPlan) -> GuardrailRow:
    tolerance = guardrail.tolerance
    margin = f"{tolerance.absolute:g}" if tolerance.relative is None else percent(tolerance.relative)
    sizes = (
        "no past data" if guardrail.baseline is None else "too many" if size is None else f"{size.users:,} users"
        for size in (guardrail.always_valid, guardrail.fixed_horizon)
    )
    return GuardrailRow(guardrail.definition.key, margin, *sizes)


def _by_users(plan: Plan) -> UsersChart:
    most = users_shown(plan.always_valid.users_per_variant)
    scale = Scale(0.0, most)
    curve = draw(points_over_users(plan.baseline, plan.demands, most), plan.assumptions.mde, percent)
    return UsersChart(
        curve,
        [Tick(f"{users:,.0f}", scale.at(users)) for users in scale.ticks()],
        scale.at(plan.fixed_horizon.users_per_variant),
        scale.at(plan.always_valid.users_per_variant),
    )


def _by_days(days: Sequence[DetectableDay], assumed: Assumptions) -> DaysChart:
    last = max(1, len(days) - 1)
    points = [Point(100 * index / last, day.fixed_horizon, day.always_valid) for index, day in enumerate(days)]
    past = sum(not day.is_forecast for day in days)
    return DaysChart(
        draw(points, assumed.mde, percent),
        [_day_row(day) for day in days],
        round(100 * (past - 1) / last, 2) if past < len(days) else None,
    )


def _day_row(day: DetectableDay) -> DayRow:
    fixed_horizon, always_valid = (
        NO_FIGURE if effect is None else percent(effect) for effect in (day.fixed_horizon, day.always_valid)
    )
    return DayRow(day.day, f"{day.users:,}", fixed_horizon, always_valid, day.is_forecast)


_USUAL_EFFECT = 0.05
_MOST_CHOICES = 200
_IN_PERCENT = "in_percent"
_SHARES = ("mde", "power", "alpha", "variance_reduction")
_RANGE = "Must be from "
_RANGES = {
    "mde": f"{100 * SMALLEST_MDE:g} % to {100 * LARGEST_MDE:,.0f} %; for a fall, below 0 % and above -100 %.",
    "power": f"{100 * SMALLEST_POWER:g} % to {100 * LARGEST_POWER:g} %.",
    "alpha": f"{100 * SMALLEST_ALPHA:g} % to {100 * LARGEST_ALPHA:g} %.",
    "varianceReduction": f"0 % to {100 * LARGEST_REDUCTION:g} %.",
}
"""The ranges of these fields as the form shows them."""
_KINDS = (("", "Automatic"), (Kind.RATE, "A rate"), (Kind.MEAN, "A mean"))


class WholeNumberField(NumberField):
    """A number without a fraction."""

    def clean(self, value: Any) -> int | None:
        number: int | float | None = super().clean(value)
        if isinstance(number, float):
            raise forms.ValidationError("Must be a whole number such as 2.")
        return number


class PlannerForm(StrictForm, forms.Form):
    """What to plan. `more` names the fields that are folded, because few people change them."""

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
        return Question(kind=Kind(kind) if kind else None, tuning_size=tuning_size, **typed)

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

    In addresses that the form did not make, numbers of these fields are shares, as in the API: `mde=0.05` is 5 %.
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
    """The page, beside those of experiments."""

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.planner_view)
        return [path("planner/", view, name="experiments_experiment_planner"), *super().get_urls()]

    def planner_view(self, request: HttpRequest) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        environment = current_environment(request)
        form = PlannerForm(request.GET or None)
        experiments = Experiment.objects.in_environment(environment).values_list("key", flat=True)[:_MOST_CHOICES]
        context: dict[str, Any] = {
            "form": form,
            "title": "Planner",
            "opts": None,  # so that the heading is the title, not the list of experiments
            "metrics": known_metrics(),
            "experiments": experiments,
        }
        if form.is_valid():
            try:
                context["panel"] = build_panel(plan(form.to_question(), environment, timezone.now()))
            except DomainError as refusal:
                form.add_refusal(refusal)
        return self.page(request, "admin/experiments/planner.html", context)
