"""The operation that plans an experiment: its parameters, the plan as JSON, and its OpenAPI description."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Self

import django_filters
from drf_spectacular.utils import extend_schema
from msgspec import Meta, field
from rest_framework.request import Request
from rest_framework.response import Response

from config.answers import Answer, Count, Key, Moment, described, one_of, shaped
from config.api.filters import ChoiceFilter, NumberFilter, TextFilter, read_parameters
from config.api.parameters import parameters_of
from config.api.permissions import Access
from config.api.schema import Schema, answer, operation
from config.api.structs import schema_of
from config.api.views import ApiViewSet
from config.models import Scope
from experiments.models import Experiment
from experiments.models.design_checks import MAX_VARIANTS
from experiments.models.plan import MAX_TUNING_SIZE, MIN_TUNING_SIZE
from experiments.planner.history import History
from experiments.planner.plan import ALPHA, POWER, VARIANTS, plan
from experiments.planner.question import (
    MAX_ALPHA,
    MAX_MDE,
    MAX_POWER,
    MAX_REDUCTION,
    MAX_USERS_PER_DAY,
    MIN_ALPHA,
    MIN_POWER,
    MIN_USERS_PER_DAY,
    Assumptions,
    BaselineKind,
    Question,
)
from experiments.planner.sizes import GuardrailPlan

_POWER: Schema = {"type": "number", "minimum": MIN_POWER, "maximum": MAX_POWER}
_ALPHA: Schema = {"type": "number", "minimum": MIN_ALPHA, "maximum": MAX_ALPHA}
_MDE: Schema = {"type": "number", "exclusiveMinimum": -1, "maximum": MAX_MDE}
_VARIANTS: Schema = {"type": "integer", "minimum": 2, "maximum": MAX_VARIANTS}
_TUNING_SIZE: Schema = {"type": "integer", "minimum": MIN_TUNING_SIZE, "maximum": MAX_TUNING_SIZE}
_REDUCTION: Schema = {"type": "number", "minimum": 0, "maximum": MAX_REDUCTION}

_Positive = Annotated[float, Meta(gt=0)]


class PlannedSize(Answer):
    """How many users, and so how many days, it takes to find the effect with the required power."""

    users_per_variant: Annotated[int, Meta(ge=2), described("The users of the smallest variant among them.")]
    users: Annotated[int, Meta(ge=4), described("Users of all variants together.")]
    days: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        described(
            "The days until enough users have come and their windows are over. Null if the number of users a day is "
            "unknown."
        ),
    ]


class PlannerAssumptions(Answer):
    """The values that the plan is computed from: as sent, else from the metric's history, else the defaults."""

    metric: Annotated[Key | None, described("The metric, in whose unit the values are; null if none was named.")]
    type: Annotated[str, one_of(BaselineKind)]
    baseline: Annotated[float, described("The mean of the control's users; for a rate, a share from 0 to 1.")]
    standard_deviation: Annotated[_Positive | None, described("The deviation between users; null for rates.")]
    mde: Annotated[float, shaped(_MDE), described("The minimum detectable effect, as a share of the baseline.")]
    power: Annotated[float, shaped(_POWER)]
    alpha: Annotated[
        float, shaped(_ALPHA), described("The significance level, shared equally between the treatments (Bonferroni).")
    ]
    variants: Annotated[
        int,
        shaped(_VARIANTS),
        described("The number of variants, including the control, without variants of weight 0."),
    ]
    smallest_share: Annotated[
        float, Meta(gt=0, le=0.5), described("The share of all users that the smallest variant gets.")
    ]
    is_planned: Annotated[
        bool,
        described(
            "Whether the boundary of the always-valid test follows from the plan: for goals with a window, and if no "
            "metric was named."
        ),
    ]
    users_per_day: Annotated[_Positive | None, described("New users a day in all variants together; null if unknown.")]
    tuning_sample_size: Annotated[
        int, shaped(_TUNING_SIZE), described("The number of users at which always-valid intervals are narrowest.")
    ]
    variance_reduction: Annotated[
        float,
        shaped(_REDUCTION),
        described("The share of the variance that CUPED is expected to remove: as sent, else as in the history."),
    ]
    maturity_days: Annotated[
        Count, described("The days from the exposure of a user until the metric's window is over; 0 without a window.")
    ]

    @classmethod
    def of(cls, source: Assumptions, **others: Any) -> Self:
        share = float(source.smallest_share)
        return super().of(source, type=source.kind, smallest_share=share, tuning_sample_size=source.tuning_size)


