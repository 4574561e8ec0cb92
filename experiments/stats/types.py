"""The input of the statistics (sums over users) and their output (estimates, or reasons why there are none).

Every number is finite. A `Reason` takes the place of a number that cannot be computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

Kind = Literal["share", "mean", "ratio", "quantile"]
Correction = Literal["holm", "benjamini-hochberg"]
Procedure = Literal["sequential", "fixed"]
Label = Literal["better", "worse", "unclear", "unread"]
GuardrailStatus = Literal["safe", "harmed", "undecided", "silent"]

TUNING_SIZE = 5_000
"""The default N*: the number of users at which always-valid intervals are narrowest."""


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over the users of one variant. Users without an event count too, with zeros.

    For each user, `y` is the value of the measure (for a ratio, its numerator) and `d` is the
    denominator of a ratio. `x` and `e` are the values that `y` and `d` had before the exposure. Two
    letters are a sum of squares or products: `yd` is Σ y·d. `n` is the number of users, and
    `nonzero` the number of users with y or d other than 0.
    """

    n: int = 0
    nonzero: int = 0
    y: float = 0.0
    yy: float = 0.0
    d: float = 0.0
    dd: float = 0.0
    yd: float = 0.0
    x: float = 0.0
    xx: float = 0.0
    xy: float = 0.0
    e: float = 0.0
    ee: float = 0.0
    xe: float = 0.0
    ye: float = 0.0
    dx: float = 0.0
    de: float = 0.0


@dataclass(frozen=True, slots=True)
class Quantile:
    """A quantile of `events` of `n` users. `squared_error` is 0 if it cannot be estimated.

    If it is not `is_known`, there is no value, even if there were events.
    """

    n: int = 0
    events: int = 0
    value: float = 0.0
    squared_error: float = 0.0
    is_known: bool = True


@dataclass(frozen=True, slots=True)
class Margin:
    """How much worse than the control a treatment may be in a guardrail.

    `relative` is a share of the control's value, and `absolute` an amount in units of the measure.
    """

    relative: float | None = None
    absolute: float | None = None


@dataclass(frozen=True, slots=True)
class Measure:
    """A metric as the statistics see it.

    `kind` is "share" (y is 0 or 1), "mean" (of y over users), "ratio" (Σy / Σd) or "quantile". `is_post_hoc` marks a
    metric that was added after the start, when there was already something to see. It decides nothing, and the p-values
    of other metrics are not adjusted for it. `margin` is that of a guardrail; None stands for 10 %. `is_non_negative`
    rules out values below 0. With `counts_mature_users`, the sums leave out users whose window is open.
    """

    key: str
    kind: Kind
    is_decrease_good: bool = False
    is_guardrail: bool = False
    is_post_hoc: bool = False
    margin: Margin | None = None
    is_non_negative: bool = False
    counts_mature_users: bool = False
    quantile: float = 0.5
    """The share of events below a quantile."""
    events: int = 0
    """The number of events of a metric; of a ratio, those of its numerator."""
    texts: int = 0
    """The number of events that have a text, or another value that is no number, in place of their number."""

    @property
    def rarer_side(self) -> float:
        """The share of events on that side of a quantile which has fewer."""
        return min(self.quantile, 1 - self.quantile)

    @property
    def user(self) -> str:
        """The noun for one user who counts."""
        return "mature user" if self.counts_mature_users else "user"

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
class Plan:
    """What was registered at the start.

    `size` is the planned number of users in all variants together, and `minimum_effect` the smallest lift of interest.
    The "fixed" analysis reads the results once, when every variant has its planned users; `is_read` says that these are
    those results. `remaining` is the time until the shortest run is over, or 0 or less. `variants` have the weights of
    the start; if they are empty, the design's weights hold. `sets_boundary` is False where only a part of the users is
    tested, or others are compared than was planned: the always-valid boundary is then that of the mixture.
    """

    size: int | None = None
    minimum_effect: float | None = None
    analysis: Procedure = "sequential"
    remaining: timedelta = timedelta(0)
    variants: Sequence[Weight] = ()
    is_read: bool = False
    sets_boundary: bool = True


@dataclass(frozen=True, slots=True)
class FlagOff:
    """The flag that shows users their variants has been off since a time. `until` is the time of the results."""

    key: str
    since: datetime
    until: datetime

    @property
    def duration(self) -> timedelta:
        return self.until - self.since


