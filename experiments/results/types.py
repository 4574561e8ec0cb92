"""What the results of an experiment consist of. `analyse` computes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal

from config.documents import Document
from experiments.metrics.definition import Definition
from experiments.models import Experiment
from experiments.models.phases import integer_if_whole
from experiments.results.classification import AssignmentAudit
from experiments.results.large_values import LargeValue
from experiments.results.unexposed import Unexposed
from experiments.stats.outcomes import SampleRatio, Verdict
from experiments.stats.types import Comparison, Estimate, Interval, Plan, Reason, VariantEstimate

_NO_PLAN = Plan()

Maturity = Literal["mature", "all"]
"""Which users count for a metric with a window: those whose window has passed, or all."""

AttributeValue = str | bool | float | None
"""The value of one attribute of a user; None if none was recorded."""


@dataclass(frozen=True, slots=True)
class VariantUsers:
    """A variant, the number of users exposed to it, and the number that the weights predict."""

    key: str
    weight: float
    users: int
    expected_users: float


@dataclass(frozen=True, slots=True)
class PhaseFigures:
    """A phase as stored, and its users. `is_covered` says whether the results include them."""

    number: int
    configuration: Document
    variants: Sequence[VariantUsers]
    sample_ratio: SampleRatio | Reason
    is_covered: bool

    @property
    def users(self) -> int:
        return sum(variant.users for variant in self.variants)

    @property
    def started_at(self) -> str:
        return str(self.configuration["startedAt"])

    @property
    def percentage(self) -> float:
        return integer_if_whole(self.configuration["percentage"])

    @property
    def conditions(self) -> list[Document]:
        return list(self.configuration["conditions"])

    @property
    def reason(self) -> str:
        return str(self.configuration["reason"])


@dataclass(frozen=True, slots=True)
class Waiting:
    """The users who do not count for a metric yet, because its window is still open for them.

    At about `half_mature_at`, half of them will count.
    """

    users: int
    half_mature_at: datetime


@dataclass(frozen=True, slots=True)
class FunnelStep:
    """The users of one variant who passed a step of a funnel and all steps before it, in order."""

    event: str
    users: int
    share: float | None


@dataclass(frozen=True, slots=True)
class DayFigures:
    """One metric of one variant as it was at the end of a day, in UTC.

    `users` were exposed by then, and `counted_users` count for the metric. `difference` and `lift` compare with the
    control; they are None for the control itself.
    """

    day: date
    users: int
    counted_users: int
    value: float | None
    interval: Interval | None
    difference: Estimate | Reason | None
    lift: Estimate | Reason | None


@dataclass(frozen=True, slots=True)
class AgeFigures:
    """One metric of one variant by what its users did on one day since their exposure; the first is day 0.

    Only the users whose day is over count.
    """

    day: int
    users: int
    value: float | None
    interval: Interval | None
    difference: Estimate | Reason | None
    lift: Estimate | Reason | None


@dataclass(frozen=True, slots=True)
class VariantFigures:
    """One metric of one variant. `estimate` comes from the statistics; the other fields are plain counts.

    `users` are all exposed users. `mature_users` are those whose whole window has passed. `waiting` are the others
    while their windows can still end, and `cut_off_users` those whose windows the stop cut off. `events` have the
    metric's name and came since the exposures. `other_currency_events` are amounts in the window in another currency.
    `events_without_number` have a value of another type, such as a text, in place of the number that the metric adds.
    The largest value makes up `least_share` of the sum, or more.
    `before` compares the same metric before the exposure with the control. `steps` belong to funnels alone. `series`
    and `ages` are empty unless they were requested.
    """

    estimate: VariantEstimate
    users: int
    mature_users: int
    events: int
    other_currency_events: int
    events_without_number: int = 0
    least_share: float = 0.0
    waiting: Waiting | None = None
    cut_off_users: int = 0
    before: Estimate | Reason | None = None
    steps: Sequence[FunnelStep] = ()
    series: Sequence[DayFigures] = ()
    ages: Sequence[AgeFigures] = ()

    @property
    def key(self) -> str:
        return self.estimate.key

    @property
    def counted_users(self) -> int:
        """Return the users that value, interval and comparison rest on."""
        return self.estimate.n

    @property
    def immature_users(self) -> int:
        return self.users - self.mature_users

    @property
    def value(self) -> float | None:
        return self.estimate.value

    @property
    def interval(self) -> Interval | None:
        return self.estimate.interval

    @property
    def reason(self) -> Reason | None:
        return self.estimate.reason

    @property
    def raw(self) -> VariantEstimate | None:
        """Return the same without adjustment by CUPED, or None if the figures are not adjusted."""
        return self.estimate.raw

    @property
    def comparison(self) -> Comparison | None:
        return self.estimate.comparison


@dataclass(frozen=True, slots=True)
class MetricFigures:
    """One metric in all variants, in the order of the experiment. `cap` is the cap in force, if any.

    `never_received` has the names of its events that the environment has never received.
    """

    definition: Definition
    metric_index: int
    is_primary: bool
    cap: float | None
    variants: Sequence[VariantFigures]
    never_received: Sequence[str] = ()

    @property
    def key(self) -> str:
        return self.definition.key


@dataclass(frozen=True, slots=True)
class DifferentBefore:
    """A metric that differed between a treatment and the control before the users were exposed."""

    metric: str
    variant: str
    difference: Estimate


@dataclass(frozen=True, slots=True)
class DataAudit:
    """What takes seconds to find out about the data of an experiment.

    `events_before_exposure` are those of the metrics' names, by exposed users, from the start until their exposure.
    `similar_ids` are exposed users with the id of another one, but for blanks and case. `unexposed` is None where the
    results were frozen by a version that did not store it.
    """

    events_before_exposure: int
    assignments: AssignmentAudit
    unexposed: Unexposed | None
    similar_ids: int = 0
    large_values: Sequence[LargeValue] = ()


@dataclass(frozen=True, slots=True)
class Guards:
    """What makes the figures less reliable.

    The audit is None unless it was requested. `flag_off_since` is None unless the driven flag is off, or was off at the
    stop.
    """

    sample_ratio: SampleRatio | Reason
    users_in_several_variants: int
    events_of_unknown_variants: int
    doubted_reports: int = 0
    audit: DataAudit | None = None
    different_before: Sequence[DifferentBefore] = ()
    flag_off_since: datetime | None = None

    @property
    def assignments(self) -> AssignmentAudit | None:
        return self.audit.assignments if self.audit else None


@dataclass(frozen=True, slots=True)
class ReachedLift:
    """The lift of the primary metric in a treatment, with the interval that decides. A bound may not exist."""

    variant: str
    estimate: float
    lower: float | None
    upper: float | None
    level: float


@dataclass(frozen=True, slots=True)
class ReachedVerdict:
    """A verdict to ship `variant`, or nothing (None), with the lifts when it was reached, and when it ended.

    While it stands, `ended_at` is None. The lifts are those of the variant, or without one of all treatments.
    """

    decision: str
    variant: str | None
    metric: str | None
    reached_at: datetime
    lifts: tuple[ReachedLift, ...]
    ended_at: datetime | None = None
    lifts_at_end: tuple[ReachedLift, ...] = ()


@dataclass(frozen=True, slots=True)
class Slice:
    """The figures of the users with one value of an attribute; with `is_rest`, of those with any other."""

    value: AttributeValue
    is_rest: bool
    users: int
    metrics: Sequence[MetricFigures]


@dataclass(frozen=True, slots=True)
class Interaction:
    """Whether the lift of a metric in one treatment differs between the values of an attribute."""

    metric_index: int
    variant: str
    p_value: float | Reason


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The figures by the values of one attribute: the value with the most users first, the rest last.

    The tests are corrected over all values, goals and treatments together. `as_of` is the moment of the figures: that
    of the results, or of the one reading of a fixed analysis. Where the events of that time may be gone, it is the
    stop. It is None for a draft.
    """

    attribute: str
    values: Sequence[Slice]
    interactions: Sequence[Interaction] = ()
    as_of: datetime | None = None


