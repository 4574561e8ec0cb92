"""The comparison of a treatment with the control, as JSON. A missing figure is null, with its reason."""

from __future__ import annotations

from typing import Annotated, Any, Self, get_args

from msgspec import UNSET, Meta, UnsetType

from config.api.structs import Answer, Count, Moment, Share, described, one_of
from experiments.stats import types as stats

_SINGLE_LOOK = ("chanceToBeatControl", "expectedLoss", "difference", "lift")
_TESTS = ("alwaysValid", "fixedHorizon")


class Reason(Answer):
    """Why a figure is missing, or why the verdict is what it is."""

    code: Annotated[str, one_of(stats.ReasonCode)]
    message: Annotated[str, described("A sentence for people.")]


class MissingFigure(Reason):
    """Why a property of an object is null."""

    field: Annotated[str, one_of(["cuped", *_SINGLE_LOOK])]


class ConfidenceInterval(Answer):
    """The 95 % interval of one variant's own value.

    It is Wilson's for shares, and Student's t for means and ratios. Shares that are adjusted, or combined from
    phases with other weights, have a normal interval.
    """

    lower: float
    upper: float


class TestResult(Answer):
    """The interval and the p-value of one two-sided test.

    The interval excludes 0 exactly where the p-value is below 0.05.
    """

    lower: Annotated[float | None, described("Null if the interval has no bound on this side.")]
    upper: Annotated[float | None, described("Null if the interval has no bound on this side.")]
    p_value: Annotated[Share, described("Adjusted by the correction, where the row is corrected.")]
    level: Annotated[
        float,
        Meta(ge=0, le=1),
        described("The confidence of the interval: 0.95, or more where the correction for several tests demands it."),
    ]
    reason: Annotated[Reason | None, described("Why the interval has no bound on a side.")]

    @classmethod
    def of(cls, source: stats.Test, **others: Any) -> Self:
        return super().of(source, reason=source.open, **others)


class EffectEstimate(Answer, kw_only=True):
    """How a treatment differs from the control."""

    estimate: float | None
    standard_error: Annotated[
        float | None, described("Null for a lift, whose interval is not the same width on both sides.")
    ]
    always_valid: Annotated[TestResult | None, described("It holds for any number of looks.")]
    fixed_horizon: Annotated[
        TestResult | UnsetType,
        described("With a fixed analysis, once it is read: the test of the one planned look, which decides."),
    ] = UNSET
    today: Annotated[
        float | UnsetType,
        described("Today's estimate, where `estimate` and `alwaysValid` are those of `plannedReading`."),
    ] = UNSET
    reason: Annotated[Reason | None, described("Why the other properties are null.")]

    @classmethod
    def of(cls, source: stats.Estimate | stats.Reason, **others: Any) -> Self:
        if isinstance(source, stats.Reason):
            return super().of(None, estimate=None, standard_error=None, always_valid=None, reason=source)
        is_fixed = others.pop("is_fixed", False)
        fixed = TestResult.of(source.fixed_horizon) if is_fixed else None
        today = UNSET if source.today is None else source.today
        return super().of(source, fixed_horizon=fixed, today=today, reason=None, **others)


class SingleLook(Answer):
    """What holds for one look alone, at a moment that was chosen beforehand. Do not stop because of it."""

    chance_to_beat_control: Annotated[
        Share | None, described("The probability that the treatment is better, in the metric's direction.")
    ]
    expected_loss: Annotated[
        float | None, described("What choosing the treatment loses on average, in units of the metric.")
    ]
    difference: Annotated[TestResult | None, described("The fixed-horizon test, not corrected for other tests.")]
    lift: Annotated[TestResult | None, described("The same test, as a share of the control's value.")]
    reasons: Annotated[list[MissingFigure], described("Why properties are null.")]

    @classmethod
    def of(cls, source: stats.SingleLook, **others: Any) -> Self:
        figures = (source.chance_to_beat, source.expected_loss, source.difference, source.lift)
        chance, loss, difference, lift = (None if isinstance(figure, stats.Reason) else figure for figure in figures)
        missing = zip(_SINGLE_LOOK, figures, strict=True)
        return super().of(
            None,
            chance_to_beat_control=chance,
            expected_loss=loss,
            difference=difference,
            lift=lift,
            reasons=[MissingFigure.of(figure, field=name) for name, figure in missing if _is_missing(figure)],
        )


def _is_missing(figure: object) -> bool:
    return isinstance(figure, stats.Reason)


class Margin(Answer):
    """How much worse than the control a treatment may be in a guardrail."""

    relative: Annotated[float | None, described("As a share of the control's value. Null if that is not known.")]
    absolute: Annotated[float | None, described("In units of the metric. Null if the control's value is not known.")]


class GuardrailFinding(Answer):
    """Whether a guardrail is shown to be no worse than its margin."""

    status: Annotated[
        str,
        one_of(get_args(stats.GuardrailStatus)),
        described(
            "`safe`: the whole interval is better than the margin. `harmed`: it is not safe, and the whole interval "
            "is worse than the control. `silent`: there was no event in either variant. Otherwise, and where values "
            "that are all the same leave nothing to test in fewer than 100 users of a variant, `undecided`."
        ),
    ]
    margin: Margin
    users_needed: Annotated[
        Count | None,
        described(
            "For an undecided guardrail: the further users, in control and treatment together, after which it would "
            "be safe if there were no difference. Null if that cannot be computed."
        ),
    ]


