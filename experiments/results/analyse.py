"""Computing the results of an experiment, and explaining them. This is the entry to `experiments.results`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast, get_args

from config.documents import Document
from config.errors import Detail, DetailCode, ErrorCode, ValidationFailed
from experiments.metrics.definition import definitions_of
from experiments.models import EXPOSURE, Experiment, Exposure
from experiments.models.phases import choices, chosen
from experiments.models.plan import remaining_run
from experiments.results.archive import read_explanation
from experiments.results.driven_flag import find_flag_off
from experiments.results.figures import (
    age_figures,
    day_figures,
    differences_before,
    interactions_of,
    metric_figures,
    phase_figures,
    slice_figures,
    users_of_variants,
)
from experiments.results.reading import Reading, Request, is_draft, read_results
from experiments.results.refresh import bring_up_to_date
from experiments.results.study import Study
from experiments.results.sums import read_sums
from experiments.results.types import Breakdown, Guards, Maturity, MetricFigures, Results, Slice
from experiments.results.user_groups import NOBODY, pooled
from experiments.results.verdicts import read_verdicts, record_verdict
from experiments.stats.outcomes import Analysis, Decision, Verdict
from experiments.stats.types import Correction, Reason, ReasonCode

CORRECTIONS: Sequence[Correction] = get_args(Correction)
MATURITIES: Sequence[Maturity] = get_args(Maturity)
_NOT_STARTED = Reason(ReasonCode.NOT_STARTED, "The experiment is a draft; start it, and users can be exposed to it.")
_EXPOSURES_READ = 1000
_MAX_LISTED = 20


@dataclass(frozen=True, slots=True)
class VariantResult:
    """`sample_size` counts the exposed users, and `conversions` those of them with an event of the first metric."""

    sample_size: int = 0
    conversions: int = 0

    @property
    def conversion(self) -> float:
        """The share of exposed users who converted (0 to 1). It is 0 without exposed users."""
        return self.conversions / self.sample_size if self.sample_size else 0.0


def compute_results(experiment: Experiment, now: datetime) -> Mapping[str, VariantResult]:
    """Return exposed users and conversions by variant key, in the order of the experiment's variants.

    A user converts with one event of the first metric's name since the exposure, whatever the type of the metric.
    These are plain counts over all phases. To compare variants, use `analyse_experiment`.
    """
    bring_up_to_date(experiment, now)
    sums = {} if is_draft(experiment) else read_sums(experiment)
    exposed, converted = sums.get(EXPOSURE, {}), sums.get(0, {})
    return {
        key: VariantResult(exposed.get(key, NOBODY).users, converted.get(key, NOBODY).users)
        for key in experiment.variant_keys
    }


def analyse_experiment(
    experiment: Experiment,
    now: datetime,
    *,
    control: str | None = None,
    correction: str = CORRECTIONS[0],
    maturity: str = MATURITIES[0],
    metric: str | None = None,
    daily: Collection[str] = (),
    ages: Collection[str] = (),
    breakdown: str | None = None,
    has_assignment_audit: bool = False,
    phase: str | None = None,
    is_being_stopped: bool = False,
) -> Results:
    """Return the results of an experiment, from everything that was committed before this call.

    `control` is a variant, by default the first one. `phase` is one of `design.phases.choices`, by default all.
    `maturity` says whether users count whose window is still open. `metric` limits the figures to one metric. The
    metrics in `daily` get a series by day, those in `ages` one by days since the exposure. `breakdown` adds the
    figures by the values of an attribute. `has_assignment_audit` adds guards that take seconds for a million users.
    `is_being_stopped` asks for the verdict as it was before this transaction stopped the experiment.
    The verdict always rests on the defaults of `control`, `correction`, `phase` and `maturity`, so that nobody can
    choose the view in which it reads best.
    Raises ValidationFailed with the names of the API's parameters.
    """
    definitions = definitions_of(experiment)
    _refuse_unknown(
        _metric_choice(experiment, metric),
        _variant_choice(experiment, "control", control),
        _Choice("correction", correction, CORRECTIONS, "a correction"),
        _Choice("maturity", maturity, MATURITIES, "one of"),
        _phase_choice(experiment, phase),
    )
    study = Study(
        experiment,
        definitions,
        metric_indexes=[index for index, definition in enumerate(definitions) if metric in (None, definition.key)],
        control=experiment.variant_keys[0],
        correction=CORRECTIONS[0],
        phases=chosen(experiment.phases, None),
        maturity=MATURITIES[0],
        remaining=remaining_run(experiment, now),
        is_being_stopped=is_being_stopped,
        flag_off=find_flag_off(experiment, now, is_being_stopped=is_being_stopped),
    )
    view = replace(
        study,
        control=control or study.control,
        correction=cast(Correction, correction),
        phases=chosen(experiment.phases, phase),
        maturity=cast(Maturity, maturity),
    )
    decisive = None if view == study else _analyse(study, read_results(study, now, Request()))
    request = Request(bool(daily), bool(ages), breakdown, has_assignment_audit)
    reading = read_results(view, now, request)
    if breakdown is not None:
        _refuse_unknown_attribute(experiment, breakdown, reading)
    results = _results(view, now, reading, request, (daily, ages), decisive)
    has_decided = view == study and metric is None and not is_being_stopped
    return replace(results, verdicts=record_verdict(results) if has_decided else read_verdicts(experiment))


def _analyse(study: Study, reading: Reading) -> tuple[Study, Analysis]:
    # The one reading of a fixed analysis counts mature users, whatever was asked for.
    study = replace(study, maturity=reading.maturity, is_read=reading.read_at is not None, kept=reading.kept)
    return study, study.analyse(reading.counting, reading.quantiles)


def _results(
    study: Study,
    now: datetime,
    reading: Reading,
    request: Request,
    series: tuple[Collection[str], Collection[str]],
    decisive: tuple[Study, Analysis] | None,
) -> Results:
    """Return the results of a study. Its verdict is that of the decisive one, if that is another."""
    study, analysis = _analyse(study, reading)
    experiment, deciding = study.experiment, analysis
    if decisive is not None:
        deciding = replace(decisive[1], verdict=_noting(study, *decisive))
    group, phases = pooled(reading.counting, study.phases), phase_figures(study, reading.exposed)
    metrics = metric_figures(study, analysis.measures, group, reading.facts)
    slices = slice_figures(study, reading.slices)
    return Results(
        experiment=experiment,
        as_of=now,
        control=study.control,
        correction=study.correction,
        variants=users_of_variants(study, phases),
        metrics=_with_series(study, metrics, reading, *series),
        guards=_guards(study, reading, analysis),
        verdict=Verdict(Decision.KEEP_RUNNING, None, [_NOT_STARTED]) if is_draft(experiment) else deciding.verdict,
        harmed=deciding.harmed,
        primary=study.primary.key if study.primary else None,
        plan=study.design.plan,
        maturity=reading.maturity,
        read_at=reading.read_at,
        open_until=reading.open_until,
        breakdown=_breakdown(study, reading, request.breakdown, slices) if request.breakdown else None,
        phases=phases,
    )


def _noting(view: Study, study: Study, analysis: Analysis) -> Verdict:
    """Return the verdict of a study, with a reason that names what another view of it shows instead, if anything."""
    shown = {
        f"control {view.control}": view.control != study.control,
        f"correction {view.correction}": view.correction != study.correction,
        f"phase {', '.join(map(str, view.phases))}": view.phases != study.phases,
        f"maturity {view.maturity}": view.maturity != study.maturity,
    }
    if not any(shown.values()):
        return analysis.verdict
    what = " and ".join(part for part, differs in shown.items() if differs)
    whom = "mature users" if study.maturity == "mature" else "all users"
    message = (
        f"The figures shown are for {what}. The verdict does not change with them: it compares with {study.control} "
        f"over all phases, counts {whom}, and uses the correction {study.correction}."
    )
    return replace(analysis.verdict, reasons=[*analysis.verdict.reasons, Reason(ReasonCode.OTHER_VIEW, message)])


def _breakdown(study: Study, reading: Reading, attribute: str, slices: Sequence[Slice]) -> Breakdown:
    return Breakdown(attribute, slices, interactions_of(study, slices), reading.slices_as_of)


def _refuse_unknown_attribute(experiment: Experiment, attribute: str, reading: Reading) -> None:
    if all(part.value is None and not part.is_rest for part in reading.slices):
        _refuse_unknown(_Choice("breakdown", attribute, known_attributes(experiment), "an attribute of its users"))


def _with_series(
    study: Study,
    metrics: Sequence[MetricFigures],
    reading: Reading,
    daily: Collection[str],
    ages: Collection[str],
) -> list[MetricFigures]:
    """Return the figures with the series that were asked for, by the keys of the metrics."""
    # A series counts mature users, whatever was asked for.
    quantiles = reading.quantiles if reading.maturity == "mature" else ()
    by_day = day_figures(_selecting(study, daily), reading.days, quantiles) if daily else {}
    by_age = age_figures(_selecting(study, ages), reading.ages) if ages else {}
    return [
        replace(
            figures,
            variants=[
                replace(
                    variant,
                    series=by_day.get(figures.metric_index, {}).get(variant.key, ()),
                    ages=by_age.get(figures.metric_index, {}).get(variant.key, ()),
                )
                for variant in figures.variants
            ],
        )
        for figures in metrics
    ]


def _selecting(study: Study, keys: Collection[str]) -> Study:
    """Return the study with those of its selected metrics that have these keys."""
    return replace(
        study, metric_indexes=[index for index in study.metric_indexes if study.definitions[index].key in keys]
    )


def _guards(study: Study, reading: Reading, analysis: Analysis) -> Guards:
    return Guards(
        sample_ratio=analysis.sample_ratio,
        users_in_several_variants=pooled(reading.exposed, study.phases).several,
        events_of_unknown_variants=reading.events_of_unknown_variants,
        doubted_reports=reading.doubted_reports,
        different_before=differences_before(study, analysis.measures),
        audit=reading.audit,
        flag_off_since=study.flag_off.since if study.flag_off else None,
    )


def known_attributes(experiment: Experiment) -> list[str]:
    """Return the names of the attributes of some exposures, which are nearly always the names of all."""
    exposures = Exposure.objects.filter(experiment=experiment, attributes__isnull=False)
    # In the order of the key, the same exposures are read each time, by each server.
    rows = exposures.order_by("user_id").values_list("attributes", flat=True)[:_EXPOSURES_READ]
    return sorted({name for attributes in rows for name in attributes or ()})


def explain_metric(
    experiment: Experiment, metric: str, variant: str, phase: str | None = None, *, now: datetime
) -> Document:
    """Return how the figure of a metric is computed in one variant, as `explanation.explain` describes.

    Frozen results keep their explanation. Raises ValidationFailed with the names of the API's parameters.
    """
    _refuse_unknown(
        _metric_choice(experiment, metric),
        _variant_choice(experiment, "variant", variant),
        _phase_choice(experiment, phase),
    )
    return read_explanation(experiment, experiment.metrics.index(metric), variant, phase, now)


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
        listed = [*self.allowed[:_MAX_LISTED], *(["..."] if len(self.allowed) > _MAX_LISTED else [])]
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
