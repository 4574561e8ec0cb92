"""The results of an experiment as JSON and in the OpenAPI document. A missing figure is null, with its reason."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Self, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

from config.api.structs import Answer, Count, Key, Moment, Name, Share, described, one_of, shaped
from experiments.api.result_comparisons import EffectEstimate, Reason
from experiments.api.result_metrics import MetricFigures, ResultBreakdown
from experiments.models import Status
from experiments.results import types as results
from experiments.results.analyse import CORRECTIONS, MATURITIES
from experiments.results.assignment_audit import assignment_audit_document
from experiments.results.classification import AssignmentAudit
from experiments.results.study import lookback_days_of
from experiments.results.verdicts import REACHED
from experiments.stats import outcomes
from experiments.stats import types as stats
from flags.api.rule_schema import CONDITIONS


class SampleRatio(Answer):
    """Whether the users are split by the weights."""

    p_value: Annotated[Share | None, described("Always valid: the p-value of the multinomial e-process.")]
    chi_square_p_value: Annotated[Share | None, described("The p-value of Pearson's test, for a single look.")]
    is_mismatch: Annotated[bool, described("Whether `pValue` is below 0.001. If so, do not trust the figures.")]
    reason: Annotated[Reason | None, described("Why the p-values are null.")]

    @classmethod
    def of(cls, source: outcomes.SampleRatio | stats.Reason, **others: Any) -> Self:
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


class UnexposedConversions(Answer):
    """Events that the metrics count as outcomes, by users who were never exposed. They do not count."""

    events: Count
    users: Count
    similar_users: Annotated[
        Count, described("The users of these with the id of an exposed user, but for blanks and upper or lower case.")
    ]
    reason: Annotated[str, described("A sentence on the likeliest reason. It is empty without such events.")]


class LargeValue(Answer):
    """The largest value of a metric in a variant, if it makes up over 10 % of the sum."""

    metric: Name
    variant: Key
    user_id: Annotated[Name, described("The user with this value.")]
    value: Annotated[float, described("The value, or the cap.")]
    share: Annotated[Share, described("The share of the sum over all exposed users of the variant.")]


class DifferentBefore(Answer):
    """A metric that differed before the exposure."""

    metric: Name
    variant: Key
    difference: EffectEstimate


class ResultGuards(Answer, kw_only=True):
    """What makes the figures less reliable."""

    sample_ratio: SampleRatio
    users_in_several_variants: Annotated[
        Count, described("Users who were seen in a second variant. They count in the first.")
    ]
    events_of_unknown_variants: Annotated[
        Count, described("Events that report a variant that the experiment does not have.")
    ]
    doubted_reports: Annotated[
        Count,
        described(
            "Events with keys of scope `client` that report a variant which the hash does not give the user. They "
            "create no exposures."
        ),
    ]
    different_before: Annotated[
        list[DifferentBefore],
        described(
            "The metrics that differed between a treatment and the control before anybody was exposed "
            "(always-valid p-value below 0.001). Then something besides the treatment differs."
        ),
    ]
    flag_off_since: Annotated[
        Moment | None,
        described(
            "Since when the flag that the experiment drives has been off, from the start of the experiment on. After "
            "a stop, as it was at the stop. Null if the flag is on, or if there is none. No user sees a variant then, "
            "and after a day the verdict is `check_data`."
        ),
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
    unexposed_conversions: Annotated[
        UnexposedConversions | UnsetType,
        described("With `audit`: conversions of users who were never exposed. Older frozen results do not have it."),
    ] = UNSET
    similar_ids: Annotated[
        Count | UnsetType,
        described("With `audit`: exposed users with the id of another one, but for blanks and upper or lower case."),
    ] = UNSET
    large_values: Annotated[
        list[LargeValue] | UnsetType,
        described("With `audit`: values that make up over 10 % of the sum of a metric in a variant, if there are any."),
    ] = UNSET

    @classmethod
    def of(cls, source: results.Guards, **others: Any) -> Self:
        if (audit := source.audit) is None:
            return super().of(source, **others)
        return super().of(
            source,
            events_before_exposure=audit.events_before_exposure,
            unexpected_variants=audit.assignments.alarming,
            assignments=audit.assignments,
            unexposed_conversions=audit.unexposed,
            similar_ids=audit.similar_ids,
            large_values=audit.large_values,
            **others,
        )


class ReachedLift(Answer):
    """The lift of the primary metric in a treatment, with the interval that decides."""

    variant: Key
    estimate: float
    lower: Annotated[float | None, described("Null if this side is open.")]
    upper: Annotated[float | None, described("Null if this side is open.")]
    level: Share


class ReachedVerdict(Answer):
    """A verdict that was reached: since when, and if it no longer stands, until when."""

    decision: Annotated[str, one_of(REACHED)]
    variant: Annotated[Key | None, described("The variant to ship. Null for `do_not_ship`.")]
    metric: Annotated[Name | None, described("The primary metric, of which the lifts are.")]
    reached_at: Annotated[Moment, described("When a look at the results first showed it.")]
    lifts: Annotated[list[ReachedLift], described("Those of that moment: of the variant, or else of all treatments.")]
    ended_at: Annotated[Moment | None, described("When a look no longer showed it. Null while it stands.")]
    lifts_at_end: Annotated[list[ReachedLift], described("The same lifts at that moment. Empty while it stands.")]


class ResultVerdict(Answer):
    """What to do now."""

    decision: Annotated[str, one_of(outcomes.Decision)]
    variant: Annotated[Key | None, described("The variant to ship.")]
    metric: Annotated[Name | None, described("The primary metric, which decides. Null if no metric is a goal.")]
    reasons: list[Reason]
    reached: Annotated[
        list[ReachedVerdict] | UnsetType,
        described("All verdicts to ship, or not to ship, that were reached, the oldest first. Left out without any."),
    ] = UNSET


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


class RegisteredPlan(Answer):
    """What was registered at the start, and binds the verdict."""

    planned_sample_size: Annotated[Count | None, described("The planned number of users, in all variants together.")]
    minimum_effect: Annotated[float | None, described("The smallest lift of interest.")]
    analysis: Annotated[str, one_of(get_args(stats.Procedure))]
    shortest_run_ends_at: Annotated[Moment | None, described("Before this, no variant is recommended.")]
    lookback_days: Annotated[Count, described("How many days CUPED looks back. 0 if values are not adjusted.")]
    read_at: Annotated[
        Moment | None, described("The moment as of which a fixed analysis was read. Null until then, and otherwise.")
    ]

    @classmethod
    def of(cls, source: results.Results, **others: Any) -> Self:
        plan, started_at = source.plan, source.experiment.started_at
        days = (source.experiment.registration or {}).get("minimumDays", 0)
        return super().of(
            plan,
            planned_sample_size=plan.size,
            shortest_run_ends_at=started_at + timedelta(days=days) if started_at and days else None,
            lookback_days=lookback_days_of(source.experiment),
            read_at=source.read_at,
        )


class ResultsOfExperiment(Answer, kw_only=True):
    """The results of an experiment."""

    experiment: Key
    status: Annotated[str, one_of(Status.values)]
    started_at: Moment | None
    stopped_at: Moment | None
    as_of: Moment
    counts_until: Annotated[
        Moment | None,
        described("Until when events count after the stop for metrics with a window. Null if the stop cut them off."),
    ]
    frozen_at: Annotated[Moment | None, described("Since when the results no longer change.")]
    control: Key
    correction: Annotated[str, one_of(CORRECTIONS)]
    maturity: Annotated[str, one_of(MATURITIES), described("Which users count for metrics with a window.")]
    plan: RegisteredPlan
    users: Annotated[Count, described("Distinct users exposed in the phases that are covered, in all variants.")]
    variants: list[VariantUsers]
    verdict: ResultVerdict
    guards: ResultGuards
    metrics: list[MetricFigures]
    phases: Annotated[list[ResultPhase], described("All phases, the oldest first. A draft has none.")]
    breakdown: ResultBreakdown | UnsetType = UNSET

    @classmethod
    def of(cls, source: results.Results, **others: Any) -> Self:
        experiment, lookback_days = source.experiment, lookback_days_of(source.experiment)
        keys, breakdown = {metric.metric_index: metric.key for metric in source.metrics}, source.breakdown
        return super().of(
            source,
            experiment=experiment.key,
            status=str(experiment.status),
            started_at=experiment.started_at,
            stopped_at=experiment.stopped_at,
            counts_until=experiment.counts_until,
            frozen_at=experiment.frozen_at,
            plan=RegisteredPlan.of(source),
            verdict=ResultVerdict.of(source.verdict, metric=source.primary, reached=source.verdicts),
            metrics=[MetricFigures.of(metric, lookback_days=lookback_days) for metric in source.metrics],
            breakdown=ResultBreakdown.of(breakdown, lookback_days=lookback_days, keys=keys) if breakdown else None,
        )
