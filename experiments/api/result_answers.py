"""The results of an experiment as JSON and in the OpenAPI document. A missing figure is null, with its reason."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Any, Self

import msgspec
from msgspec import UNSET, Meta, UnsetType

from config.api.structs import Answer, Count, Key, Moment, Name, Share, described, one_of, shaped
from config.documents import Document
from config.timestamps import format_timestamp
from experiments.aggregates.breakdowns import MOST_VALUES
from experiments.api.metric_serializers import MetricDefinition
from experiments.metrics.definition import Definition
from experiments.metrics.documents import definitions_of
from experiments.models import Experiment, Status
from experiments.results import types as results
from experiments.results.assignment_audit import assignment_audit_document
from experiments.results.classification import AssignmentAudit
from experiments.results.computing import CORRECTIONS
from experiments.stats import types as stats
from flags.api.rule_schema import CONDITIONS


class Reason(Answer):
    """Why a figure is missing, or why the verdict is what it is."""

    code: Annotated[str, one_of(stats.ReasonCode)]
    message: Annotated[str, described("A sentence for people.")]


class MissingFigure(Reason):
    """Why a property of the comparison is null."""

    field: Annotated[str, one_of(["chanceToBeatControl", "expectedLoss", "cuped"])]


class ConfidenceInterval(Answer):
    """The 95 % interval of one variant's own value: Wilson's for shares, Student's t for means and ratios."""

    lower: float
    upper: float


class TestResult(Answer):
    """95 % interval and p-value of one two-sided test: the interval excludes 0 where the p-value is below 0.05."""

    lower: float
    upper: float
    p_value: Share


class EffectEstimate(Answer):
    """How a treatment differs from the control."""

    estimate: float | None
    standard_error: float | None
    always_valid: Annotated[TestResult | None, described("It holds for any number of looks.")]
    fixed_horizon: Annotated[
        TestResult | None, described("Welch's t-test. It holds for a single look, at a time chosen beforehand.")
    ]
    reason: Annotated[Reason | None, described("Why the other properties are null.")]

    @classmethod
    def of(cls, source: stats.Estimate | stats.Reason, **others: Any) -> Self:
        if isinstance(source, stats.Reason):
            figures = dict.fromkeys(("estimate", "standard_error", "always_valid", "fixed_horizon"))
            return super().of(None, **figures, reason=source)
        return super().of(source, reason=None)


class CupedComparison(Answer):
    """The comparison, adjusted for what the users did in the 14 days before their exposure."""

    theta: Annotated[float, described("How much one unit of the metric before the exposure predicts afterwards.")]
    variance_reduction: Annotated[Share, described("The share of the variance that history explains.")]
    value: Annotated[float, described("The adjusted mean.")]
    difference: EffectEstimate
    lift: EffectEstimate


class Comparison(Answer):
    """A treatment compared with the control."""

    difference: Annotated[
        EffectEstimate, described("The treatment's value minus the control's, in units of the metric.")
    ]
    lift: Annotated[EffectEstimate, described("The difference as a share of the control's value: 0.1 is 10 % more.")]
    chance_to_beat_control: Annotated[
        Share | None, described("The probability that the treatment is better, in the metric's direction.")
    ]
    expected_loss: Annotated[
        float | None, described("What choosing the treatment loses on average, in units of the metric.")
    ]
    adjusted_p_value: Annotated[
        Share | None,
        described(
            "The always-valid p-value of the difference, adjusted for all goals and treatments. It is null for "
            "guardrails and for metrics that were added after the start."
        ),
    ]
    cuped: CupedComparison | None
    reasons: Annotated[list[MissingFigure], described("Why some properties are null. An estimate has its own reason.")]

    @classmethod
    def of(cls, source: stats.Comparison, **others: Any) -> Self:
        named = {
            "chanceToBeatControl": source.chance_to_beat,
            "expectedLoss": source.expected_loss,
            "cuped": source.cuped,
        }
        chance, loss, cuped = (None if isinstance(figure, stats.Reason) else figure for figure in named.values())
        missing = [(name, figure) for name, figure in named.items() if isinstance(figure, stats.Reason)]
        return super().of(
            source,
            chance_to_beat_control=chance,
            expected_loss=loss,
            adjusted_p_value=source.adjusted_p,
            cuped=cuped,
            reasons=[MissingFigure.of(reason, field=name) for name, reason in missing],
        )


class DayFigures(Answer):
    """The figures of the users who were exposed by the end of this day."""

    day: Annotated[date, described("The day of the exposures, in UTC.")]
    users: Count
    value: float | None
    interval: ConfidenceInterval | None
    difference: Annotated[EffectEstimate | None, described("Null for the control.")]