class MetricHistory(Answer):
    """The past data of the metric."""

    experiment: Annotated[
        Key | None, described("The experiment that measured it; null if it is counted from events alone.")
    ]
    start: Moment = field(name="from")
    end: Moment = field(name="to")
    users: Annotated[Count, described("The users of this period, in all variants together.")]
    users_per_day: _Positive
    baseline: Annotated[
        float | None,
        described("The mean of the users, or of the control's users in an experiment; null if no value can be used."),
    ]
    standard_deviation: Annotated[Annotated[float, Meta(ge=0)] | None, described("Null for rates.")]
    variance_reduction: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        described(
            "The share of the variance that CUPED removed in the experiment. Null without an experiment, or if its "
            "users had no history."
        ),
    ]

    @classmethod
    def of(cls, source: History, **others: Any) -> Self:
        return super().of(source, experiment=source.experiment and source.experiment.key)


class PlannedGuardrail(Answer):
    """How many users it takes to show that a guardrail is safe, if there is no difference.

    Exactly one of the margins is set. The sizes are null if the metric has no past data, or if it would
    need more users than there can be.
    """

    metric: Key
    margin: Annotated[_Positive | None, described("The margin as a share of the control's value.")]
    margin_absolute: Annotated[_Positive | None, described("The margin in units of the metric.")]
    baseline: Annotated[float | None, described("The mean of the control's users in the metric's history.")]
    standard_deviation: Annotated[Annotated[float, Meta(ge=0)] | None, described("Null for rates.")]
    variance_reduction: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        described("The share of the variance that CUPED is expected to remove."),
    ]
    fixed_horizon: PlannedSize | None
    always_valid: PlannedSize | None

    @classmethod
    def of(cls, source: GuardrailPlan, **others: Any) -> Self:
        baseline, tolerance = source.baseline, source.tolerance
        return super().of(
            source,
            metric=source.definition.key,
            margin=tolerance.relative,
            margin_absolute=tolerance.absolute,
            baseline=baseline and baseline.mean,
            standard_deviation=baseline and baseline.standard_deviation,
            variance_reduction=baseline and baseline.reduction,
        )


class DetectableDay(Answer):
    """The smallest rise, as a share of the baseline, that is found with the required power; null if
    there is none.
    """

    day: Annotated[date, described("In UTC.")]
    users: Annotated[Count, described("Users exposed by the end of this day, in all variants together.")]
    mature_users: Annotated[Count, described("The users of these whose window is over by then. Only they count.")]
    is_forecast: Annotated[bool, described("Whether the day is in the future.")]
    fixed_horizon: Annotated[_Positive | None, described("With a single look, at the end of this day.")]
    always_valid: Annotated[_Positive | None, described("With any number of looks.")]


class Plan(Answer):
    """The users and days that it takes to find an effect."""

    fixed_horizon: PlannedSize
    always_valid: PlannedSize
    with_window: Annotated[
        PlannedSize | None,
        described("The size of the always-valid test if the metric had a window. Null if it has one."),
    ]
    assumptions: PlannerAssumptions
    history: MetricHistory | None
    guardrails: Annotated[list[PlannedGuardrail], described("The guardrails of the given experiment.")]
    detectable: Annotated[
        list[DetectableDay] | None,
        described(
            "What a started experiment can detect, day by day since its first exposure. For a "
            "running one, the next four weeks are included."
        ),
    ]