class CupedFigures(Answer):
    """How the values are adjusted for what the users did before their exposure."""

    theta: Annotated[float, described("How much one unit of the metric before the exposure predicts afterwards.")]
    variance_reduction: Annotated[Share, described("The share of the variance that history explains.")]
    lookback_days: Annotated[Count, described("How many days before the exposure count as history.")]


class RawFigures(Answer, kw_only=True):
    """The figures of a variant without the adjustment by CUPED, at the level 0.95."""

    value: float | None
    interval: ConfidenceInterval | None
    reason: Annotated[Reason | None, described("Why value or interval is null.")]
    difference: Annotated[EffectEstimate | UnsetType, described("Left out for the control.")] = UNSET
    lift: Annotated[EffectEstimate | UnsetType, described("Left out for the control.")] = UNSET

    @classmethod
    def of(cls, source: stats.VariantEstimate, **others: Any) -> Self:
        comparison = source.comparison
        if comparison is not None:
            others |= {"difference": comparison.difference, "lift": comparison.lift}
        return super().of(source, **others)


class ComparedControl(Answer, kw_only=True):
    """The control in the phases of one comparison alone.

    It differs from the control's own figures where treatments are compared over other phases.
    """

    users: Annotated[Count, described("The users of the control who count, in these phases.")]
    value: float | None
    interval: ConfidenceInterval | None
    reason: Annotated[Reason | None, described("Why value or interval is null.")]

    @classmethod
    def of(cls, source: stats.VariantEstimate, **others: Any) -> Self:
        return super().of(source, users=source.n, **others)


class ComparisonBasis(Answer, kw_only=True):
    """The phases and users that a comparison rests on: value, difference and lift all come from these."""

    phases: Annotated[
        list[Count],
        described(
            "The phases in which both variants are compared. If weights have changed, phases in which one of them has "
            "fewer than 2 users that count are left out."
        ),
    ]
    users: Annotated[Count, described("The users of the treatment who count, in these phases.")]
    control: ComparedControl


class PlannedReading(Answer):
    """The reading of a sequential analysis at its planned size, which goes on to count beside the figures of today.

    There is a difference if either of them shows one, and the interval is what both contain.
    """

    as_of: Annotated[Moment, described("The second in which the last planned user became mature.")]
    users: Annotated[Count, described("The users of the treatment and the control who counted then.")]
    is_shown: Annotated[bool, described("Whether the estimates are those of this reading. `today` is beside them.")]
    is_contradicted: Annotated[
        bool,
        described("Whether the interval of today has nothing in common with that of then, which then holds alone."),
    ]

    @classmethod
    def of(cls, source: stats.Kept, **others: Any) -> Self:
        return super().of(source, as_of=source.instant)


class Comparison(Answer, kw_only=True):
    """A treatment compared with the control. All but `singleLook` comes from one test."""

    basis: ComparisonBasis
    difference: Annotated[
        EffectEstimate, described("The treatment's value minus the control's, in units of the metric.")
    ]
    lift: Annotated[EffectEstimate, described("The difference as a share of the control's value: 0.1 is 10 % more.")]
    label: Annotated[
        str,
        one_of(get_args(stats.Label)),
        described(
            "What the deciding test shows, in the metric's direction. It is `unread` in a fixed analysis that has not "
            "had its one reading."
        ),
    ]
    decided_by: Annotated[
        Annotated[str, one_of(_TESTS)] | None,
        described(
            "The test that label and verdict rest on: `fixedHorizon` once a fixed analysis is read, and null before."
        ),
    ]
    unadjusted_p_value: Annotated[
        Share | None, described("The p-value of the deciding test before the correction for several tests.")
    ]
    family_size: Annotated[
        Count | None,
        described(
            "The number of tests that the row is corrected for, itself included. Null for guardrails, for metrics "
            "that were added after the start, and where nothing can be tested."
        ),
    ]
    planned_reading: Annotated[
        PlannedReading | None,
        described(
            "Null before the planned size, and where no boundary follows from a plan: see the guide's page about "
            "statistics."
        ),
    ]
    guardrail: Annotated[GuardrailFinding | None, described("Null for goals.")]
    cuped: CupedFigures | None
    before_exposure: Annotated[
        EffectEstimate,
        described("The difference in the same metric before the exposure, when no variant could have an effect."),
    ]
    single_look: SingleLook
    reasons: Annotated[list[MissingFigure], described("Why some properties are null. An estimate has its own reason.")]

    @classmethod
    def of(cls, source: stats.Comparison, **others: Any) -> Self:
        lookback_days, before = others["lookback_days"], others["before"]
        effects = {
            name: EffectEstimate.of(estimate, is_fixed=source.is_fixed)
            for name, estimate in (("difference", source.difference), ("lift", source.lift))
        }
        is_adjusted = isinstance(source.cuped, stats.Cuped)
        return super().of(
            source,
            **effects,
            decided_by=None if source.label == "unread" else "fixedHorizon" if source.is_fixed else "alwaysValid",
            unadjusted_p_value=source.unadjusted_p,
            family_size=source.family,
            planned_reading=source.kept and PlannedReading.of(source.kept),
            cuped=CupedFigures.of(source.cuped, lookback_days=lookback_days) if is_adjusted else None,
            before_exposure=before,
            reasons=[] if is_adjusted else [MissingFigure.of(source.cuped, field="cuped")],
        )
