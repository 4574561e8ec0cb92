"""What came of an experiment: totals that are exact when they are asked for, and what the statistics say of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import cast, get_args

from config.database.consistent_reads import read_consistently
from experiments.aggregates.breakdowns import Slice as SliceTotals
from experiments.aggregates.breakdowns import read_breakdown
from experiments.aggregates.variant_sums import (
    EXPOSURES,
    Totals,
    count_mature,
    pool,
    read_caps,
    read_daily,
    read_phases,
)
from experiments.design.phases import chosen
from experiments.exposures.up_to_date import bring_up_to_date
from experiments.metrics.documents import definitions_of
from experiments.models import Experiment, Exposure, Status
from experiments.results.classification import NOBODY as NOBODY_ASSIGNED
from experiments.results.frozen import audited, count_unknown_variants
from experiments.results.parameters import Choice, metric_choice, phase_choice, refuse_unknown, variant_choice
from experiments.results.to_stats import NOBODY, Daily, Study, phase_figures, users_of_variants
from experiments.results.types import Audit, Breakdown, Guards, MetricFigures, Results
from experiments.stats.types import Analysis, Correction, Decision, Reason, ReasonCode, Verdict

CORRECTIONS: Sequence[Correction] = get_args(Correction)
_NOT_STARTED = Reason(ReasonCode.NOT_STARTED, "The experiment is a draft; start it, and users can be exposed to it.")
_EXPOSURES_LOOKED_AT = 1000


@dataclass(frozen=True, slots=True)
class VariantResult:
    """`sample_size`: distinct users exposed; `conversions`: those of them who did what the first metric names."""

    sample_size: int = 0
    conversions: int = 0

    @property
    def conversion(self) -> float:
        """The share of exposed users who converted, 0 to 1; 0 where nobody was exposed."""
        return self.conversions / self.sample_size if self.sample_size else 0.0


@dataclass(frozen=True, slots=True)
class _Stored:
    """All that one answer rests on, as it was at one moment. `mature`: see `count_mature`. What is not wanted is empty.

    Were each part of a moment of its own, a series would not end with the whole, and slices would not add up.
    """

    by_phase: Mapping[int, Totals]
    totals: Totals
    caps: Mapping[int, float]
    mature: Mapping[timedelta, Mapping[str, int]]
    daily: Daily
    slices: Sequence[SliceTotals]
    events_of_unknown_variants: int
    audit: Audit | None


def compute_results(experiment: Experiment, at: datetime) -> Mapping[str, VariantResult]:
    """Exposed users and conversions by variant key, in the order of the experiment's variants.

    A user converts with one event of the first metric's name since the exposure, whatever else the metric asks for.
    These are plain counts over all phases; to compare variants by them is for `analyse_experiment`.
    """
    bring_up_to_date(experiment, at)
    totals = pool(_read_phases(experiment))
    exposed, converted = totals.get(EXPOSURES, {}), totals.get(0, {})
    return {
        key: VariantResult(exposed.get(key, NOBODY).users, converted.get(key, NOBODY).users)
        for key in experiment.variant_keys
    }


def analyse_experiment(
    experiment: Experiment,
    at: datetime,
    *,
    control: str | None = None,
    correction: str = "holm",
    metric: str | None = None,
    daily: Collection[str] = (),
    breakdown: str | None = None,
    is_audited: bool = False,
    phase: str | None = None,
) -> Results:
    """All that what was committed before this call says of the experiment.

    `control` is a variant, by default the first one; `phase` is one of `phases.choices`. With `metric` there are the
    figures of that one alone, those of `daily` metrics have a series, and with `breakdown` they are there by the values
    of that attribute, too. What `is_audited` adds takes seconds for a million users. Raises ValidationFailed, by the
    names of the API's parameters.
    """
    definitions = definitions_of(experiment)
    refuse_unknown(
        metric_choice(experiment, metric),
        variant_choice(experiment, "control", control),
        Choice("correction", correction, CORRECTIONS, "a correction"),
        phase_choice(experiment, phase),
    )
    study = Study(
        experiment,
        definitions,
        places=[place for place, each in enumerate(definitions) if metric in (None, each.key)],
        control=control or experiment.variant_keys[0],
        correction=cast(Correction, correction),
        phases=chosen(experiment.phases, phase),
    )
    stored = _read(study, at, has_series=bool(daily), breakdown=breakdown, is_audited=is_audited)
    analysis = study.analyse(stored.totals, by_phase=stored.by_phase)
    phases = phase_figures(study, stored.by_phase)
    metrics = _with_maturity(study.figures(analysis.measures, stored.totals, stored.caps), stored)
    return Results(
        experiment=experiment,
        as_of=at,
        control=study.control,
        correction=correction,
        variants=users_of_variants(study, phases),
        metrics=_with_series(metrics, study, daily, stored) if daily else metrics,
        guards=_guards(stored, analysis),
        verdict=Verdict(Decision.KEEP_RUNNING, None, [_NOT_STARTED]) if _is_draft(experiment) else analysis.verdict,
        harmed=analysis.harmed,
        primary=study.primary.key if study.primary else None,
        breakdown=None if breakdown is None else Breakdown(breakdown, study.slices(stored.slices, stored.caps)),
        phases=phases,
    )


def _is_draft(experiment: Experiment) -> bool:
    return experiment.status == Status.DRAFT


def _read(study: Study, at: datetime, *, has_series: bool, breakdown: str | None, is_audited: bool) -> _Stored:
    """All of one moment, in which everything counts that is committed by now."""
    experiment = study.experiment
    bring_up_to_date(experiment, at)
    with read_consistently():
        caps, by_phase = read_caps(experiment), _read_phases(experiment)
        return _Stored(
            by_phase=by_phase,
            totals=pool(by_phase, study.phases),
            caps=caps,
            mature=_read_mature(study, at),
            daily=read_daily(experiment, study.phases) if has_series else {},
            slices=[] if breakdown is None else _read_slices(study, breakdown, caps),
            events_of_unknown_variants=count_unknown_variants(experiment),
            audit=_read_audit(experiment) if is_audited else None,
        )


def _read_phases(experiment: Experiment) -> Mapping[int, Totals]:
    return {} if _is_draft(experiment) else read_phases(experiment)


def _read_mature(study: Study, at: datetime) -> Mapping[timedelta, Mapping[str, int]]:
    """Of each span after which a window passes that may still be open."""
    experiment = study.experiment
    if experiment.started_at is None or experiment.frozen_at is not None:
        return {}
    spans = {span for place in study.places if (span := study.definitions[place].span) is not None}
    return count_mature(experiment, spans, at, study.phases) if spans else {}


def _read_slices(study: Study, attribute: str, caps: Mapping[int, float]) -> Sequence[SliceTotals]:
    experiment = study.experiment
    found = [] if _is_draft(experiment) else read_breakdown(experiment, attribute, caps, study.phases)
    if all(each.value is None and not each.is_rest for each in found):
        refuse_unknown(Choice("breakdown", attribute, known_attributes(experiment), "an attribute of its users"))
    return found


def _read_audit(experiment: Experiment) -> Audit:
    return Audit(0, NOBODY_ASSIGNED) if _is_draft(experiment) else audited(experiment)


def _with_maturity(metrics: Sequence[MetricFigures], stored: _Stored) -> list[MetricFigures]:
    """The figures with the number of users whose window has passed: of all, where it has no end or nothing changes."""
    found = []
    for figures in metrics:
        span = figures.definition.span
        mature = None if span is None else stored.mature.get(span)
        # Users may have come since the totals were brought up to date.
        variants = [
            replace(each, mature_users=each.users if mature is None else min(each.users, mature.get(each.key, 0)))
            for each in figures.variants
        ]
        found.append(replace(figures, variants=variants))
    return found


def _with_series(
    metrics: Sequence[MetricFigures], study: Study, daily: Collection[str], stored: _Stored
) -> list[MetricFigures]:
    places = [each.metric_index for each in metrics if each.definition.key in daily]
    series = replace(study, places=places).series(stored.daily)
    return [
        replace(figures, variants=[replace(each, series=of_variants[each.key]) for each in figures.variants])
        if (of_variants := series.get(figures.metric_index))
        else figures
        for figures in metrics
    ]


def _guards(stored: _Stored, analysis: Analysis) -> Guards:
    return Guards(
        sample_ratio=analysis.sample_ratio,
        users_in_several_variants=sum(each.several for each in stored.totals.get(EXPOSURES, {}).values()),
        events_of_unknown_variants=stored.events_of_unknown_variants,
        audit=stored.audit,
    )


def known_attributes(experiment: Experiment) -> list[str]:
    """The names of the attributes that some of the exposures have; all of them nearly always."""
    exposures = Exposure.objects.filter(experiment=experiment, attributes__isnull=False)
    some = exposures.order_by().values_list("attributes", flat=True)[:_EXPOSURES_LOOKED_AT]
    return sorted({name for attributes in some for name in attributes or ()})