@dataclass(frozen=True, slots=True)
class Design:
    """The variants of an experiment and the settings of its tests.

    `tuning_size` is the number of users, in both compared variants together, at which always-valid intervals are
    narrowest. `is_adjusted` says that CUPED was registered, so that adjusted values decide. `flag_off` is None if the
    flag is on, or if there is none.
    """

    variants: Sequence[Weight]
    control: str
    is_running: bool
    tuning_size: int = 5000
    alpha: float = 0.05
    correction: Correction = "holm"
    plan: Plan = Plan()
    is_adjusted: bool = False
    flag_off: FlagOff | None = None


@dataclass(frozen=True, slots=True)
class Split:
    """The users of one phase by variant key, and the weights by which they were assigned."""

    variants: Sequence[Weight]
    users: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Stratum:
    """The users who were assigned by the same weights: all exposed users, by variant key.

    `sums` has a mapping for each measure, by variant key. It may have fewer users: those who are mature for the
    measure. A variant that is missing has no users. `phases` are the numbers of the phases with these weights.
    """

    variants: Sequence[Weight]
    users: Mapping[str, int]
    sums: Sequence[Mapping[str, Sums | Quantile]]
    phases: Sequence[int] = ()


def name_phases(phases: Sequence[int]) -> str:
    """Return `phase 2`, or `phases 1, 2 and 4`."""
    *others, last = map(str, phases)
    return f"phases {', '.join(others)} and {last}" if others else f"phase {last}"


@dataclass(frozen=True, slots=True)
class KeptReading:
    """The sums of a measure as of the second in which a treatment and the control had their planned users.

    `strata` have the sums of this measure alone.
    """

    instant: datetime
    strata: Sequence[Stratum]


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything that an analysis reads.

    `strata` has a stratum for each split of weights, and at least one. `users` are all exposed users by variant key,
    and `in_several_variants` of them were seen in several variants. `splits` are the users of each phase; if it is
    empty, those of the strata are checked. `kept` has the readings at the planned size by the index of the measure and
    the key of the treatment, for those that are past it.
    """

    design: Design
    measures: Sequence[Measure]
    strata: Sequence[Stratum]
    users: Mapping[str, int]
    in_several_variants: int = 0
    splits: Sequence[Split] = ()
    kept: Mapping[tuple[int, str], KeptReading] = field(default_factory=dict)


class ReasonCode(StrEnum):
    """Why a number is missing, or what a verdict is based on."""

    TOO_FEW_USERS = "too_few_users"
    TOO_FEW_CONVERSIONS = "too_few_conversions"
    NO_VARIANCE = "no_variance"
    NO_DENOMINATOR = "no_denominator"
    NO_EVENTS = "no_events"
    NO_HISTORY = "no_history"
    NOT_REGISTERED = "not_registered"
    NOT_FOR_QUANTILES = "not_for_quantiles"
    QUANTILE_NOT_STORED = "quantile_not_stored"
    CONTROL_IS_ZERO = "control_is_zero"
    OPEN_INTERVAL = "open_interval"
    OUT_OF_RANGE = "out_of_range"
    NOT_STARTED = "not_started"
    NO_GOAL = "no_goal"
    SAMPLE_RATIO_MISMATCH = "sample_ratio_mismatch"
    SAMPLE_RATIO_SUSPICIOUS = "sample_ratio_suspicious"
    USERS_IN_SEVERAL_VARIANTS = "users_in_several_variants"
    FLAG_OFF = "flag_off"
    DIFFERENT_BEFORE = "different_before"
    STRATUM_LEFT_OUT = "stratum_left_out"
    BETTER = "better"
    WORSE = "worse"
    NOT_SIGNIFICANT = "not_significant"
    GUARDRAIL_HARMED = "guardrail_harmed"
    GUARDRAIL_UNDECIDED = "guardrail_undecided"
    GUARDRAIL_SILENT = "guardrail_silent"
    GOAL_WORSE = "goal_worse"
    NOT_DISTINGUISHABLE = "not_distinguishable"
    USERS_WAITING = "users_waiting"
    PLAN_NOT_REACHED = "plan_not_reached"
    NOT_NUMBERS = "not_numbers"
    SHORTEST_RUN = "shortest_run"
    PLANNED_SIZE = "planned_size"
    OTHER_VIEW = "other_view"


@dataclass(frozen=True, slots=True)
class Reason:
    """A code for programs, and a whole sentence for people."""

    code: ReasonCode
    message: str


@dataclass(frozen=True, slots=True)
class Interval:
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class Test:
    """The interval and the p-value of a two-sided test.

    `level` is the confidence of the interval: 0.95, or more if the correction for several tests demands it. `p_value`
    is adjusted by the same correction, so the interval excludes 0 exactly if the p-value is below alpha. A side without
    a bound is None, and `open` says why.
    """

    lower: float | None
    upper: float | None
    p_value: float
    level: float = 0.95
    open: Reason | None = None

    @property
    def sign(self) -> int:
        """Return 1 if the whole interval is above 0, -1 if it is below, and 0 otherwise."""
        if self.lower is not None and self.lower > 0:
            return 1
        return -1 if self.upper is not None and self.upper < 0 else 0


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate with two tests. A lift has no standard error: its tests are those of the difference.

    `always_valid` holds at every look, `fixed_horizon` only for a single look at a time that was chosen beforehand.
    `today` is today's estimate, if `estimate` and the always-valid interval are those of the planned size, which is in
    the past.
    """

    estimate: float
    standard_error: float | None
    always_valid: Test
    fixed_horizon: Test
    today: float | None = None

    @property
    def latest(self) -> float:
        """Return today's estimate."""
        return self.estimate if self.today is None else self.today


