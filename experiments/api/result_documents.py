"""The results of an experiment as JSON. Nothing here computes; what cannot be had is null, its reason beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from config.documents import Document
from config.timestamps import format_timestamp
from experiments.design.phases import whole
from experiments.metrics.definition import Definition
from experiments.metrics.documents import definitions_of
from experiments.models import Experiment
from experiments.results.assignment_audit import assignments_document
from experiments.results.types import (
    Audit,
    Breakdown,
    DayFigures,
    Guards,
    MetricFigures,
    PhaseFigures,
    Results,
    Slice,
    VariantFigures,
    VariantUsers,
)
from experiments.stats.types import Comparison, Cuped, Estimate, Interval, Reason, SampleRatio, Test


def results_document(results: Results) -> Document:
    """All of it; `breakdown`, the `series` of variants and what an audit adds stand there where they were asked for."""
    experiment = results.experiment
    told = {
        "experiment": experiment.key,
        "status": str(experiment.status),
        "startedAt": _moment(experiment.started_at),
        "stoppedAt": _moment(experiment.stopped_at),
        "asOf": _moment(results.as_of),
        "frozenAt": _moment(experiment.frozen_at),
        "control": results.control,
        "correction": results.correction,
        "users": results.users,
        "variants": _users(results.variants),
        "verdict": {
            "decision": str(results.verdict.decision),
            "variant": results.verdict.variant,
            "metric": results.primary,
            "reasons": [_reason(each) for each in results.verdict.reasons],
        },
        "guards": _guards(results.guards),
        "metrics": [_metric(each) for each in results.metrics],
        "phases": [_phase(each) for each in results.phases],
    }
    return told | ({"breakdown": _breakdown(results.breakdown)} if results.breakdown else {})


def explanation_document(
    experiment: Experiment, metric: str, variant: str, explained: Document, at: datetime
) -> Document:
    """How the figure of a metric in a variant comes about, as `explanation` has it, and of what it is."""
    [definition] = [each for each in definitions_of(experiment) if each.key == metric]
    return {
        "experiment": experiment.key,
        "metric": metric,
        "variant": variant,
        "asOf": _moment(experiment.frozen_at or at),
        "frozenAt": _moment(experiment.frozen_at),
        "definition": _definition(definition),
        **explained,
    }


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else format_timestamp(moment)


def _users(variants: Sequence[VariantUsers]) -> list[Document]:
    return [
        {"key": each.key, "weight": each.weight, "users": each.users, "expectedUsers": each.expected}
        for each in variants
    ]


def _phase(figures: PhaseFigures) -> Document:
    configuration = figures.configuration
    return {
        "number": figures.number,
        "startedAt": configuration["startedAt"],
        "percentage": whole(configuration["percentage"]),
        "conditions": configuration["conditions"],
        "reason": configuration["reason"],
        "isCovered": figures.is_covered,
        "users": figures.users,
        "variants": _users(figures.variants),
        "sampleRatio": _sample_ratio(figures.sample_ratio),
    }


def _definition(definition: Definition) -> Document:
    return {**definition.document(), "isPostHoc": definition.is_post_hoc}


def _guards(guards: Guards) -> Document:
    return {
        "sampleRatio": _sample_ratio(guards.sample_ratio),
        "usersInSeveralVariants": guards.users_in_several_variants,
        "eventsOfUnknownVariants": guards.events_of_unknown_variants,
        **(_audit(guards.audit) if guards.audit else {}),
    }


def _sample_ratio(found: SampleRatio | Reason) -> Document:
    if isinstance(found, Reason):
        return {"pValue": None, "chiSquarePValue": None, "isMismatch": False, "reason": _reason(found)}
    return {
        "pValue": found.always_valid_p,
        "chiSquarePValue": found.chi_square_p,
        "isMismatch": found.is_mismatch,
        "reason": None,
    }


def _audit(audit: Audit) -> Document:
    return {
        "eventsBeforeExposure": audit.events_before_exposure,
        "unexpectedVariants": audit.assignments.alarming,
        "assignments": assignments_document(audit.assignments),
    }


def _metric(figures: MetricFigures) -> Document:
    return {
        **_definition(figures.definition),
        "cap": figures.cap,
        "isPrimary": figures.is_primary,
        "variants": [_variant(each) for each in figures.variants],
    }


def _breakdown(breakdown: Breakdown) -> Document:
    return {"attribute": breakdown.attribute, "values": [_slice(each) for each in breakdown.slices]}


def _slice(slice_: Slice) -> Document:
    return {
        "value": slice_.value,
        "isRest": slice_.is_rest,
        "users": slice_.users,
        "metrics": [
            {"key": each.definition.key, "variants": [_variant(variant) for variant in each.variants]}
            for each in slice_.metrics
        ],
    }


def _variant(figures: VariantFigures) -> Document:
    estimate = figures.estimate
    return {
        "key": figures.key,
        "users": figures.users,
        **({} if figures.mature is None else {"matureUsers": figures.mature, "immatureUsers": figures.immature}),
        "value": estimate.value,
        "interval": _interval(estimate.interval),
        "reason": None if estimate.reason is None else _reason(estimate.reason),
        "events": figures.events,
        "otherCurrencyEvents": figures.foreign,
        "comparison": None if estimate.comparison is None else _comparison(estimate.comparison),
        **({"series": [_day(each) for each in figures.series]} if figures.series else {}),
    }


def _day(figures: DayFigures) -> Document:
    return {
        "day": figures.day.isoformat(),
        "users": figures.users,
        "value": figures.value,
        "interval": _interval(figures.interval),
        "difference": None if figures.difference is None else _estimate(figures.difference),
    }


def _comparison(comparison: Comparison) -> Document:
    return {
        "difference": _estimate(comparison.difference),
        "lift": _estimate(comparison.lift),
        "chanceToBeatControl": _figure(comparison.chance_to_beat),
        "expectedLoss": _figure(comparison.expected_loss),
        "adjustedPValue": comparison.adjusted_p,
        "cuped": None if isinstance(comparison.cuped, Reason) else _cuped(comparison.cuped),
        "reasons": list(_missing(comparison)),
    }


def _missing(comparison: Comparison) -> Iterator[Document]:
    """Why single figures of a comparison are null; an estimate has its own reason."""
    figures = {
        "chanceToBeatControl": comparison.chance_to_beat,
        "expectedLoss": comparison.expected_loss,
        "cuped": comparison.cuped,
    }
    for name, figure in figures.items():
        if isinstance(figure, Reason):
            yield {"field": name, **_reason(figure)}


def _cuped(cuped: Cuped) -> Document:
    return {
        "theta": cuped.theta,
        "varianceReduction": cuped.variance_reduction,
        "value": cuped.value,
        "difference": _estimate(cuped.difference),
        "lift": _estimate(cuped.lift),
    }


def _estimate(estimate: Estimate | Reason) -> Document:
    if isinstance(estimate, Reason):
        nothing = dict.fromkeys(("estimate", "standardError", "alwaysValid", "fixedHorizon"))
        return {**nothing, "reason": _reason(estimate)}
    return {
        "estimate": estimate.estimate,
        "standardError": estimate.standard_error,
        "alwaysValid": _test(estimate.always_valid),
        "fixedHorizon": _test(estimate.fixed_horizon),
        "reason": None,
    }


def _test(test: Test) -> Document:
    return {"lower": test.lower, "upper": test.upper, "pValue": test.p_value}


def _interval(interval: Interval | None) -> Document | None:
    return None if interval is None else {"lower": interval.lower, "upper": interval.upper}


def _reason(reason: Reason) -> Document:
    return {"code": str(reason.code), "message": reason.message}


def _figure(figure: float | Reason) -> Any:
    return None if isinstance(figure, Reason) else figure
