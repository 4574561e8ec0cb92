"""What came of finished experiments: the effect on each goal, and by whom the experiment was stopped.

Experiments that run have an outcome so far, whose e-values count among those of all started experiments.

Outcomes are stored, because a page of many experiments cannot compute the results of each. They are computed again
until they rest on frozen results, since late events may still change the figures.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from config.management.maintenance import do_each
from config.models import Change
from experiments.models import Experiment, Status, StoredOutcome
from experiments.models.documents import KIND
from experiments.results.analyse import analyse_experiment
from experiments.results.types import MetricFigures, Results
from experiments.stats.lifts import Z_95
from experiments.stats.numbers import format_count
from experiments.stats.outcomes import Decision
from experiments.stats.types import Comparison, Estimate, Reason, Test

_FRESH_FOR = timedelta(minutes=10)
"""How long an outcome that is not final is shown before a page computes it again."""


@dataclass(frozen=True, slots=True)
class Effect:
    """The lift of one metric in one treatment, with the interval of the test that decides its row.

    A bound that does not exist is None. `log_error` is the standard error of the logarithm of 1 + lift, by one look; it
    is None where the interval of the lift has no bounds on that scale.
    """

    metric: str
    version: int
    variant: str
    is_primary: bool
    is_guardrail: bool
    is_decrease_good: bool
    label: str
    lift: float
    lower: float | None
    upper: float | None
    level: float
    log_error: float | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an experiment. `decision` is that of the verdict, `recommended` the variant that it named.

    `stopped_by` is the actor of the stop by the change log; it is empty where the log does not have it any more.
    `log_e_values` has each treatment that is better in the primary metric, with the logarithm of its e-value divided by
    the number of treatments. It is None in outcomes that versions before 0.2 stored.
    """

    users: int
    control: str
    decision: str
    recommended: str
    stopped_by: str
    effects: Sequence[Effect]
    log_e_values: Mapping[str, float] | None = None

    @property
    def is_doubtful(self) -> bool:
        """Whether the data of the experiment needed a check, so that its effects cannot be trusted."""
        return self.decision == Decision.CHECK_DATA


# reading


def stored_outcomes(experiments: Iterable[Experiment]) -> dict[UUID, Outcome]:
    """Return the outcomes of stopped experiments as far as they are stored, by experiment, with at most one query."""
    stopped = _stopped(experiments)
    return {pk: row.outcome for pk, row in _rows(stopped).items()}


def outcomes_of(experiments: Iterable[Experiment], at: datetime, *, most: int) -> dict[UUID, Outcome]:
    """Return the outcomes of stopped experiments, and first compute at most so many that are missing or outdated.

    An outdated one that is not computed is returned as it was stored.
    """
    return _up_to_date(_stopped(experiments), at, most)


def outcomes_so_far(experiments: Iterable[Experiment], at: datetime, *, most: int) -> dict[UUID, Outcome]:
    """Return the same as `outcomes_of`, and also the outcomes so far of experiments that run.

    Those of running experiments are computed only if they are missing; the periodic task computes them again.
    """
    return _up_to_date(
        {experiment.pk: experiment for experiment in experiments if experiment.status != Status.DRAFT}, at, most
    )


def outcome_of(results: Results) -> Outcome | None:
    """Return the outcome of an experiment from its results in their default view, or None unless it is stopped.

    It is stored, once if it is final.
    """
    experiment = results.experiment
    if experiment.status != Status.STOPPED:
        return None
    row = _rows({experiment.pk: experiment}).get(experiment.pk)
    if row is not None and row.is_final:
        return row.outcome
    stopped_by = row.outcome.stopped_by if row is not None else _find_actor(experiment)
    return _store(experiment, _build(results, stopped_by), results.as_of)


def compute_outcome(experiment: Experiment, at: datetime) -> Outcome:
    """Compute the outcome of a started experiment, and store it."""
    outcome = _build(analyse_experiment(experiment, at), _find_actor(experiment))
    return _store(experiment, outcome, at)


def refresh_outcomes(now: datetime) -> str:
    """Compute the outcome of each started experiment that has no final one. This is a periodic task.

    It looks at all verdicts, so that none is reached and gone unseen.
    """
    final = StoredOutcome.objects.filter(is_final=True, document__has_key="log_e_values")
    known = dict(final.values_list("pk", "stopped_at"))
    started = Experiment.objects.exclude(status=Status.DRAFT).select_related("environment").order_by("pk")
    due = [experiment for experiment in started if (experiment.pk, experiment.stopped_at) not in known.items()]
    do_each(due, lambda experiment: compute_outcome(experiment, now))
    return f"computed {format_count(len(due), 'outcome')}"


