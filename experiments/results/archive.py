"""Freezing the results of stopped experiments, after which old events may be deleted.

The sums of frozen results stay as they are. Whatever else results read from events is stored when they freeze.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from itertools import product
from typing import get_args

from django.db import transaction

from config.database.planning import planned
from config.database.transactions import read_consistently
from config.documents import Document
from config.management.maintenance import do_each
from events.removal import format_count
from experiments.exposures.recording import doubted_reports, events_of_unknown_variants
from experiments.metrics.definition import Definition, definitions_of, never_received
from experiments.models import AnalysisMethod, Experiment, ResultState, Status
from experiments.models.locks import lock_results
from experiments.models.phases import ALL, choices, chosen, group_by_split
from experiments.results.ages import can_be_split, read_ages
from experiments.results.assignment_audit import (
    assignment_audit_document,
    audit_assignments,
    count_events_before_exposure,
    parse_assignment_audit,
)
from experiments.results.explain import explain, explain_all
from experiments.results.fixed_reading import FOR_LATE_EVENTS, FixedReading, fixed_reading
from experiments.results.large_values import find_large_values
from experiments.results.maturity import Maturity
from experiments.results.planned_reading import planned_readings
from experiments.results.quantiles import QuantileReader, has_quantiles
from experiments.results.refresh import bring_series_up_to_date, bring_up_to_date, refresh_locked
from experiments.results.sums import Caps, ExactSums, MetricSums, exact_sums, read_caps
from experiments.results.types import DataAudit
from experiments.results.unexposed import Unexposed, count_similar_ids, find_unexposed
from experiments.results.values import as_if_stopped

# Without statistics of an experiment, PostgreSQL expects one user, and would compare all exposures with each event.
_WITHOUT_STATISTICS = {"enable_nestloop": "off"}


# freezing


def refresh_results(now: datetime) -> str:
    """Bring the results of every experiment up to date that is not frozen, and freeze those that are due.

    This is a periodic task, so that little is left to refresh when somebody reads results.
    """
    refreshed, frozen = [], []

    def refresh(experiment: Experiment) -> None:
        if experiment.frozen_at is not None or is_due(experiment, now):
            freeze(experiment, now)
            frozen.append(experiment)
        else:
            bring_up_to_date(experiment, now)
            planned_readings(experiment, now)
            refreshed.append(experiment)

    do_each(Experiment.objects.measured_by_events().order_by("pk"), refresh)
    counts = format_count(len(refreshed), "experiment"), format_count(len(frozen), "other")
    return "brought {} up to date and froze {}".format(*counts)


def is_due(experiment: Experiment, now: datetime) -> bool:
    """Return whether an experiment can freeze: a day after the last event counts, or after the stop once the longest
    window is over.
    """
    if experiment.stopped_at is None or experiment.counting_ends_at is None:
        return False
    spans = (definition.delay + (definition.window or timedelta(0)) for definition in definitions_of(experiment))
    all_over = experiment.stopped_at + max(spans, default=timedelta(0))
    return now >= max(all_over, experiment.counting_ends_at + FOR_LATE_EVENTS)


def freeze(experiment: Experiment, now: datetime) -> None:
    """Refresh a stopped experiment for the last time, and store what its results need in addition to the sums.

    What takes a while runs before or after the lock. If it breaks off, the next call repeats it; until then the events
    are not deleted.
    """
    prepare_freeze(experiment, now)
    if experiment.frozen_at is None:
        bring_up_to_date(experiment, now)
        planned_readings(experiment, now)
    with transaction.atomic():
        [state] = lock_results([experiment.pk])
        refresh_for_the_last_time(state, now)
    frozen = Experiment.objects.filter(pk=experiment.pk).exclude(frozen_at=None).first()
    if frozen is not None:
        _store(frozen, now)


def prepare_freeze(experiment: Experiment, now: datetime) -> None:
    """Store the quantiles of a started experiment, so that the freeze computes none unless values change until then."""
    if _has_quantiles_to_store(experiment):
        bring_up_to_date(experiment, now)
        _store_quantiles(experiment, now)


def refresh_for_the_last_time(state: ResultState, now: datetime) -> None:
    """Freeze the values and sums of a stopped experiment whose results are locked.

    After the commit, `freeze` must store the rest.
    """
    refresh_locked(state, now)
    current = Experiment.objects.get(pk=state.experiment_id)
    if _has_quantiles_to_store(current):
        _store_quantiles(current, now)
    Experiment.objects.filter(pk=state.experiment_id, status=Status.STOPPED, frozen_at=None).update(frozen_at=now)


def _has_quantiles_to_store(experiment: Experiment) -> bool:
    return experiment.frozen_at is None and has_quantiles(experiment)


def _store_quantiles(experiment: Experiment, now: datetime) -> None:
    """Store the quantiles over all sets of phases that results can cover, as far as they are not stored."""
    covered = (chosen(experiment.phases, choice) for choice in choices(experiment.phases))
    sets = {tuple(numbers) for covers in covered for numbers in group_by_split(experiment.phases, covers)}
    with read_consistently():
        reader = QuantileReader(experiment, now)
        for numbers, maturity in product(sorted(sets), get_args(Maturity)):
            reader.over(numbers, maturity)
    reader.store()


def _store(experiment: Experiment, now: datetime) -> None:
    """Store what the results of a frozen experiment need in addition to the sums, unless it is stored already."""
    bring_series_up_to_date(experiment, now)
    reading = _reading_of(experiment, now)
    with read_consistently(), planned(**_WITHOUT_STATISTICS):
        stored = {
            "explanations": explain_all(experiment, now, reading.instant if reading else None),
            "eventsOfUnknownVariants": events_of_unknown_variants(experiment).count(),
            "doubtedReports": doubted_reports(experiment).count(),
            "eventsBeforeExposure": count_events_before_exposure(experiment),
            "assignments": assignment_audit_document(audit_assignments(experiment)),
            "daysSinceExposure": _days_since_exposure(experiment, now, reading),
            "unexposed": asdict(find_unexposed(experiment)),
            "neverReceived": sorted(never_received(definitions_of(experiment), experiment.environment)),
        }
    with transaction.atomic():
        lock_results([experiment.pk])
        # The experiment may have been reopened meanwhile, and then its results are no longer the same.
        if Experiment.objects.filter(pk=experiment.pk, frozen_at=experiment.frozen_at).exists():
            ResultState.objects.filter(experiment=experiment, archive__isnull=True).update(archive=stored)


# reading: what was stored if the results are frozen, or else what the events say now


def read_explanation(
    experiment: Experiment, metric_index: int, variant: str, phase: str | None, now: datetime
) -> Document:
    """Return the explanation of a metric in one variant. `phase` is one of `design.phases.choices`, or None."""
    stored = _read(experiment)
    if stored:
        explained: Document = stored["explanations"][str(metric_index)][variant]
        by_choice: Document = explained.pop("choices", {})  # only with several phases
        chosen_explanation: Document = by_choice.get(phase or ALL, explained)
        return chosen_explanation
    reading = _reading_of(experiment, now)
    with read_consistently(), planned(**_WITHOUT_STATISTICS):
        read_at = reading.instant if reading else None
        return explain(experiment, metric_index, variant, phase, now=now, read_at=read_at)


def _reading_of(experiment: Experiment, now: datetime) -> FixedReading | None:
    """Return the one reading of a fixed analysis, if there was one."""
    if experiment.analysis != AnalysisMethod.FIXED or experiment.status == Status.DRAFT:
        return None
    bring_up_to_date(experiment, now)
    return fixed_reading(experiment, now)


def has_events(experiment: Experiment, now: datetime) -> bool:
    """Return whether the events since the start are still there: until the results are frozen, or may be reopened."""
    experiments = Experiment.objects.filter(pk=experiment.pk)
    return experiments.measured_by_events().exists() or experiments.reopenable(now).exists()


def read_unknown_variants(experiment: Experiment) -> int:
    """Return the number of events that report a variant which the experiment does not have."""
    stored = _read(experiment)
    return int(stored["eventsOfUnknownVariants"]) if stored else events_of_unknown_variants(experiment).count()


def read_doubted_reports(experiment: Experiment) -> int:
    """Return the number of reports by client keys of variants that the hash does not give."""
    stored = _read(experiment)
    return int(stored["doubtedReports"]) if stored else doubted_reports(experiment).count()


def read_never_received(experiment: Experiment, definitions: Collection[Definition]) -> set[str]:
    """Return the names of events of these metrics that were never received."""
    stored = _read(experiment)
    if stored is None:
        return never_received(definitions, experiment.environment)
    return set(stored["neverReceived"])


def read_all_ages(
    experiment: Experiment, metric_indexes: Sequence[int], now: datetime, caps: Caps
) -> list[dict[int, MetricSums]]:
    """Return, for each day since the exposure, the sums over what users did on that day, by phase.

    The sums of all these metrics are together; those of quantiles are left out. Frozen results have what was stored.
    """
    stored = _read(experiment)
    definitions = definitions_of(experiment)
    days: list[dict[int, MetricSums]] = []
    for metric_index in (index for index in metric_indexes if can_be_split(definitions[index])):
        if stored is None:
            of_metric = read_ages(experiment, metric_index, now, caps)
        else:
            of_metric = _parse_days(stored["daysSinceExposure"][str(metric_index)])
        days += [{} for _ in of_metric[len(days) :]]
        for day, by_phase in zip(days, of_metric, strict=False):
            for phase, sums in by_phase.items():
                day[phase] = {**day.get(phase, {}), **sums}
    return days


def _days_since_exposure(experiment: Experiment, now: datetime, reading: FixedReading | None) -> Document:
    """Return the sums by days since the exposure as JSON, by the index of the metric; as of the reading if any."""
    caps = read_caps(experiment)
    if reading is not None:
        experiment, now, caps = as_if_stopped(experiment, reading.instant), reading.instant, reading.caps
    return {
        str(index): [
            [
                {"phase": phase, "metric": label, "variant": variant, **sums.as_json()}
                for phase, by_metric in day.items()
                for label, by_variant in by_metric.items()
                for variant, sums in by_variant.items()
            ]
            for day in read_ages(experiment, index, now, caps)
        ]
        for index, definition in enumerate(definitions_of(experiment))
        if can_be_split(definition)
    }


def _parse_days(days: Sequence[Sequence[Document]]) -> Sequence[Mapping[int, MetricSums]]:
    return [_parse_day(rows) for rows in days]


def _parse_day(rows: Sequence[Document]) -> Mapping[int, MetricSums]:
    by_phase: dict[int, dict[int, dict[str, ExactSums]]] = {}
    for row in rows:
        sums = dict(row)
        phase, label, variant = (sums.pop(name) for name in ("phase", "metric", "variant"))
        by_phase.setdefault(phase, {}).setdefault(label, {})[variant] = exact_sums(**sums)
    return by_phase


def read_data_audit(experiment: Experiment) -> DataAudit:
    """Return the audit of the data of a started experiment. What does not need the events is never stored."""
    stored = _read(experiment)
    with planned(**_WITHOUT_STATISTICS):
        similar_ids, large_values = count_similar_ids(experiment), [*find_large_values(experiment)]
        if not stored:
            before, assignments = count_events_before_exposure(experiment), audit_assignments(experiment)
            return DataAudit(before, assignments, find_unexposed(experiment), similar_ids, large_values)
    before, assignments = stored["eventsBeforeExposure"], parse_assignment_audit(stored["assignments"])
    unexposed = Unexposed(**stored["unexposed"]) if "unexposed" in stored else None
    return DataAudit(before, assignments, unexposed, similar_ids, large_values)


def _read(experiment: Experiment) -> Document | None:
    if experiment.frozen_at is None:
        return None
    states = ResultState.objects.filter(experiment=experiment)
    stored: Document | None = states.values_list("archive", flat=True).first()
    return stored
