"""Passing the sums of an experiment to the statistics, and making figures of what they return. Reads no database.

Only functions import the statistics, because NumPy and SciPy take some 40 MB in each process that loads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from experiments.metrics.definition import Definition, primary_of
from experiments.models import Experiment, Status
from experiments.models.phases import chosen, group_by_split
from experiments.results.quantiles import Quantiles
from experiments.results.types import Maturity
from experiments.results.user_groups import EMPTY, Counted, UserGroup, pooled
from experiments.stats.outcomes import Analysis, MeasureAnalysis, SampleRatio
from experiments.stats.types import (
    Correction,
    Design,
    FlagOff,
    Inputs,
    KeptReading,
    Kind,
    Margin,
    Measure,
    Plan,
    Quantile,
    Reason,
    Split,
    Stratum,
    Sums,
    Weight,
)

_KINDS: Mapping[str, Kind] = {
    "conversion": "share",
    "retention": "share",
    "funnel": "share",
    "ratio": "ratio",
    "quantile": "quantile",
}

ByPhase = Mapping[int, UserGroup]
"""The users by the number of the phase in which they were exposed."""

SplitQuantiles = Sequence[Quantiles]
"""The quantiles over the phases of each split, in the order of `Study.splits`; empty where they are not known."""


@dataclass(frozen=True, slots=True)
class KeptUsers:
    """The users who count for a metric as of a moment. The quantiles are those over the phases of each split."""

    instant: datetime
    by_phase: ByPhase
    quantiles: SplitQuantiles


@dataclass(frozen=True)
class Study:
    """The design of one analysis. `metric_indexes` selects the metrics whose figures are returned.

    All metrics are analysed, because the verdict and the corrections depend on all of them. `phases` has the
    numbers of the covered phases, the newest last. `remaining` is the time until the shortest run is over.
    `is_being_stopped` asks for the verdict of an experiment as it was before this transaction stopped it. `is_read`
    says that the figures are those of the one reading of a fixed analysis. `flag_off` says since when the driven flag
    is off, if it is. `kept` are the readings at the planned size, by the index of the metric and treatment.
    """

    experiment: Experiment
    definitions: Sequence[Definition]
    metric_indexes: Sequence[int]
    control: str
    correction: Correction
    phases: Sequence[int] = ()
    maturity: Maturity = "mature"
    remaining: timedelta = timedelta(0)
    is_being_stopped: bool = False
    is_read: bool = False
    flag_off: FlagOff | None = None
    kept: Mapping[tuple[int, str], KeptUsers] = field(default_factory=dict)

    @property
    def primary(self) -> Definition | None:
        return primary_of(self.definitions)

    @property
    def variants(self) -> Sequence[Weight]:
        """The variants with the weights of the newest covered phase."""
        return self.variants_of(self.phases[-1]) if self.phases else weights_of(self.experiment.variants)

    def variants_of(self, phase: int) -> Sequence[Weight]:
        return weights_of(self.experiment.phases[phase - 1]["variants"])

    def ratio_of(self, phase: int, users: Mapping[str, int]) -> SampleRatio | Reason:
        """Return the test of whether the users of a phase are split by its weights."""
        from experiments.stats.sample_ratio import check  # noqa: PLC0415 (see the module)

        return check(self.variants_of(phase), users)

    @cached_property
    def design(self) -> Design:
        return Design(
            variants=self.variants,
            control=self.control,
            is_running=self.is_being_stopped or self.experiment.status == Status.RUNNING,
            tuning_size=self.experiment.tuning_size,
            correction=self.correction,
            plan=replace(
                plan_of(self.experiment, self.remaining, is_read=self.is_read), sets_boundary=self.is_as_planned
            ),
            is_adjusted=lookback_days_of(self.experiment) > 0,
            # The verdict of the one reading stays, whatever happens to the flag afterwards.
            flag_off=None if self.is_read else self.flag_off,
        )

    @property
    def is_as_planned(self) -> bool:
        """Whether all users are compared with the first variant, as the plan is about."""
        all_phases = chosen(self.experiment.phases, None)
        return self.control == self.experiment.variant_keys[0] and [*self.phases] == all_phases

    @cached_property
    def splits(self) -> Sequence[Sequence[int]]:
        """The covered phases, those with equal splits together. Results pool them, and combine the others as strata."""
        return group_by_split(self.experiment.phases, self.phases)

    def analyse(self, by_phase: ByPhase, quantiles: SplitQuantiles = ()) -> Analysis:
        """Return the analysis of all metrics, given the quantiles of each of the `splits`."""
        from experiments.stats.analysis import analyse  # noqa: PLC0415 (see the module)

        return analyse(self._inputs(by_phase, quantiles))

    def analyse_chosen(self, by_phase: ByPhase, quantiles: SplitQuantiles = ()) -> Sequence[MeasureAnalysis]:
        """Return the analyses of `metric_indexes` alone, in their order, with chances of the normal distribution."""
        from experiments.stats.analysis import analyse_measures  # noqa: PLC0415 (see the module)

        return analyse_measures(self._inputs(by_phase, quantiles), self.metric_indexes, is_exact=False)

    def analyse_parts(
        self, parts: Sequence[ByPhase], quantiles: Sequence[SplitQuantiles] = ()
    ) -> Sequence[Sequence[MeasureAnalysis]]:
        """Return the analyses of all metrics for each part of the users, corrected over all parts together."""
        from experiments.stats.analysis import analyse_parts  # noqa: PLC0415 (see the module)

        of_parts: Sequence[SplitQuantiles] = quantiles or [()] * len(parts)
        return analyse_parts([self._inputs(part, of_part) for part, of_part in zip(parts, of_parts, strict=True)])

    def _inputs(self, by_phase: ByPhase, quantiles: SplitQuantiles) -> Inputs:
        whole = pooled(by_phase, self.phases)
        return Inputs(
            design=self.design,
            measures=[self._measure(index, whole) for index in range(len(self.definitions))],
            strata=self._strata(by_phase, quantiles),
            users=whole.users,
            in_several_variants=whole.several,
            splits=[Split(self.variants_of(phase), by_phase.get(phase, EMPTY).users) for phase in self.phases],
            kept={key: self._kept(key[0], users) for key, users in self.kept.items()},
        )

    def _kept(self, metric_index: int, users: KeptUsers) -> KeptReading:
        strata = self._strata(users.by_phase, users.quantiles)
        return KeptReading(users.instant, [replace(stratum, sums=[stratum.sums[metric_index]]) for stratum in strata])

    def _measure(self, metric_index: int, whole: UserGroup) -> Measure:
        definition, counted = self.definitions[metric_index], whole.of(metric_index)
        return replace(
            measure_of(definition),
            counts_mature_users=definition.counts_mature_users and self.maturity == "mature",
            is_non_negative=definition.is_non_negative or _has_no_amount_below_0(definition, counted),
            events=sum(sums.events for sums in counted.sums.values()),
            texts=sum(sums.without_number for sums in counted.sums.values()),
        )

    def _strata(self, by_phase: ByPhase, quantiles: SplitQuantiles) -> Sequence[Stratum]:
        """Return one stratum for each split of weights under which users were assigned, and at least one."""
        strata = [
            self._stratum(numbers, group, of_split)
            for numbers, of_split in zip(self.splits, quantiles or [{}] * len(self.splits), strict=True)
            for group in [pooled(by_phase, numbers)]
            if any(group.users.values())
        ]
        return strata or [self._stratum(self.phases, EMPTY, {})]

    def _stratum(self, phases: Sequence[int], group: UserGroup, quantiles: Quantiles) -> Stratum:
        sums = [self._sums(group, metric_index, quantiles) for metric_index in range(len(self.definitions))]
        return Stratum(self.variants_of(phases[-1]) if phases else self.variants, group.users, sums, phases)

    def _sums(self, group: UserGroup, metric_index: int, quantiles: Quantiles) -> Mapping[str, Sums | Quantile]:
        if self.definitions[metric_index].type != "quantile":
            return group.sums_of(metric_index)
        # A day or a moment that is over has no quantiles, only users.
        of_metric, is_known = quantiles.get(metric_index, {}), metric_index in quantiles
        return {
            key: of_metric.get(key) or Quantile(users, is_known=is_known)
            for key, users in group.of(metric_index).users.items()
        }


def plan_of(experiment: Experiment, remaining: timedelta = timedelta(0), *, is_read: bool = False) -> Plan:
    """Return what was registered at the start."""
    registered = experiment.registration or {}
    return Plan(
        size=registered.get("plannedSampleSize"),
        minimum_effect=registered.get("minimumEffect"),
        analysis=registered.get("analysis", "sequential"),
        remaining=remaining,
        variants=weights_of(experiment.phases[0]["variants"]) if experiment.phases else (),
        is_read=is_read,
    )


def lookback_days_of(experiment: Experiment) -> int:
    """Return how many days CUPED looks back; 0 if it was not registered at the start."""
    return int((experiment.registration or {}).get("lookbackDays", 0))


def measure_of(definition: Definition) -> Measure:
    """Return a metric in the form that the statistics take."""
    return Measure(
        key=definition.key,
        kind=_KINDS.get(definition.type, "mean"),
        is_decrease_good=definition.is_decrease_good,
        is_guardrail=definition.is_guardrail,
        is_post_hoc=definition.is_post_hoc,
        margin=_margin_of(definition),
        is_non_negative=definition.is_non_negative,
    )


def _has_no_amount_below_0(definition: Definition, counted: Counted) -> bool:
    """Return whether no user of any variant has a value below 0, where the definition leaves that to the data.

    Of the denominators, only the definition says it.
    """
    if not definition.adds_amounts or (definition.denominator and not definition.denominator.excludes_negatives()):
        return False
    return all(sums.is_non_negative for sums in counted.sums.values())


def _margin_of(definition: Definition) -> Margin | None:
    if not definition.is_guardrail:
        return None
    return Margin(definition.relative_margin, definition.margin_absolute)


def weights_of(variants: Iterable[Mapping[str, Any]]) -> Sequence[Weight]:
    """Return the weights of variants as JSON."""
    return [Weight(variant["key"], variant["weight"]) for variant in variants]