@dataclass(frozen=True, slots=True)
class Cuped:
    """How values are adjusted for history, over all variants of a group. `variance_reduction` is a share (0 to 1)."""

    theta: float
    variance_reduction: float


@dataclass(frozen=True, slots=True)
class SingleLook:
    """What holds for a single look only, at a time that was chosen beforehand.

    `chance_to_beat` (0 to 1) is the probability that the treatment is better, in the good direction. `expected_loss` is
    the average cost of choosing the treatment, in units of the measure. The tests are not corrected for other tests.
    """

    chance_to_beat: float | Reason
    expected_loss: float | Reason
    difference: Test | Reason
    lift: Test | Reason


@dataclass(frozen=True, slots=True)
class Guardrail:
    """What is known of a guardrail in a treatment.

    It is "safe" if the whole interval is better than the margin, "harmed" if it is not safe and the whole interval is
    worse than the control, "silent" if there is no event, and "undecided" otherwise. `margin` has both forms if the
    control's value is known. `users_needed` are the further users, of control and treatment together, after which it
    would be safe without a difference: 0 if there are enough, and None if that cannot be computed.
    """

    status: GuardrailStatus
    margin: Margin
    users_needed: int | None = None


@dataclass(frozen=True, slots=True)
class Basis:
    """What a comparison rests on: the strata, by index, in which both variants have at least two users.

    `phases` are the numbers of their phases, and `users` the treatment's users in them. `control` is the control in
    these strata only. The difference and the lift are from its value.
    """

    strata: Sequence[int]
    phases: Sequence[int]
    users: int
    control: VariantEstimate


@dataclass(frozen=True, slots=True)
class Kept:
    """The reading at the planned size of both variants, which is in the past.

    Label, p-value and interval are the better of it and the mixture today. `users` counted then, of both variants.
    `is_shown` says that the estimate and the interval are those of then. `is_contradicted` says that the intervals of
    then and today have nothing in common, so that the one of then alone holds.
    """

    instant: datetime
    users: int
    is_shown: bool
    is_contradicted: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """A treatment compared with the control. Everything but `single_look` comes from one test.

    `difference` is in units of the measure, and `lift` a share of the control's value: 0.1 is 10 % more. `label` says
    what their intervals show; it is "unread" in a fixed analysis before its one reading, and "unclear" while there are
    `shortages`, which say what the variants have too few of. `family` is the number of
    tests that the row is corrected for, itself included. It is None for guardrails, for post-hoc metrics, and without a
    difference. `unadjusted_p` is the p-value before this correction. With `is_fixed`, the fixed-horizon test decides in
    place of the always-valid one. `log_e_value` is the logarithm of the e-value of the always-valid mixture, not
    corrected; None without a difference. `kept` is None before the planned size, and where the plan sets no boundary.
    """

    basis: Basis
    difference: Estimate | Reason
    lift: Estimate | Reason
    label: Label
    unadjusted_p: float | None
    family: int | None
    single_look: SingleLook
    cuped: Cuped | Reason
    guardrail: Guardrail | None = None
    is_fixed: bool = False
    shortages: Sequence[Reason] = ()
    log_e_value: float | None = None
    kept: Kept | None = None

    def deciding(self, estimate: Estimate) -> Test:
        """Return the test that label and verdict rest on; the always-valid one while they wait for a reading."""
        return estimate.fixed_horizon if self.is_fixed else estimate.always_valid


@dataclass(frozen=True, slots=True)
class VariantEstimate:
    """A measure in a variant with `n` users who count.

    Value and interval come from the strata of its comparison; those of the control from the comparison with the most of
    its users. If `value` or `interval` is None, `reason` says why. `comparison` is None for the control. `raw` is the
    same without adjustment, at the level 0.95; None if values are not adjusted.
    """

    key: str
    n: int
    value: float | None
    interval: Interval | None
    reason: Reason | None
    comparison: Comparison | None
    raw: VariantEstimate | None = None
