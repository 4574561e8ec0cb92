"""The input of the statistics (sums over users) and their output (estimates, or the reasons why there are none).

Every number in these types is finite. A `Reason` takes the place of a number that cannot be computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Kind = Literal["share", "mean", "ratio"]
Correction = Literal["holm", "benjamini-hochberg"]

TUNING_SIZE = 5_000
"""The default N*: the number of users at which always-valid intervals are narrowest."""


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over the exposed users of one variant. Users without an event count too, with zeros.

    For each user, `y` is the value of the measure (for a ratio, its numerator) and `d` is the
    denominator of a ratio. `x` is the value that `y` had before the exposure. A doubled letter is a
    sum of squares or products: `yd` is Σ y·d. `n` is the number of users, and `positive` the number
    of users with y > 0.
    """

    n: int = 0
    positive: int = 0
    y: float = 0.0
    yy: float = 0.0
    d: float = 0.0
    dd: float = 0.0
    yd: float = 0.0
    x: float = 0.0
    xx: float = 0.0
    xy: float = 0.0


@dataclass(frozen=True, slots=True)
class Measure:
    """A metric as the statistics see it.

    `kind` is "share" (y is 0 or 1), "mean" (of y over users) or "ratio" (Σy / Σd). `is_post_hoc`
    marks a metric that was added after the start, when there was already something to see. Such a
    metric decides nothing, and the p-values of other metrics are not adjusted for it.
    """

    key: str
    kind: Kind
    is_decrease_good: bool = False
    is_guardrail: bool = False
    is_post_hoc: bool = False

    @property
    def is_registered_goal(self) -> bool:
        """Whether the metric was registered before the start as one that should improve."""
        return not self.is_guardrail and not self.is_post_hoc


@dataclass(frozen=True, slots=True)
class Weight:
    """A variant and its share of users, in any unit: only the ratio of weights matters."""

    key: str
    weight: float


@dataclass(frozen=True, slots=True)
class Design:
    """The variants of an experiment and the settings of its tests.

    `tuning_size` is the number of users, in the two compared variants together, at which
    always-valid intervals are narrowest.
    """

    variants: Sequence[Weight]
    control: str
    is_running: bool
    tuning_size: int = 5000
    alpha: float = 0.05
    correction: Correction = "holm"


@dataclass(frozen=True, slots=True)
class Split:
    """The users of one phase by variant key, and the weights by which they were assigned."""

    variants: Sequence[Weight]
    users: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything that an analysis reads.

    `sums` has one mapping for each measure, in the same order, with the sums by variant key. `users`
    are the exposed users by variant key. A variant that is missing from either has no users.
    `several` is the number of users who were seen in several variants.

    `splits` are the users of each phase. It is empty where there is one phase with the design's
    weights. `is_mixed` says that the phases have different weights, so that a difference between
    their times looks like an effect.
    """

    design: Design
    measures: Sequence[Measure]
    sums: Sequence[Mapping[str, Sums]]
    users: Mapping[str, int]
    several: int = 0
    splits: Sequence[Split] = ()
    is_mixed: bool = False


class ReasonCode(StrEnum):
    """Why a number is missing, or what a verdict is based on."""

    TOO_FEW_USERS = "too_few_users"
    TOO_FEW_CONVERSIONS = "too_few_conversions"
    NO_VARIANCE = "no_variance"
    NO_DENOMINATOR = "no_denominator"
    NO_HISTORY = "no_history"
    NOT_FOR_RATIOS = "not_for_ratios"
    CONTROL_IS_ZERO = "control_is_zero"
    OUT_OF_RANGE = "out_of_range"
    NOT_STARTED = "not_started"
    NO_GOAL = "no_goal"
    SAMPLE_RATIO_MISMATCH = "sample_ratio_mismatch"
    MIXED_PHASES = "mixed_phases"
    USERS_IN_SEVERAL_VARIANTS = "users_in_several_variants"
    BETTER = "better"
    WORSE = "worse"
    NOT_SIGNIFICANT = "not_significant"
    GUARDRAIL_HARMED = "guardrail_harmed"
    GUARDRAIL_UNKNOWN = "guardrail_unknown"


@dataclass(frozen=True, slots=True)
class Reason:
    """A code for programs and a `message` for people, which is a whole sentence."""

    code: ReasonCode
    message: str


@dataclass(frozen=True, slots=True)
class Interval:
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class Test:
    """The interval and the p-value of one two-sided test.

    The interval excludes 0 exactly where the p-value is below alpha.
    """

    lower: float
    upper: float
    p_value: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate with its standard error and two tests.

    `always_valid` holds at every look. `fixed_horizon` holds only for a single look, at a moment
    that was chosen beforehand.
    """

    estimate: float
    standard_error: float
    always_valid: Test
    fixed_horizon: Test


@dataclass(frozen=True, slots=True)
class Cuped:
    """A comparison that is adjusted for what the users did before their exposure.

    `theta` and `variance_reduction` (0 to 1) are computed over all variants together. `value` is the
    adjusted mean of the treatment.
    """

    theta: float
    variance_reduction: float
    value: float
    difference: Estimate
    lift: Estimate | Reason


@dataclass(frozen=True, slots=True)
class Comparison:
    """A treatment compared with the control.

    `difference` is in units of the measure. `lift` is the difference as a share of the control's
    value: 0.1 is 10 % more. `chance_to_beat` (0 to 1) is the probability that the treatment is
    better, in the direction that is good. `expected_loss` is the average cost of choosing the
    treatment, in units of the measure. `adjusted_p` is the always-valid p-value of the difference,
    adjusted for all goals and treatments. It is None for guardrails, for post-hoc metrics, and where
    there is no difference.
    """

    difference: Estimate | Reason
    lift: Estimate | Reason
    chance_to_beat: float | Reason
    expected_loss: float | Reason
    cuped: Cuped | Reason
    adjusted_p: float | None = None


@dataclass(frozen=True, slots=True)
class VariantEstimate:
    """One measure in one variant of `n` users.

    Where `value` or `interval` is None, `reason` says why. `comparison` is None for the control.
    """

    key: str
    n: int
    value: float | None
    interval: Interval | None
    reason: Reason | None
    comparison: Comparison | None


@dataclass(frozen=True, slots=True)
class MeasureAnalysis:
    """One measure in every variant; the variants are in the order of the design."""

    key: str
    variants: Sequence[VariantEstimate]


@dataclass(frozen=True, slots=True)
class SampleRatio:
    """The check for a sample ratio mismatch (SRM).

    `expected` are the users by variant key that the weights lead one to expect.
    """

    expected: Mapping[str, float]
    chi_square_p: float
    always_valid_p: float
    is_mismatch: bool


class Decision(StrEnum):
    SHIP = "ship"
    DO_NOT_SHIP = "do_not_ship"
    KEEP_RUNNING = "keep_running"
    INCONCLUSIVE = "inconclusive"
    CHECK_DATA = "check_data"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`variant` is the one to ship, and None for every other decision."""

    decision: Decision
    variant: str | None
    reasons: Sequence[Reason]


@dataclass(frozen=True, slots=True)
class Analysis:
    """The results of one analysis.

    `measures` are in the order of the inputs. `harmed` has, for each treatment, the keys of the
    guardrails that it harms.
    """

    measures: Sequence[MeasureAnalysis]
    sample_ratio: SampleRatio | Reason
    harmed: Mapping[str, Sequence[str]]
    verdict: Verdict