PARAMETERS = {
    "type": "kind",
    "baseline": "baseline",
    "standardDeviation": "standard_deviation",
    "mde": "mde",
    "power": "power",
    "alpha": "alpha",
    "variants": "variants",
    "usersPerDay": "users_per_day",
    "tuningSampleSize": "tuning_size",
    "varianceReduction": "variance_reduction",
    "metric": "metric",
    "experiment": "experiment",
}
"""The fields of `Question` by the names of the parameters."""


class PlannerFilter(django_filters.FilterSet):
    type = ChoiceFilter(
        BaselineKind, label="Whether the baseline is a rate or a mean. Default: the type of the metric, else rate."
    )
    baseline = NumberFilter(
        {"type": "number"}, label="The mean of the control's users. Required unless the metric has past data."
    )
    standardDeviation = NumberFilter(
        {"type": "number", "exclusiveMinimum": 0},
        label="The deviation between users. For means, required unless the metric has past data.",
    )
    mde = NumberFilter(
        {**_MDE, "examples": [0.05]},
        label="The minimum detectable effect, as a share of the baseline: 0.05 for a rise by 5 %. "
        "Below 0 for a fall; at least 0.0001 either way. Required, unless the experiment has a `minimumEffect`.",
    )
    power = NumberFilter(_POWER, initial=POWER, label="The chance to find the effect, if there is one.")
    alpha = NumberFilter(_ALPHA, initial=ALPHA, label="The chance to find an effect if there is none.")
    variants = NumberFilter(
        _VARIANTS,
        label="The number of variants, including the control, all of the same size. Default: the "
        "variants of the experiment, or of the one in the history, with their weights; else "
        f"{VARIANTS}.",
    )
    usersPerDay = NumberFilter(
        {"type": "number", "minimum": MIN_USERS_PER_DAY, "maximum": MAX_USERS_PER_DAY},
        label="New users a day in all variants together. Default: as in the experiment, else as in the history.",
    )
    tuningSampleSize = NumberFilter(
        _TUNING_SIZE,
        label="The number of users at which always-valid intervals are narrowest. Default: that of the experiment, if "
        "it has started or was given one. Otherwise the plan is tuned to its own users, in the control "
        "and one treatment.",
    )
    varianceReduction = NumberFilter(
        _REDUCTION,
        label="The share of the variance that CUPED is expected to remove. Default: as in the history, and 0 without "
        "one or if the experiment does not look back.",
    )
    metric = TextFilter(
        label="The key of a metric, or the name of an event. Default: the experiment's first goal, or first metric."
    )
    experiment = TextFilter(label="The key of an experiment.")

    class Meta:
        model = Experiment
        fields = ()


@extend_schema(tags=["Experiments"])
class PlannerViewSet(ApiViewSet):
    access = {"retrieve": Access(Scope.SERVER, "experiments.view_experiment")}

    @operation(
        "plan_experiment",
        "Plan an experiment",
        description="Computes how many users and days it takes to find an effect, with two tests. The fixed-horizon "
        "test is done once, at the end. The always-valid test allows a look at any time; with its number of users, it "
        "has found the effect with the required power, and mostly earlier.\n\n"
        "With `metric` or `experiment`, values that you do not send are taken from past data. They come from the "
        "control of the newest experiment that measured the metric for at least 100 users there. Without such an "
        "experiment, 10,000 users of the last 28 days are sampled. If the weights are unequal, the sizes are those for "
        "the treatment with the fewest users.\n\n"
        "With `experiment`, the answer also has `detectable` and `guardrails`. The first has the effects that the "
        "experiment can detect by each day. The second has the users that it takes to show each guardrail safe if "
        "there is no difference.",
        parameters=parameters_of(PlannerFilter),
        responses={200: answer(schema_of(Plan), "The plan.")},
    )
    def retrieve(self, request: Request) -> Response:
        sent = read_parameters(request, PlannerFilter)
        self.refuse_body(request)
        question = {name: None if sent[parameter] == "" else sent[parameter] for parameter, name in PARAMETERS.items()}
        question["kind"] = BaselineKind(question["kind"]) if question["kind"] else None
        made = plan(Question(**question), self.environment, self.now)
        return Response(Plan.of(made).as_json())