@dataclass(frozen=True, slots=True)
class Results:
    """The results of an experiment at `as_of`, from the users of the covered phases.

    A draft has results without users. If one metric was requested, `metrics` has that one alone; the verdict and the
    corrections still rest on all of them. `harmed` has the keys of guardrails by treatment. `plan` is what was
    registered at the start. `read_at` is the moment of the one reading of a fixed analysis, once there was one. Until
    `open_until`, late data still change it. `verdicts` are those that were reached, the oldest first.
    """

    experiment: Experiment
    as_of: datetime
    control: str
    correction: str
    variants: Sequence[VariantUsers]
    metrics: Sequence[MetricFigures]
    guards: Guards
    verdict: Verdict
    harmed: Mapping[str, Sequence[str]]
    primary: str | None
    plan: Plan = _NO_PLAN
    maturity: Maturity = "mature"
    read_at: datetime | None = None
    open_until: datetime | None = None
    breakdown: Breakdown | None = None
    phases: Sequence[PhaseFigures] = ()
    verdicts: Sequence[ReachedVerdict] = ()

    @property
    def users(self) -> int:
        return sum(variant.users for variant in self.variants)

    @property
    def primary_metric(self) -> MetricFigures | None:
        """The figures of the primary metric, if they were asked for."""
        return next((metric for metric in self.metrics if metric.is_primary), None)

    @property
    def planned_users(self) -> int:
        """Return the users whom the planned size counts: those who count for the primary metric, if there is one."""
        primary = self.primary_metric
        return sum(variant.counted_users for variant in primary.variants) if primary else self.users

    def user_of(self, definition: Definition | None) -> str:
        """Return the noun for one user who counts for a metric."""
        counts_mature_users = definition is not None and definition.counts_mature_users
        return "mature user" if counts_mature_users and self.maturity == "mature" else "user"
