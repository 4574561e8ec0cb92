"""An experiment as the statistics see it: sums of users go in, figures come out. Reads no database.

It alone calls them, and loads them only then: NumPy and SciPy cost a worker some 40 MB for good.


The users of each phase of an experiment, beside those that its weights let expect. Reads no database."""

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
"""Totals by the place of the metric, by variant, and by the day of the exposures."""


@dataclass(frozen=True)
class Study:
    """The design of one analysis. `places` are those of the metrics whose figures are wanted.

    All metrics are analysed, whichever are wanted: the verdict and the adjusted p-values rest on all of them. `phases`
    are the numbers of those whose users are covered, the newest last; the weights are those of that one.
    """

    experiment: Experiment
    definitions: Sequence[Definition]
    places: Sequence[int]
    control: str
    correction: Correction
    phases: Sequence[int] = ()

    @property
    def primary(self) -> Definition | None:
        return primary_of(self.definitions)

    @property
    def variants(self) -> Sequence[Weight]:
        """With the weights of the newest phase that is covered."""
        return self.variants_of(self.phases[-1]) if self.phases else _weights(self.experiment.variants)

    def variants_of(self, phase: int) -> Sequence[Weight]:
        return _weights(self.experiment.phases[phase - 1]["variants"])

    def ratio_of(self, phase: int, users: Mapping[str, int]) -> SampleRatio | Reason:
        """Whether the users of a phase are split as its own weights say."""
        from experiments.stats.sample_ratio import check  # noqa: PLC0415 (see above)

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
        self, totals: Totals, places: Sequence[int] | None = None, by_phase: Mapping[int, Totals] | None = None
    ) -> Analysis:
        """What the statistics say of all metrics, or of some. The guards of the data need the totals by phase."""
        from experiments.stats.analysis import analyse  # noqa: PLC0415 (see above)

        wanted = range(len(self.definitions)) if places is None else places
        exposed = totals.get(EXPOSURES, {})
        return analyse(
            Inputs(
                design=self.design,
                measures=[measure_of(self.definitions[place]) for place in wanted],
                sums=[
                    {key: sums_of(each.users, totals.get(place, {}).get(key, NOBODY)) for key, each in exposed.items()}
                    for place in wanted
                ],
                users=users_of(totals),
                several=sum(each.several for each in exposed.values()),
                splits=self._splits(by_phase or {}),
                is_mixed=self._is_mixed(by_phase or {}),
            )
        )

    def _splits(self, by_phase: Mapping[int, Totals]) -> list[Split]:
        return [Split(self.variants_of(phase), users_of(by_phase.get(phase, {}))) for phase in self.phases]

    def _is_mixed(self, by_phase: Mapping[int, Totals]) -> bool:
        """Whether those of the covered phases that anybody was exposed in have different splits."""
        peopled = (number for number in self.phases if any(users_of(by_phase.get(number, {})).values()))
        return len({split_of(self.experiment.phases[number - 1]) for number in peopled}) > 1

    def figures(
        self, analyses: Sequence[MeasureAnalysis], totals: Totals, caps: Mapping[int, float]
    ) -> list[MetricFigures]:
        """The figures of the metrics that are wanted, given the analyses of all."""
        return [
            MetricFigures(
                definition=self.definitions[place],
                metric_index=place,
                is_primary=self.definitions[place] is self.primary,
                cap=caps.get(place),
                variants=[
                    _variant(each, totals.get(place, {}).get(each.key, NOBODY)) for each in analyses[place].variants
                ],
            )
            for place in self.places
        ]

    def series(self, daily: Daily) -> Mapping[int, Mapping[str, Sequence[DayFigures]]]:
        """The figures of each wanted metric and variant with the users exposed until the end of each day.

        The days are those on which anybody was exposed.
        """
        found: dict[int, dict[str, list[DayFigures]]] = {
            place: {key: [] for key in self.experiment.variant_keys} for place in self.places
        }
        for day, totals in _until_each_day(daily):
            for place, analysis in zip(self.places, self.analyse(totals, self.places).measures, strict=True):
                for each in analysis.variants:
                    found[place][each.key].append(_on(day, each))
        return found

    def slices(self, found: Sequence[SliceTotals], caps: Mapping[int, float]) -> list[Slice]:
        """The figures of the users with each value of an attribute; p-values are adjusted over all of them together."""
        analysed = self._adjusted([self.analyse(each.totals).measures for each in found])
        return [
            Slice(each.value, each.is_rest, each.users, self.figures(analyses, each.totals, caps))
            for each, analyses in zip(found, analysed, strict=True)
        ]

    def _adjusted(self, analysed: Sequence[Sequence[MeasureAnalysis]]) -> list[list[MeasureAnalysis]]:
        from experiments.stats.multiplicity import adjust  # noqa: PLC0415 (beside the others)

        estimates = (each for analyses in analysed for analysis in analyses for each in analysis.variants)
        family = [p for each in estimates if (p := _unadjusted_p(each)) is not None]
        adjusted = iter(adjust(family, self.correction))
        return [
            [
                replace(analysis, variants=[_with_next_p(each, adjusted) for each in analysis.variants])
                for analysis in analyses
            ]
            for analyses in analysed
        ]


