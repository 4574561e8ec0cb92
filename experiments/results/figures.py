"""Making the figures of results from the sums and from what the statistics return. Reads no database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from experiments.models.phases import numbers
from experiments.results.large_values import least_share
from experiments.results.study import ByPhase, SplitQuantiles, Study
from experiments.results.sums import ExactSums
from experiments.results.types import (
    AgeFigures,
    AttributeValue,
    DayFigures,
    DifferentBefore,
    FunnelStep,
    Interaction,
    MetricFigures,
    PhaseFigures,
    Slice,
    VariantFigures,
    VariantUsers,
    Waiting,
)
from experiments.results.user_groups import EMPTY, NOBODY, UserGroup, pooled
from experiments.stats.outcomes import MeasureAnalysis
from experiments.stats.types import Estimate, Reason, VariantEstimate, Weight

WaitingUsers = Mapping[int, Mapping[str, Waiting]]
"""The users who do not count yet, by the index of the metric and by variant key."""

Steps = Mapping[int, Mapping[str, Sequence[int]]]
"""The users who passed each step of a funnel, by the index of the metric and by variant key."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What figures say of a group of users beside the estimates: plain counts, caps and names of events.

    `mature` are the users whose window has passed, by the index of each metric with a window and by variant key.
    """

    caps: Mapping[int, float] = field(default_factory=dict)
    mature: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    waiting: WaitingUsers = field(default_factory=dict)
    steps: Steps = field(default_factory=dict)
    never_received: Mapping[int, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SlicePart:
    """The users with one value of an attribute, by phase, and the plain facts about them."""

    value: AttributeValue
    is_rest: bool
    by_phase: ByPhase
    facts: Facts
    quantiles: SplitQuantiles = ()


def metric_figures(
    study: Study, analyses: Sequence[MeasureAnalysis], group: UserGroup, facts: Facts
) -> list[MetricFigures]:
    """Return the figures of the selected metrics, given the analyses of all."""
    return [
        MetricFigures(
            definition=study.definitions[metric_index],
            metric_index=metric_index,
            is_primary=study.definitions[metric_index] is study.primary,
            cap=facts.caps.get(metric_index),
            variants=_variant_figures(study, metric_index, analyses[metric_index], group, facts),
            never_received=facts.never_received.get(metric_index, ()),
        )
        for metric_index in study.metric_indexes
    ]


def _variant_figures(
    study: Study, metric_index: int, analysis: MeasureAnalysis, group: UserGroup, facts: Facts
) -> list[VariantFigures]:
    users, sums = group.users, group.sums.get(metric_index, {})
    mature = facts.mature.get(metric_index, users)
    return [
        _of_variant(
            study,
            metric_index,
            estimate,
            (users.get(estimate.key, 0), mature.get(estimate.key, 0)),
            sums.get(estimate.key, NOBODY),
            analysis.before.get(estimate.key),
            facts,
        )
        for estimate in analysis.variants
    ]


def _of_variant(
    study: Study,
    metric_index: int,
    estimate: VariantEstimate,
    users: tuple[int, int],
    sums: ExactSums,
    before: Estimate | Reason | None,
    facts: Facts,
) -> VariantFigures:
    exposed, mature = users
    waiting = facts.waiting.get(metric_index, {}).get(estimate.key)
    return VariantFigures(
        estimate=estimate,
        users=exposed,
        mature_users=mature,
        events=sums.events,
        other_currency_events=sums.other_currency,
        events_without_number=sums.without_number,
        least_share=least_share(study.definitions[metric_index], sums),
        waiting=waiting,
        cut_off_users=exposed - mature - (waiting.users if waiting else 0),
        before=before,
        steps=_steps(study, metric_index, estimate, facts.steps.get(metric_index, {}).get(estimate.key, ())),
    )


def _steps(study: Study, metric_index: int, estimate: VariantEstimate, passed: Sequence[int]) -> list[FunnelStep]:
    names = [step.event for step in study.definitions[metric_index].steps]
    of_all = passed or [0] * len(names)  # nobody passes a step in a variant without users
    return [
        FunnelStep(name, users, users / estimate.n if estimate.n else None)
        for name, users in zip(names, of_all, strict=False)
    ]


# series


def day_figures(
    study: Study, days: Sequence[tuple[date, ByPhase]], quantiles: SplitQuantiles = ()
) -> Mapping[int, Mapping[str, Sequence[DayFigures]]]:
    """Return the figures by metric index and variant as of the end of each day, in the order of the days.

    The `quantiles` are those of the last day. Those of earlier days are not computed: each would take all events again.
    """
    series: dict[int, dict[str, list[DayFigures]]] = {
        metric_index: {key: [] for key in study.experiment.variant_keys} for metric_index in study.metric_indexes
    }
    for number, (day, by_phase) in enumerate(days, 1):
        users = pooled(by_phase, study.phases).users
        measures = study.analyse_chosen(by_phase, quantiles if number == len(days) else ())
        for metric_index, measure in zip(study.metric_indexes, measures, strict=True):
            for estimate in measure.variants:
                figures = day_of(day, users.get(estimate.key, 0), estimate)
                series[metric_index][estimate.key].append(figures)
    return series


def day_of(day: date, users: int, estimate: VariantEstimate) -> DayFigures:
    """Return the figures of one variant as of a day, when so many users had been exposed to it."""
    comparison = estimate.comparison
    difference, lift = (comparison.difference, comparison.lift) if comparison else (None, None)
    return DayFigures(day, users, estimate.n, estimate.value, estimate.interval, difference, lift)


def age_figures(study: Study, days: Sequence[tuple[int, ByPhase]]) -> Mapping[int, Mapping[str, Sequence[AgeFigures]]]:
    """Return the figures by metric index and variant for each day since the exposure.

    The tests are corrected over all days together.
    """
    series: dict[int, dict[str, list[AgeFigures]]] = {
        metric_index: {key: [] for key in study.experiment.variant_keys} for metric_index in study.metric_indexes
    }
    analysed = study.analyse_parts([by_phase for _, by_phase in days])
    for (day, _), measures in zip(days, analysed, strict=True):
        for metric_index in study.metric_indexes:
            for estimate in measures[metric_index].variants:
                series[metric_index][estimate.key].append(_age_of(day, estimate))
    return series


def _age_of(day: int, estimate: VariantEstimate) -> AgeFigures:
    comparison = estimate.comparison
    difference, lift = (comparison.difference, comparison.lift) if comparison else (None, None)
    return AgeFigures(day, estimate.n, estimate.value, estimate.interval, difference, lift)


# breakdown


def slice_figures(study: Study, parts: Sequence[SlicePart]) -> list[Slice]:
    """Return the figures by attribute value. The tests are corrected over all values together."""
    analysed = study.analyse_parts([part.by_phase for part in parts], [part.quantiles for part in parts])
    slices = []
    for part, analyses in zip(parts, analysed, strict=True):
        group = pooled(part.by_phase, study.phases)
        figures = metric_figures(study, analyses, group, part.facts)
        slices.append(Slice(part.value, part.is_rest, sum(group.users.values()), figures))
    return slices


def interactions_of(study: Study, slices: Sequence[Slice]) -> list[Interaction]:
    """Return for each metric and treatment whether its difference varies between the values of an attribute."""
    from experiments.stats.interaction import interaction  # noqa: PLC0415 (see `study`)

    interactions = []
    for position, metric_index in enumerate(study.metric_indexes):
        by_variant: dict[str, list[Estimate | Reason]] = {
            key: [] for key in study.experiment.variant_keys if key != study.control
        }
        for variant in (variant for part in slices for variant in part.metrics[position].variants):
            if variant.comparison is not None:
                by_variant[variant.key].append(variant.comparison.difference)
        interactions += [
            Interaction(metric_index, key, interaction(differences)) for key, differences in by_variant.items()
        ]
    return interactions


# users


def differences_before(study: Study, analyses: Sequence[MeasureAnalysis]) -> list[DifferentBefore]:
    """Return the metrics that differed before the exposure, so that something besides the treatment differs."""
    from experiments.stats.findings import SUSPICIOUS  # noqa: PLC0415 (see `study`)

    return [
        DifferentBefore(analysis.key, key, before)
        for analysis in analyses
        for key, before in analysis.before.items()
        if isinstance(before, Estimate) and before.always_valid.p_value < SUSPICIOUS
    ]


def phase_figures(study: Study, by_phase: ByPhase) -> list[PhaseFigures]:
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
        for users in [by_phase.get(number, EMPTY).users]
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