class VariantFigures(Answer, kw_only=True):
    """One metric of one variant."""

    key: Key
    users: Annotated[Count, described("Distinct users exposed. All of them count, those without an event as 0.")]
    mature_users: Annotated[
        Count | UnsetType, described("The users whose whole window has passed. Left out in a breakdown.")
    ] = UNSET
    immature_users: Annotated[
        Count | UnsetType, described("The users whose window is still open. Left out in a breakdown.")
    ] = UNSET
    value: Annotated[
        float | None, described("A share from 0 to 1, a mean by user, or for a ratio numerator by denominator.")
    ]
    interval: ConfidenceInterval | None
    reason: Annotated[Reason | None, described("Why value or interval is null.")]
    events: Annotated[Count, described("Events of the metric's name since the exposures, in any window.")]
    other_currency_events: Annotated[
        Count,
        described(
            "Events in the window with an amount (`revenue`) in another currency, or in none. They do not count."
        ),
    ]
    comparison: Annotated[Comparison | None, described("Null for the control.")]
    series: Annotated[
        list[DayFigures] | UnsetType, described("With `series=daily`, each day on which a user was exposed.")
    ] = UNSET


class MetricFigures(MetricDefinition):
    """One metric in all variants, by the definition that the experiment took over when it started."""

    cap: Annotated[float | None, described("The cap in force: higher values count as this value.")]
    is_primary: Annotated[bool, described("Whether the verdict rests on it: it was the first goal at the start.")]
    variants: Annotated[list[VariantFigures], described("In the order of the experiment.")]

    @classmethod
    def of(cls, source: results.MetricFigures, **others: Any) -> Self:
        variants = [VariantFigures.of(variant) for variant in source.variants]
        own = {"cap": source.cap, "isPrimary": source.is_primary, "variants": variants}
        return msgspec.convert({**_definition(source.definition), **own}, cls)


class SliceMetric(Answer):
    """One metric of the users with one value of the attribute."""

    key: Name
    variants: list[VariantFigures]


class ResultSlice(Answer):
    """The figures of the users with one value of the attribute."""

    value: Annotated[str | float | bool | None, described("Null if no value was recorded, and with `isRest`.")]
    is_rest: Annotated[bool, described("Whether these are the users with all other values.")]
    users: Count
    metrics: list[SliceMetric]


class ResultBreakdown(Answer):
    """The figures by the values of an attribute."""

    attribute: str
    values: Annotated[
        list[ResultSlice],
        Meta(max_length=MOST_VALUES + 2),
        described("The value with the most users comes first, the rest last."),
    ]


class SampleRatio(Answer):
    """Whether the users are split by the weights."""

    p_value: Annotated[Share | None, described("Always valid: the p-value of the multinomial e-process.")]
    chi_square_p_value: Annotated[Share | None, described("The p-value of Pearson's test, for a single look.")]
    is_mismatch: Annotated[bool, described("Whether `pValue` is below 0.001. If so, do not trust the figures.")]
    reason: Annotated[Reason | None, described("Why the p-values are null.")]

    @classmethod
    def of(cls, source: stats.SampleRatio | stats.Reason, **others: Any) -> Self:
        if isinstance(source, stats.Reason):
            return super().of(None, p_value=None, chi_square_p_value=None, is_mismatch=False, reason=source)
        p_values = {"p_value": source.always_valid_p, "chi_square_p_value": source.chi_square_p}
        return super().of(source, **p_values, reason=None)


class ResultAssignments(Answer):
    """With `audit`: every exposure, compared with the hash and the configuration of its phase."""

    exposures: Annotated[Count, described("All recorded exposures.")]
    differing: Annotated[Count, described("Exposures that differ from what the hash and their phase give.")]
    share: Annotated[Share, described("The share of the exposures that differ.")]
    self_reported: Annotated[Count, described("Differing exposures that clients reported or that were imported.")]
    forced: Annotated[Count, described("Differing exposures of users who are or were forced to a variant.")]
    other_phase: Annotated[Count, described("Differing exposures that match another phase.")]
    outside_audience: Annotated[
        Count, described("Differing exposures of users outside the group's range or the percentage.")
    ]
    conditions_not_met: Annotated[Count, described("Differing exposures of users who do not meet the conditions.")]
    unexplained: Annotated[Count, described("Differing exposures without a known cause.")]
    in_several_variants: Annotated[Count, described("Exposures of users who were seen in a second variant.")]
    before_start: Annotated[Count, described("Exposures from before the second of the start.")]
    after_stop: Annotated[Count, described("Exposures from after the stop.")]

    @classmethod
    def of(cls, source: AssignmentAudit, **others: Any) -> Self:
        return msgspec.convert(assignment_audit_document(source), cls)


