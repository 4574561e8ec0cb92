"""Passing the sums of an experiment to the statistics, and making figures of what they return. Reads no database.

Only functions import the statistics, because NumPy and SciPy take some 40 MB in each process that loads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from itertools import accumulate
from typing import Any

from experiments.aggregates.breakdowns import Slice as SliceTotals
from experiments.aggregates.variant_sums import EXPOSURES, Totals, VariantTotals
from experiments.design.phases import numbers, split_of
from experiments.metrics.definition import Definition, primary_of
from experiments.models import Experiment, Status
from experiments.results.types import DayFigures, MetricFigures, PhaseFigures, Slice, VariantFigures, VariantUsers
from experiments.stats.types import (
    Analysis,
    Comparison,
    Correction,
    Design,
    Estimate,
    Inputs,
    Kind,
    Measure,
    MeasureAnalysis,
    Reason,
    SampleRatio,
    Split,
    Sums,
    VariantEstimate,
    Weight,
)

NOBODY = VariantTotals()
_KINDS: Mapping[str, Kind] = {"conversion": "share", "retention": "share", "ratio": "ratio"}

Daily = Mapping[int, Mapping[str, Mapping[date, VariantTotals]]]
"""Totals by the index of the metric, by variant, and by the day of the exposures."""


@dataclass(frozen=True)
class Study:
    """The design of one analysis. `metric_indexes` selects the metrics whose figures are returned.

    All metrics are analysed, because the verdict and the adjusted p-values depend on all of them. `phases` has the
    numbers of the covered phases, the newest last.
    """

    experiment: Experiment
    definitions: Sequence[Definition]
    metric_indexes: Sequence[int]
    control: str
    correction: Correction
    phases: Sequence[int] = ()

    @property
    def primary(self) -> Definition | None:
        return primary_of(self.definitions)

    @property
    def variants(self) -> Sequence[Weight]:
        """The variants with the weights of the newest covered phase."""
        return self.variants_of(self.phases[-1]) if self.phases else _weights(self.experiment.variants)

    def variants_of(self, phase: int) -> Sequence[Weight]:
        return _weights(self.experiment.phases[phase - 1]["variants"])

    def ratio_of(self, phase: int, users: Mapping[str, int]) -> SampleRatio | Reason:
        """Return the test of whether the users of a phase are split by its weights."""
        from experiments.stats.sample_ratio import check  # noqa: PLC0415 (see the module)

        return check(self.variants_of(phase), users)

    @cached_property
    def design(self) -> Design:
        return Design(
            variants=self.variants,
            control=self.control,
            is_running=self.experiment.status == Status.RUNNING,
            tuning_size=self.experiment.tuning_size,
            correction=self.correction,
        )

    def analyse(
        self, totals: Totals, metric_indexes: Sequence[int] | None = None, by_phase: Mapping[int, Totals] | None = None
    ) -> Analysis:
        """Return the analysis of all metrics, or of some. The checks of the data need the totals by phase."""
        from experiments.stats.analysis import analyse  # noqa: PLC0415 (see the module)

        indexes = range(len(self.definitions)) if metric_indexes is None else metric_indexes
        exposed = totals.get(EXPOSURES, {})
        return analyse(
            Inputs(
                design=self.design,
                measures=[measure_of(self.definitions[metric_index]) for metric_index in indexes],
                sums=[_sums_by_variant(exposed, totals.get(metric_index, {})) for metric_index in indexes],
                users=users_of(totals),
                several=sum(counts.several for counts in exposed.values()),
                splits=self._splits(by_phase or {}),
                is_mixed=self._is_mixed(by_phase or {}),
            )
        )

    def _splits(self, by_phase: Mapping[int, Totals]) -> list[Split]:
        return [Split(self.variants_of(phase), users_of(by_phase.get(phase, {}))) for phase in self.phases]

    def _is_mixed(self, by_phase: Mapping[int, Totals]) -> bool:
        """Return whether the covered phases have different splits, leaving out phases without users."""
        with_users = (number for number in self.phases if any(users_of(by_phase.get(number, {})).values()))
        return len({split_of(self.experiment.phases[number - 1]) for number in with_users}) > 1

    def figures(
        self, analyses: Sequence[MeasureAnalysis], totals: Totals, caps: Mapping[int, float]
    ) -> list[MetricFigures]:
        """Return the figures of the selected metrics, given the analyses of all."""
        return [
            MetricFigures(
                definition=self.definitions[metric_index],
                metric_index=metric_index,
                is_primary=self.definitions[metric_index] is self.primary,
                cap=caps.get(metric_index),
                variants=_variant_figures(analyses[metric_index].variants, totals.get(metric_index, {})),
            )
            for metric_index in self.metric_indexes
        ]

    def series(self, daily: Daily) -> Mapping[int, Mapping[str, Sequence[DayFigures]]]:
        """Return the figures by metric index and variant, over the users exposed until the end of each day.

        Days on which nobody was exposed are left out.
        """
        series: dict[int, dict[str, list[DayFigures]]] = {
            metric_index: {key: [] for key in self.experiment.variant_keys} for metric_index in self.metric_indexes
        }
        for day, totals in _until_each_day(daily):
            analyses = self.analyse(totals, self.metric_indexes).measures
            for metric_index, analysis in zip(self.metric_indexes, analyses, strict=True):
                for estimate in analysis.variants:
                    series[metric_index][estimate.key].append(_day_figures(day, estimate))
        return series

    def slices(self, parts: Sequence[SliceTotals], caps: Mapping[int, float]) -> list[Slice]:
        """Return the figures by attribute value. The p-values are adjusted over all values together."""
        analysed = self._adjusted([self.analyse(part.totals).measures for part in parts])
        return [
            Slice(part.value, part.is_rest, part.users, self.figures(analyses, part.totals, caps))
            for part, analyses in zip(parts, analysed, strict=True)
        ]

    def _adjusted(self, analysed: Sequence[Sequence[MeasureAnalysis]]) -> list[list[MeasureAnalysis]]:
        from experiments.stats.multiplicity import adjust  # noqa: PLC0415 (see the module)

        estimates = (estimate for analyses in analysed for analysis in analyses for estimate in analysis.variants)
        family = [p for estimate in estimates if (p := _unadjusted_p(estimate)) is not None]
        adjusted = iter(adjust(family, self.correction))
        return [
            [
                replace(analysis, variants=[_with_next_p(estimate, adjusted) for estimate in analysis.variants])
                for analysis in analyses
            ]
            for analyses in analysed
        ]


def measure_of(definition: Definition) -> Measure:
    """Return a metric in the form that the statistics take."""
    kind = _KINDS.get(definition.type, "mean")
    return Measure(definition.key, kind, definition.is_decrease_good, definition.is_guardrail, definition.is_post_hoc)


def users_of(totals: Totals) -> Mapping[str, int]:
    """Return the numbers of exposed users by variant."""
    return {key: counts.users for key, counts in totals.get(EXPOSURES, {}).items()}


def _weights(variants: Sequence[Mapping[str, Any]]) -> Sequence[Weight]:
    return [Weight(variant["key"], variant["weight"]) for variant in variants]


def sums_of(users: int, totals: VariantTotals) -> Sums:
    """Return the sums over this many exposed users. The totals leave out users without an event, who count as zeros."""
    moments = {name: float(getattr(totals, name)) for name in ("y", "yy", "d", "dd", "yd", "x", "xx", "xy")}
    return Sums(n=users, positive=totals.positive, **moments)


def _sums_by_variant(
    exposed: Mapping[str, VariantTotals], of_metric: Mapping[str, VariantTotals]
) -> Mapping[str, Sums]:
    return {key: sums_of(counts.users, of_metric.get(key, NOBODY)) for key, counts in exposed.items()}


def _variant_figures(estimates: Sequence[VariantEstimate], totals: Mapping[str, VariantTotals]) -> list[VariantFigures]:
    return [
        VariantFigures(estimate, estimate.n, None, sums.events, other_currency_events=sums.foreign)
        for estimate in estimates
        for sums in [totals.get(estimate.key, NOBODY)]
    ]


def _day_figures(day: date, estimate: VariantEstimate) -> DayFigures:
    difference = estimate.comparison.difference if estimate.comparison else None
    return DayFigures(day, estimate.n, estimate.value, estimate.interval, difference)


def _until_each_day(daily: Daily) -> Iterator[tuple[date, Totals]]:
    """Yield each day on which users were exposed, with the totals of all users exposed until its end."""
    days = sorted({day for of_day in daily.get(EXPOSURES, {}).values() for day in of_day})
    running = {
        (metric_index, variant): list(accumulate(of_day.get(day, NOBODY) for day in days))
        for metric_index, of_variant in daily.items()
        for variant, of_day in of_variant.items()
    }
    for day_index, day in enumerate(days):
        totals: dict[int, dict[str, VariantTotals]] = {}
        for (metric_index, variant), sums in running.items():
            totals.setdefault(metric_index, {})[variant] = sums[day_index]
        yield day, totals


def _unadjusted_p(estimate: VariantEstimate) -> float | None:
    """Return the p-value of a comparison if its analysis adjusted it, and None for all others."""
    comparison = estimate.comparison
    if comparison is None or comparison.adjusted_p is None or not isinstance(comparison.difference, Estimate):
        return None
    return comparison.difference.always_valid.p_value


def _with_next_p(estimate: VariantEstimate, adjusted: Iterator[float]) -> VariantEstimate:
    if estimate.comparison is None or _unadjusted_p(estimate) is None:
        return estimate
    comparison: Comparison = replace(estimate.comparison, adjusted_p=next(adjusted))
    return replace(estimate, comparison=comparison)


def phase_figures(study: Study, by_phase: Mapping[int, Totals]) -> list[PhaseFigures]:
    """Return the figures of all phases, covered or not."""
    return [
        PhaseFigures(
            number,
            study.experiment.phases[number - 1],
            _with_expected(study.variants_of(number), users),
            study.ratio_of(number, users),
            number in study.phases,
        )
        for number in numbers(study.experiment.phases)
        for users in [users_of(by_phase.get(number, {}))]
    ]


def users_of_variants(study: Study, phases: Sequence[PhaseFigures]) -> list[VariantUsers]:
    """Return the users of all covered phases. The expected numbers follow from the weights of each phase."""
    covered = [{variant.key: variant for variant in phase.variants} for phase in phases if phase.is_covered]
    return [
        VariantUsers(
            variant.key,
            variant.weight,
            sum(phase[variant.key].users for phase in covered),
            sum(phase[variant.key].expected_users for phase in covered),
        )
        for variant in study.variants
    ]


def _with_expected(variants: Sequence[Weight], users: Mapping[str, int]) -> list[VariantUsers]:
    total = sum(users.values())
    # Dividing first keeps the sum of the weights within the range of floats.
    largest = max(variant.weight for variant in variants)
    shares = [variant.weight / largest for variant in variants]
    return [
        VariantUsers(variant.key, variant.weight, users.get(variant.key, 0), total * (share / sum(shares)))
        for variant, share in zip(variants, shares, strict=True)
    ]
