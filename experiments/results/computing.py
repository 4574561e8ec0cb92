"""Computing the results of an experiment, and explaining them. This is the entry to `experiments.results`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import cast, get_args

from config.database.consistent_reads import read_consistently
from config.documents import Document
from config.errors import Detail, DetailCode, ErrorCode, ValidationFailed
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
from experiments.design.phases import choices, chosen
from experiments.exposures.up_to_date import bring_up_to_date
from experiments.metrics.documents import definitions_of
from experiments.models import Experiment, Exposure, Status
from experiments.results.classification import NO_EXPOSURES, AssignmentAudit
from experiments.results.frozen import read_assignment_audit, read_explanation, read_unknown_variants
from experiments.results.to_stats import NOBODY, Daily, Study, phase_figures, users_of_variants
from experiments.results.types import Breakdown, Guards, MetricFigures, Results
from experiments.stats.types import Analysis, Correction, Decision, Reason, ReasonCode, Verdict

CORRECTIONS: Sequence[Correction] = get_args(Correction)
_NOT_STARTED = Reason(ReasonCode.NOT_STARTED, "The experiment is a draft; start it, and users can be exposed to it.")
_EXPOSURES_READ = 1000
_MOST_LISTED = 20


@dataclass(frozen=True, slots=True)
class VariantResult:
    """`sample_size` counts the exposed users, and `conversions` those of them with an event of the first metric."""

    sample_size: int = 0
    conversions: int = 0

    @property
    def conversion(self) -> float:
        """The share of exposed users who converted (0 to 1). It is 0 without exposed users."""
        return self.conversions / self.sample_size if self.sample_size else 0.0


@dataclass(frozen=True, slots=True)
class _Stored:
    """All data of one answer, read at one moment. `mature` comes from `count_mature`. Parts not requested are empty.

    If each part were read at its own moment, a series would not end with the totals, and slices would not add up.
    """

    by_phase: Mapping[int, Totals]
    totals: Totals
    caps: Mapping[int, float]
    mature: Mapping[timedelta, Mapping[str, int]]
    daily: Daily
    slices: Sequence[SliceTotals]
    events_of_unknown_variants: int
    assignment_audit: tuple[int, AssignmentAudit] | tuple[None, None]


def compute_results(experiment: Experiment, at: datetime) -> Mapping[str, VariantResult]:
    """Return exposed users and conversions by variant key, in the order of the experiment's variants.

    A user converts with one event of the first metric's name since the exposure, whatever the type of the metric.
    These are plain counts over all phases. To compare variants, use `analyse_experiment`.
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
    has_assignment_audit: bool = False,
    phase: str | None = None,
) -> Results:
    """Return the results of an experiment, from everything that was committed before this call.

    `control` is a variant, by default the first one. `phase` is one of `design.phases.choices`. `metric` limits the
    figures to one metric. The metrics in `daily` get a series. `breakdown` adds the figures by the values of an
    attribute. `has_assignment_audit` adds guards that take seconds for a million users. Raises ValidationFailed with
    the names of the API's parameters.
    """
    definitions = definitions_of(experiment)
    _refuse_unknown(
        _metric_choice(experiment, metric),
        _variant_choice(experiment, "control", control),
        _Choice("correction", correction, CORRECTIONS, "a correction"),
        _phase_choice(experiment, phase),
    )
    study = Study(
        experiment,
        definitions,
        metric_indexes=[index for index, definition in enumerate(definitions) if metric in (None, definition.key)],
        control=control or experiment.variant_keys[0],
        correction=cast(Correction, correction),
        phases=chosen(experiment.phases, phase),
    )
    stored = _read(study, at, has_series=bool(daily), breakdown=breakdown, has_assignment_audit=has_assignment_audit)
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


def _read(
    study: Study, at: datetime, *, has_series: bool, breakdown: str | None, has_assignment_audit: bool
) -> _Stored:
    """Bring the experiment up to date, and read all data at one moment."""
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
            events_of_unknown_variants=read_unknown_variants(experiment),
            assignment_audit=_read_audit(experiment) if has_assignment_audit else (None, None),
        )


def _read_phases(experiment: Experiment) -> Mapping[int, Totals]:
    return {} if _is_draft(experiment) else read_phases(experiment)


def _read_mature(study: Study, at: datetime) -> Mapping[timedelta, Mapping[str, int]]:
    """Return the number of mature users by variant, for each span of a metric whose windows may still be open."""
    experiment = study.experiment
    if experiment.started_at is None or experiment.frozen_at is not None:
        return {}
    spans = {span for index in study.metric_indexes if (span := study.definitions[index].span) is not None}
    return count_mature(experiment, spans, at, study.phases) if spans else {}


