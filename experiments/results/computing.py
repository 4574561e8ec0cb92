"""What came of an experiment: totals that are exact when they are asked for, and what the statistics say of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast, get_args

from experiments.metrics.frozen import definitions_of
from experiments.models import Experiment, Exposure, Status
from experiments.results.kept import audited, count_unknown_variants
from experiments.results.parameters import Choice, metric_choice, refuse_unknown, variant_choice
from experiments.results.study import NOBODY, Study
from experiments.results.types import Audit, Breakdown, Guards, MetricFigures, Results, VariantUsers
from experiments.stats.types import Analysis, Correction, Decision, Reason, ReasonCode, Verdict
from experiments.totals.breakdowns import read_breakdown
from experiments.totals.folding import fold
from experiments.totals.summing import EXPOSURES
from experiments.totals.sums import Totals, count_mature, read_caps, read_daily, read_sums

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


def compute_results(experiment: Experiment, at: datetime) -> Mapping[str, VariantResult]:
    """Exposed users and conversions by variant key, in the order of the experiment's variants.

    A user converts with one event of the first metric's name since the exposure, whatever else the metric asks for.
    """
    totals = _read_exact(experiment, at)
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
) -> Results:
    """All that what was committed before this call says of the experiment.

    `control` is a variant, by default the first one. With `metric` there are the figures of that one alone, those of
    `daily` metrics have a series, and with `breakdown` they are there by the values of that attribute, too. What
    `is_audited` adds takes seconds for a million users. Raises ValidationFailed, by the names of the API's parameters.
    """
    definitions = definitions_of(experiment)
    refuse_unknown(
        metric_choice(experiment, metric),
        variant_choice(experiment, "control", control),
        Choice("correction", correction, CORRECTIONS, "a correction"),
    )
    study = Study(
        experiment,
        definitions,
        places=[place for place, each in enumerate(definitions) if metric in (None, each.key)],
        control=control or experiment.variant_keys[0],
        correction=cast(Correction, correction),
    )
    totals = _read_exact(experiment, at)
    caps = read_caps(experiment)
    analysis = study.analyse(totals)
    metrics = list(_with_maturity(study.figures(analysis.measures, totals, caps), experiment, at))
    return Results(
        experiment=experiment,
        as_of=at,
        control=study.control,
        correction=correction,
        variants=_users_of_variants(experiment, totals),
        metrics=_with_series(metrics, study, daily) if daily else metrics,
        guards=_guards(experiment, totals, analysis, is_audited),
        verdict=Verdict(Decision.KEEP_RUNNING, None, [_NOT_STARTED]) if _is_draft(experiment) else analysis.verdict,
        primary=None if study.primary is None else definitions[study.primary].key,
        breakdown=None if breakdown is None else _break_down(study, breakdown, caps),
    )


def _is_draft(experiment: Experiment) -> bool:
    return experiment.status == Status.DRAFT


def _read_exact(experiment: Experiment, at: datetime) -> Totals:
    """The totals of everything that is committed by now; none of a draft."""
    if _is_draft(experiment):
        return {}
    fold(experiment, at)
    return read_sums(experiment)


def _users_of_variants(experiment: Experiment, totals: Totals) -> list[VariantUsers]:
    exposed = totals.get(EXPOSURES, {})
    users = sum(each.users for each in exposed.values())
    # Divided first, so that no sum of weights leaves the range of floats.
    largest = max(each["weight"] for each in experiment.variants)
    shares = [each["weight"] / largest for each in experiment.variants]
    return [
        VariantUsers(each["key"], each["weight"], exposed.get(each["key"], NOBODY).users, users * (share / sum(shares)))
        for each, share in zip(experiment.variants, shares, strict=True)
    ]


def _with_maturity(metrics: Sequence[MetricFigures], experiment: Experiment, at: datetime) -> Iterator[MetricFigures]:
    """The figures with the number of users whose window has passed: of all, where it has no end or nothing changes."""
    is_open = experiment.started_at is not None and experiment.frozen_at is None
    spans = {span for each in metrics if (span := each.definition.span) is not None} if is_open else set()
    counted = count_mature(experiment, spans, at) if spans else {}
    for figures in metrics:
        span = figures.definition.span
        # Users may have come since the totals were read.
        mature = None if span not in spans else counted[span]
        variants = [
            replace(each, mature=each.users if mature is None else min(each.users, mature.get(each.key, 0)))
            for each in figures.variants
        ]
        yield replace(figures, variants=variants)


def _with_series(metrics: Sequence[MetricFigures], study: Study, daily: Collection[str]) -> list[MetricFigures]:
    places = [each.place for each in metrics if each.definition.key in daily]
    series = replace(study, places=places).series(read_daily(study.experiment))
    return [
        replace(figures, variants=[replace(each, series=of_variants[each.key]) for each in figures.variants])
        if (of_variants := series.get(figures.place))
        else figures
        for figures in metrics
    ]


def _guards(experiment: Experiment, totals: Totals, analysis: Analysis, is_audited: bool) -> Guards:
    return Guards(
        sample_ratio=analysis.sample_ratio,
        users_in_several_variants=sum(each.several for each in totals.get(EXPOSURES, {}).values()),
        events_of_unknown_variants=count_unknown_variants(experiment),
        audit=(Audit(0, 0) if _is_draft(experiment) else audited(experiment)) if is_audited else None,
    )


def _break_down(study: Study, attribute: str, caps: Mapping[int, float]) -> Breakdown:
    found = [] if _is_draft(study.experiment) else read_breakdown(study.experiment, attribute, caps)
    if all(each.value is None and not each.is_rest for each in found):
        refuse_unknown(Choice("breakdown", attribute, known_attributes(study.experiment), "an attribute of its users"))
    return Breakdown(attribute, study.slices(found, caps))


def known_attributes(experiment: Experiment) -> list[str]:
    """The names of the attributes that some of the exposures have; all of them nearly always."""
    exposures = Exposure.objects.filter(experiment=experiment, attributes__isnull=False)
    some = exposures.order_by().values_list("attributes", flat=True)[:_EXPOSURES_LOOKED_AT]
    return sorted({name for attributes in some for name in attributes or ()})
