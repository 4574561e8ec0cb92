"""The words of the statistics: what goes in (sums over users) and what comes out (estimates, or why there are none).

Every number of these is finite. Where a figure cannot be had, a `Reason` stands in its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Kind = Literal["share", "mean", "ratio"]
Correction = Literal["holm", "benjamini-hochberg"]

TUNING_SIZE = 5_000
"""N* unless an experiment sets it: the number of users at which always-valid intervals are narrowest."""


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over the exposed users of one variant; users without an event count, with zeros.

    `y` is what the measure counts of a user (a ratio's numerator), `d` a ratio's denominator, and `x` what `y` was
    before the exposure. `positive` is the number of users with y > 0.
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

    `kind`: a share of users (y is 0 or 1), a mean over users, or Σy / Σd. `is_post_hoc`: it was chosen when there was
    something to see already, and so decides nothing and weighs on no other.
    """

    key: str
    kind: Kind
    is_decrease_good: bool = False
    is_guardrail: bool = False
    is_post_hoc: bool = False

    @property
    def is_registered_goal(self) -> bool:
        """Whether it was named beforehand as what should improve."""
        return not self.is_guardrail and not self.is_post_hoc


@dataclass(frozen=True, slots=True)
class Weight:
    """A variant and the share of users that it should get, in any unit."""

    key: str
    weight: float


@dataclass(frozen=True, slots=True)
class Design:
    """`tuning_size`: the number of users of two variants at which always-valid intervals are narrowest."""

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
    """`sums`: by variant key, in the order of the measures; `users`: exposed ones by variant key.

    `several`: users who were seen in several variants. A variant that is missing in either has no users. `splits`: the
    users phase by phase; left out where there is one phase, of the design's weights. `is_mixed`: the phases have
    different weights, so that what differs between their times looks like an effect.
    """

    design: Design
    measures: Sequence[Measure]
    sums: Sequence[Mapping[str, Sums]]
    users: Mapping[str, int]
    several: int = 0
    splits: Sequence[Split] = ()
    is_mixed: bool = False


class ReasonCode(StrEnum):
    """Why there is no figure, or why the verdict is what it is."""

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
    """`message`: a sentence for people."""

    code: ReasonCode
    message: str


@dataclass(frozen=True, slots=True)
class Interval:
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class Test:
    """Interval and p-value of one two-sided test: the interval excludes 0 exactly where the p-value is below alpha."""

    lower: float
    upper: float
    p_value: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """`always_valid` holds whenever one looks; `fixed_horizon` only for one look at a moment chosen beforehand."""

    estimate: float
    standard_error: float
    always_valid: Test
    fixed_horizon: Test


@dataclass(frozen=True, slots=True)
class Cuped:
    """The comparison after what the users did before is taken out.

    `theta` and `variance_reduction` (0 to 1) are of all variants together; `value` is the adjusted mean.
    """

    theta: float
    variance_reduction: float
    value: float
    difference: Estimate
    lift: Estimate | Reason


@dataclass(frozen=True, slots=True)
class Comparison:
    """A treatment against control.

    `lift` is the difference as a share of the control's value (0.1: 10 % more). `chance_to_beat` is that of being
    better, whichever direction is good; `expected_loss` is what one loses on average by choosing the treatment, in
    units of the measure. `adjusted_p` is the always-valid p-value of the difference, corrected for all goals and
    treatments; None for guardrails and where there is no difference.
    """

    difference: Estimate | Reason
    lift: Estimate | Reason
    chance_to_beat: float | Reason
    expected_loss: float | Reason
    cuped: Cuped | Reason
    adjusted_p: float | None = None


@dataclass(frozen=True, slots=True)
class VariantEstimate:
    """`value` and `interval` are None where `reason` says why; `comparison` is None for the control itself."""

    key: str
    n: int
    value: float | None
    interval: Interval | None
    reason: Reason | None
    comparison: Comparison | None


@dataclass(frozen=True, slots=True)
class MeasureAnalysis:
    """One measure in every variant, in the order of the design."""

    key: str
    variants: Sequence[VariantEstimate]


@dataclass(frozen=True, slots=True)
class SampleRatio:
    """`expected`: users by variant key, had they been split as the weights say."""

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
    """`variant`: the one to ship; None for every other decision."""

    decision: Decision
    variant: str | None
    reasons: Sequence[Reason]


@dataclass(frozen=True, slots=True)
class Analysis:
    """`measures` in the order of the inputs; `harmed`: by treatment, the keys of the guardrails that it harms."""

    measures: Sequence[MeasureAnalysis]
    sample_ratio: SampleRatio | Reason
    harmed: Mapping[str, Sequence[str]]
    verdict: Verdict