def _read_slices(study: Study, attribute: str, caps: Mapping[int, float]) -> Sequence[SliceTotals]:
    experiment = study.experiment
    slices = [] if _is_draft(experiment) else read_breakdown(experiment, attribute, caps, study.phases)
    if all(part.value is None and not part.is_rest for part in slices):
        _refuse_unknown(_Choice("breakdown", attribute, known_attributes(experiment), "an attribute of its users"))
    return slices


def _read_audit(experiment: Experiment) -> tuple[int, AssignmentAudit]:
    return (0, NO_EXPOSURES) if _is_draft(experiment) else read_assignment_audit(experiment)


def _with_maturity(metrics: Sequence[MetricFigures], stored: _Stored) -> list[MetricFigures]:
    """Return the figures with the number of mature users.

    These are all users if the metric has no window, or if the results are frozen.
    """
    with_maturity = []
    for figures in metrics:
        span = figures.definition.span
        mature = None if span is None else stored.mature.get(span)
        # More users may have been exposed since the totals were brought up to date, so their number is the limit.
        variants = [
            replace(
                variant,
                mature_users=variant.users if mature is None else min(variant.users, mature.get(variant.key, 0)),
            )
            for variant in figures.variants
        ]
        with_maturity.append(replace(figures, variants=variants))
    return with_maturity


def _with_series(
    metrics: Sequence[MetricFigures], study: Study, daily: Collection[str], stored: _Stored
) -> list[MetricFigures]:
    metric_indexes = [figures.metric_index for figures in metrics if figures.definition.key in daily]
    series = replace(study, metric_indexes=metric_indexes).series(stored.daily)
    return [
        replace(figures, variants=[replace(variant, series=of_variants[variant.key]) for variant in figures.variants])
        if (of_variants := series.get(figures.metric_index))
        else figures
        for figures in metrics
    ]


def _guards(stored: _Stored, analysis: Analysis) -> Guards:
    events_before_exposure, assignments = stored.assignment_audit
    return Guards(
        sample_ratio=analysis.sample_ratio,
        users_in_several_variants=sum(counts.several for counts in stored.totals.get(EXPOSURES, {}).values()),
        events_of_unknown_variants=stored.events_of_unknown_variants,
        events_before_exposure=events_before_exposure,
        assignments=assignments,
    )


def known_attributes(experiment: Experiment) -> list[str]:
    """Return the names of the attributes of some exposures, which are nearly always the names of all."""
    exposures = Exposure.objects.filter(experiment=experiment, attributes__isnull=False)
    rows = exposures.order_by().values_list("attributes", flat=True)[:_EXPOSURES_READ]
    return sorted({name for attributes in rows for name in attributes or ()})


def explain_metric(experiment: Experiment, metric: str, variant: str, phase: str | None = None) -> Document:
    """Return how the figure of a metric is computed in one variant, as `explanation.explain` describes.

    Frozen results keep their explanation. Raises ValidationFailed with the names of the API's parameters.
    """
    _refuse_unknown(
        _metric_choice(experiment, metric),
        _variant_choice(experiment, "variant", variant),
        _phase_choice(experiment, phase),
    )
    return read_explanation(experiment, experiment.metrics.index(metric), variant, phase)


# checks of parameters


@dataclass(frozen=True, slots=True)
class _Choice:
    """A parameter, its value if there is one, and the allowed values. `noun` describes these in the error."""

    parameter: str
    value: str | None
    allowed: Sequence[str]
    noun: str

    @property
    def refusal(self) -> Detail:
        listed = [*self.allowed[:_MOST_LISTED], *(["..."] if len(self.allowed) > _MOST_LISTED else [])]
        choices = f": {', '.join(listed)}" if listed else ", but there are none"
        return Detail(self.parameter, DetailCode.UNKNOWN_REFERENCE, f"Must be {self.noun}{choices}.")


def _metric_choice(experiment: Experiment, value: str | None) -> _Choice:
    return _Choice("metric", value, experiment.metrics, "a metric of the experiment")


def _variant_choice(experiment: Experiment, parameter: str, value: str | None) -> _Choice:
    return _Choice(parameter, value, experiment.variant_keys, "a variant of the experiment")


def _phase_choice(experiment: Experiment, value: str | None) -> _Choice:
    return _Choice("phase", value, choices(experiment.phases), "all, or the number of a phase of the experiment")


def _refuse_unknown(*parameters: _Choice) -> None:
    """Raise ValidationFailed with all parameters whose value is not allowed."""
    wrong = [choice for choice in parameters if choice.value is not None and choice.value not in choice.allowed]
    if wrong:
        raise ValidationFailed([choice.refusal for choice in wrong], code=ErrorCode.INVALID_PARAMETER)