class ResultGuards(Answer):
    """What makes the figures less reliable."""

    sample_ratio: SampleRatio
    users_in_several_variants: Annotated[
        Count, described("Users who were seen in a second variant. They count in the first.")
    ]
    events_of_unknown_variants: Annotated[
        Count, described("Events that report a variant that the experiment does not have.")
    ]
    events_before_exposure: Annotated[
        Count | UnsetType,
        described("With `audit`: events of the metrics, by exposed users, from the start until their exposure."),
    ] = UNSET
    unexpected_variants: Annotated[
        Count | UnsetType,
        described("With `audit`: exposures that the service should not have made. The number should be 0."),
    ] = UNSET
    assignments: ResultAssignments | UnsetType = UNSET


class ResultVerdict(Answer):
    """What to do now."""

    decision: Annotated[str, one_of(stats.Decision)]
    variant: Annotated[Key | None, described("The variant to ship.")]
    metric: Annotated[Name | None, described("The primary metric, which decides. Null if no metric is a goal.")]
    reasons: list[Reason]


class VariantUsers(Answer):
    """A variant and the users who were exposed to it."""

    key: Key
    weight: Annotated[float, Meta(ge=0)]
    users: Count
    expected_users: Annotated[float, described("The number of users that is expected by the weights.")]


class ResultPhase(Answer):
    """A time in which users were assigned in one way."""

    number: Annotated[int, Meta(ge=1)]
    started_at: Moment
    percentage: Annotated[float, described("The share of the audience that the experiment admitted.")]
    conditions: Annotated[list[Any], shaped(CONDITIONS), described("The conditions that users had to meet.")]
    reason: Annotated[str, described("Why the phase was opened.")]
    is_covered: Annotated[bool, described("Whether the users exposed in this phase are in the figures.")]
    users: Annotated[Count, described("Distinct users exposed in this phase, in all variants.")]
    variants: list[VariantUsers]
    sample_ratio: SampleRatio


class ResultsOfExperiment(Answer):
    """The results of an experiment."""

    experiment: Key
    status: Annotated[str, one_of(Status.values)]
    started_at: Moment | None
    stopped_at: Moment | None
    as_of: Moment
    frozen_at: Annotated[Moment | None, described("Since when the results no longer change.")]
    control: Key
    correction: Annotated[str, one_of(CORRECTIONS)]
    users: Annotated[Count, described("Distinct users exposed in the phases that are covered, in all variants.")]
    variants: list[VariantUsers]
    verdict: ResultVerdict
    guards: ResultGuards
    metrics: list[MetricFigures]
    phases: Annotated[list[ResultPhase], described("All phases, the oldest first. A draft has none.")]
    breakdown: ResultBreakdown | UnsetType = UNSET

    @classmethod
    def of(cls, source: results.Results, **others: Any) -> Self:
        experiment = source.experiment
        return super().of(
            source,
            experiment=experiment.key,
            status=str(experiment.status),
            started_at=experiment.started_at,
            stopped_at=experiment.stopped_at,
            frozen_at=experiment.frozen_at,
            verdict=ResultVerdict.of(source.verdict, metric=source.primary),
        )


_STEPS = (
    *("events_of_the_name", "by_exposed_users", "of_the_experiment", "after_exposure", "in_the_window"),
    *("before_the_stop", "of_the_currency", "with_the_value", "counted"),
)


class ExplanationStep(Answer):
    """The events that remain after one condition. Conditions that the metric does not have are left
    out.
    """

    name: Annotated[str, one_of(_STEPS)]
    description: str
    rows: Annotated[Count, described("The number of events that meet this condition and all before it.")]
    users: Annotated[Count, described("Distinct users of these events.")]


class ResultExplanation(Answer):
    """How one figure is computed."""

    experiment: Key
    metric: Name
    variant: Key
    as_of: Moment
    frozen_at: Moment | None
    definition: MetricDefinition
    users: Annotated[Count, described("Distinct users exposed to the variant.")]
    steps: Annotated[
        list[ExplanationStep], described("The events that the metric adds up; for a ratio, those of the numerator.")
    ]
    cap: float | None
    capped_users: Annotated[Count, described("Users whose value is above the cap.")]
    sum: Annotated[float, described("The sum of the users' values, each at most the cap.")]
    denominator_steps: Annotated[list[ExplanationStep] | None, described("The same steps for a ratio's denominator.")]
    denominator_sum: float | None
    value: Annotated[float | None, described("`sum` by user, or for a ratio by `denominatorSum`.")]


def explanation_document(
    experiment: Experiment, metric: str, variant: str, explained: Document, at: datetime
) -> Document:
    """Return the explanation of one figure, which `results.explanation` made, with what it explains."""
    [definition] = [definition for definition in definitions_of(experiment) if definition.key == metric]
    return {
        "experiment": experiment.key,
        "metric": metric,
        "variant": variant,
        "asOf": format_timestamp(experiment.frozen_at or at),
        "frozenAt": None if experiment.frozen_at is None else format_timestamp(experiment.frozen_at),
        "definition": _definition(definition),
        **explained,
    }


def _definition(definition: Definition) -> Document:
    return {**definition.document(), "isPostHoc": definition.is_post_hoc}