def _stopped(experiments: Iterable[Experiment]) -> dict[UUID, Experiment]:
    return {experiment.pk: experiment for experiment in experiments if experiment.status == Status.STOPPED}


def _up_to_date(experiments: Mapping[UUID, Experiment], at: datetime, most: int) -> dict[UUID, Outcome]:
    rows = _rows(experiments)
    outcomes = {pk: row.outcome for pk, row in rows.items()}
    due = [experiment for pk, experiment in experiments.items() if _is_due(experiment, rows.get(pk), at)]
    due.sort(key=lambda experiment: experiment.pk in rows)  # those that are missing first
    for experiment in due[:most]:
        outcomes[experiment.pk] = compute_outcome(experiment, at)
    return outcomes


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of the present stop of an experiment, or of one that runs."""

    outcome: Outcome
    computed_at: datetime
    is_final: bool


def _rows(experiments: Mapping[UUID, Experiment]) -> dict[UUID, _Row]:
    """Return the rows that belong to the present stop of each experiment, or to its run, with at most one query."""
    rows: dict[UUID, _Row] = {}
    for row in StoredOutcome.objects.filter(pk__in=experiments) if experiments else ():
        if row.stopped_at != experiments[row.pk].stopped_at:
            continue
        with suppress(msgspec.ValidationError):  # another version of the service stored other fields
            rows[row.pk] = _Row(msgspec.convert(row.document, Outcome), row.computed_at, row.is_final)
    return rows


def _is_due(experiment: Experiment, row: _Row | None, at: datetime) -> bool:
    if row is None or row.outcome.log_e_values is None:
        return True
    return experiment.status == Status.STOPPED and not row.is_final and row.computed_at <= at - _FRESH_FOR


def _store(experiment: Experiment, outcome: Outcome, at: datetime) -> Outcome:
    values = {
        "stopped_at": experiment.stopped_at,
        "computed_at": at,
        "is_final": experiment.frozen_at is not None,
        "document": msgspec.to_builtins(outcome),
    }
    StoredOutcome.objects.update_or_create(pk=experiment.pk, defaults=values)
    return outcome


def _find_actor(experiment: Experiment) -> str:
    stops = Change.objects.of(KIND, experiment.pk).filter(before__status=Status.RUNNING, after__status=Status.STOPPED)
    return stops.order_by("-revision").values_list("actor", flat=True).first() or ""


# building


def _build(results: Results, stopped_by: str) -> Outcome:
    verdict = results.verdict
    return Outcome(
        users=results.users,
        control=results.control,
        decision=str(verdict.decision),
        recommended=verdict.variant or "",
        stopped_by=stopped_by,
        effects=[
            effect for metric in results.metrics if not metric.definition.is_post_hoc for effect in effects_on(metric)
        ],
        log_e_values=_log_e_values(results),
    )


def _log_e_values(results: Results) -> dict[str, float]:
    """Return the logarithms of the e-values of treatments that are better, unless the data need a check.

    All other treatments have the e-value 0. So this is evidence for "better", and not for "different". The largest of m
    e-values, divided by m, is at most their average, which is an e-value, too.
    """
    if results.primary_metric is None or results.verdict.decision == Decision.CHECK_DATA:
        return {}
    compared = [(variant.key, variant.comparison) for variant in results.primary_metric.variants if variant.comparison]
    return {
        key: comparison.log_e_value - math.log(len(compared))
        for key, comparison in compared
        if comparison.label == "better" and comparison.log_e_value is not None
    }


def effects_on(metric: MetricFigures) -> list[Effect]:
    """Return the effect of each treatment for which the metric has a lift."""
    compared = [(variant.key, variant.comparison) for variant in metric.variants if variant.comparison]
    return [
        _effect(metric, key, comparison, comparison.lift)
        for key, comparison in compared
        if isinstance(comparison.lift, Estimate)
    ]


def _effect(metric: MetricFigures, variant: str, comparison: Comparison, lift: Estimate) -> Effect:
    test = comparison.deciding(lift)
    return Effect(
        metric=metric.key,
        version=metric.definition.version,
        variant=variant,
        is_primary=metric.is_primary,
        is_guardrail=metric.definition.is_guardrail,
        is_decrease_good=metric.definition.is_decrease_good,
        label=comparison.label,
        lift=lift.estimate,
        lower=test.lower,
        upper=test.upper,
        level=test.level,
        log_error=_log_error(comparison.single_look.lift),
    )


def _log_error(test: Test | Reason) -> float | None:
    """Return the standard error of ln(1 + lift) from the 95 % interval of one look."""
    if isinstance(test, Reason) or test.lower is None or test.upper is None or test.lower <= -1:
        return None
    error = (math.log1p(test.upper) - math.log1p(test.lower)) / (2 * Z_95)
    return error if error > 0 else None