def measure_of(definition: Definition) -> Measure:
    """The metric as the statistics see it."""
    kind = _KINDS.get(definition.type, "mean")
    return Measure(definition.key, kind, definition.is_decrease_good, definition.is_guardrail, definition.is_post_hoc)


def users_of(totals: Totals) -> Mapping[str, int]:
    """The exposed users by variant."""
    return {key: each.users for key, each in totals.get(EXPOSURES, {}).items()}


def _weights(variants: Sequence[Mapping[str, Any]]) -> Sequence[Weight]:
    return [Weight(each["key"], each["weight"]) for each in variants]


def sums_of(users: int, totals: VariantTotals) -> Sums:
    """The sums over so many exposed users, of whom those without an event are not in the totals."""
    moments = {name: float(getattr(totals, name)) for name in ("y", "yy", "d", "dd", "yd", "x", "xx", "xy")}
    return Sums(n=users, positive=totals.positive, **moments)


def _variant(estimate: VariantEstimate, totals: VariantTotals) -> VariantFigures:
    return VariantFigures(estimate, estimate.n, None, totals.events, other_currency_events=totals.foreign)


def _on(day: date, estimate: VariantEstimate) -> DayFigures:
    difference = estimate.comparison.difference if estimate.comparison else None
    return DayFigures(day, estimate.n, estimate.value, estimate.interval, difference)


def _until_each_day(daily: Daily) -> Iterator[tuple[date, Totals]]:
    """For each day on which anybody was exposed, the totals of all users exposed until its end."""
    days = sorted({day for of_day in daily.get(EXPOSURES, {}).values() for day in of_day})
    running = {
        (place, variant): list(accumulate(of_day.get(day, NOBODY) for day in days))
        for place, of_variant in daily.items()
        for variant, of_day in of_variant.items()
    }
    for at, day in enumerate(days):
        totals: dict[int, dict[str, VariantTotals]] = {}
        for (place, variant), sums in running.items():
            totals.setdefault(place, {})[variant] = sums[at]
        yield day, totals


def _unadjusted_p(estimate: VariantEstimate) -> float | None:
    """The p-value of an estimate that belongs to the family of tests that is adjusted: those that are already."""
    compared = estimate.comparison
    if compared is None or compared.adjusted_p is None or not isinstance(compared.difference, Estimate):
        return None
    return compared.difference.always_valid.p_value


def _with_next_p(estimate: VariantEstimate, adjusted: Iterator[float]) -> VariantEstimate:
    if estimate.comparison is None or _unadjusted_p(estimate) is None:
        return estimate
    comparison: Comparison = replace(estimate.comparison, adjusted_p=next(adjusted))
    return replace(estimate, comparison=comparison)


def phase_figures(study: Study, by_phase: Mapping[int, Totals]) -> list[PhaseFigures]:
    """Those of all phases, whether they are covered or not."""
    found = []
    for number in numbers(study.experiment.phases):
        users = users_of(by_phase.get(number, {}))
        figures = PhaseFigures(
            number,
            study.experiment.phases[number - 1],
            _beside_expected(study.variants_of(number), users),
            study.ratio_of(number, users),
            number in study.phases,
        )
        found.append(figures)
    return found


def users_of_variants(study: Study, phases: Sequence[PhaseFigures]) -> list[VariantUsers]:
    """The users of the covered phases together. Of each, its own weights say how many are expected."""
    covered = [{each.key: each for each in phase.variants} for phase in phases if phase.is_covered]
    return [
        VariantUsers(
            variant.key,
            variant.weight,
            sum(phase[variant.key].users for phase in covered),
            sum(phase[variant.key].expected_users for phase in covered),
        )
        for variant in study.variants
    ]


def _beside_expected(variants: Sequence[Weight], users: Mapping[str, int]) -> list[VariantUsers]:
    total = sum(users.values())
    # Divided first, so that no sum of weights leaves the range of floats.
    largest = max(variant.weight for variant in variants)
    shares = [variant.weight / largest for variant in variants]
    return [
        VariantUsers(variant.key, variant.weight, users.get(variant.key, 0), total * (share / sum(shares)))
        for variant, share in zip(variants, shares, strict=True)
    ]
