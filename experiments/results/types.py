"""What the results of an experiment consist of. `computing` computes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from config.documents import Document
from experiments.design.phases import integer_if_whole
from experiments.metrics.definition import Definition
from experiments.models import Experiment
from experiments.results.classification import AssignmentAudit
from experiments.stats.types import Comparison, Estimate, Interval, Reason, SampleRatio, VariantEstimate, Verdict

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
class DayFigures:
    """One metric of one variant for the users exposed by the end of a day, in UTC.

    `difference` is the difference from the control; None for the control itself.
    """

    day: date
    users: int
    value: float | None
    interval: Interval | None
    difference: Estimate | Reason | None


@dataclass(frozen=True, slots=True)
class VariantFigures:
    """One metric of one variant. `estimate` comes from the statistics; the other fields are plain counts.

    `mature_users` are users whose whole window has passed; None in a slice, which does not count them. `events` have
    the metric's name and came since the exposures. `other_currency_events` are amounts in the window in another
    currency. `series` is empty unless it was requested.
    """

    estimate: VariantEstimate
    users: int
    mature_users: int | None
    events: int
    other_currency_events: int
    series: Sequence[DayFigures] = ()

    @property
    def key(self) -> str:
        return self.estimate.key

    @property
    def immature_users(self) -> int | None:
        return None if self.mature_users is None else self.users - self.mature_users

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
    def comparison(self) -> Comparison | None:
        return self.estimate.comparison


@dataclass(frozen=True, slots=True)
class MetricFigures:
    """One metric in all variants, in the order of the experiment. `cap` is the cap in force, if any."""

    definition: Definition
    metric_index: int
    is_primary: bool
    cap: float | None
    variants: Sequence[VariantFigures]

    @property
    def key(self) -> str:
        return self.definition.key


@dataclass(frozen=True, slots=True)
class Guards:
    """What makes the figures less reliable.

    `events_before_exposure` are those of the metrics' names, by exposed users, from the start until their exposure.
    These and the audit of the assignments take seconds to compute. They are None unless they were requested.
    """

    sample_ratio: SampleRatio | Reason
    users_in_several_variants: int
    events_of_unknown_variants: int
    events_before_exposure: int | None = None
    assignments: AssignmentAudit | None = None

    @property
    def unexpected_variants(self) -> int | None:
        return None if self.assignments is None else self.assignments.alarming


@dataclass(frozen=True, slots=True)
class Slice:
    """The figures of the users with one value of an attribute; with `is_rest`, of those with any other."""

    value: AttributeValue
    is_rest: bool
    users: int
    metrics: Sequence[MetricFigures]


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The figures by the values of one attribute: the value with the most users first, the rest last.

    P-values are adjusted over all values, goals and treatments together.
    """

    attribute: str
    values: Sequence[Slice]


@dataclass(frozen=True, slots=True)
class Results:
    """The results of an experiment at `as_of`, from the users of the covered phases.

    A draft has results without users. If one metric was requested, `metrics` has that one alone; the verdict and the
    adjusted p-values still rest on all of them. `harmed` has the keys of guardrails by treatment.
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
    breakdown: Breakdown | None = None
    phases: Sequence[PhaseFigures] = ()

    @property
    def users(self) -> int:
        return sum(variant.users for variant in self.variants)
