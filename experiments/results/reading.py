"""Reading everything that one answer needs from the database, all of the same moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta

from config.database.transactions import read_consistently
from experiments.metrics.definition import Definition
from experiments.models import Experiment, Status
from experiments.results.archive import (
    has_events,
    read_all_ages,
    read_data_audit,
    read_doubted_reports,
    read_never_received,
    read_unknown_variants,
)
from experiments.results.breakdown import Slice as SliceSums
from experiments.results.breakdown import read_breakdown
from experiments.results.classification import NO_EXPOSURES
from experiments.results.figures import Facts, SlicePart, Steps, WaitingUsers
from experiments.results.fixed_reading import FixedReading, fixed_reading
from experiments.results.maturity import MatureSums, read_mature
from experiments.results.planned_reading import PlannedReading, planned_readings
from experiments.results.quantiles import QuantileReader
from experiments.results.refresh import bring_series_up_to_date, bring_up_to_date
from experiments.results.series import read_series
from experiments.results.study import ByPhase, KeptUsers, SplitQuantiles, Study
from experiments.results.sums import Caps, ExactSums, MetricSums, SumsAsOf, read_caps, read_phases, step_number
from experiments.results.types import DataAudit, Maturity, Waiting
from experiments.results.unexposed import NOBODY_UNEXPOSED
from experiments.results.user_groups import NOBODY, Counted, UserGroup, pool_groups, pooled
from experiments.results.values import as_if_stopped

MatureUsers = Mapping[int, Mapping[str, int]]
"""The users who are mature, by the index of the metric and by variant."""


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for beyond the figures of all metrics."""

    has_days: bool = False
    has_ages: bool = False
    breakdown: str | None = None
    has_assignment_audit: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """All data of one answer, read at one moment. Parts not requested are empty.

    `exposed` has all exposed users. `counting` has those who count: mature ones or all, as was asked for. Once a fixed
    analysis is read, everything but `exposed`, the events of unknown variants, the doubted reports and the audit is as
    of the reading, at `read_at`; until `open_until`, late data still change it. The slices are as of `slices_as_of`: of
    the reading, or of the end where its events may be gone. `kept` are the readings at the planned size of a sequential
    analysis, by the index of the metric and treatment.

    If each part were read at its own moment, a series would not end with the totals, and slices would not add up.
    """

    exposed: ByPhase
    counting: ByPhase
    facts: Facts
    events_of_unknown_variants: int = 0
    doubted_reports: int = 0
    maturity: Maturity = "mature"
    quantiles: SplitQuantiles = ()
    read_at: datetime | None = None
    open_until: datetime | None = None
    days: Sequence[tuple[date, ByPhase]] = ()
    ages: Sequence[tuple[int, ByPhase]] = ()
    slices: Sequence[SlicePart] = ()
    slices_as_of: datetime | None = None
    kept: Mapping[tuple[int, str], KeptUsers] = field(default_factory=dict)
    audit: DataAudit | None = None


def is_draft(experiment: Experiment) -> bool:
    return experiment.status == Status.DRAFT


def read_results(study: Study, now: datetime, request: Request) -> Reading:
    """Bring the experiment up to date, and read all data at one moment."""
    experiment = study.experiment
    bring_up_to_date(experiment, now)
    if is_draft(experiment):
        return _of_draft(study, request)
    fixed = fixed_reading(experiment, now) if study.design.plan.analysis == "fixed" else None
    planned = planned_readings(experiment, now) if study.is_as_planned else ()
    if fixed is None and request.has_days:
        bring_series_up_to_date(experiment, now)
    with read_consistently():
        quantiles = QuantileReader(experiment, now)
        reading = _as_of_now(study, now, request, quantiles) if fixed is None else _as_read(study, now, request, fixed)
        reading = replace(
            reading,
            events_of_unknown_variants=read_unknown_variants(experiment),
            doubted_reports=read_doubted_reports(experiment),
            kept=_kept(study, planned),
            audit=read_data_audit(experiment) if request.has_assignment_audit else None,
        )
    quantiles.store()
    return reading


def _as_of_now(study: Study, now: datetime, request: Request, quantiles: QuantileReader) -> Reading:
    experiment, caps = study.experiment, read_caps(study.experiment)
    sums = read_mature(experiment, now, caps)
    exposed = {number: UserGroup(of_phase) for number, of_phase in sums.everybody.items()}
    mature = _as_of(study, sums.sums)
    slices = _Slices(experiment, caps, now, study.maturity)
    return Reading(
        exposed=exposed,
        counting=mature if study.maturity == "mature" else exposed,
        facts=_facts(study, sums, caps, exposed, mature),
        maturity=study.maturity,
        quantiles=[quantiles.over(numbers, study.maturity) for numbers in study.splits],
        days=_days(study, read_series(experiment, now, study.phases), now, mature) if request.has_days else (),
        ages=_ages(read_all_ages(experiment, study.metric_indexes, now, caps)) if request.has_ages else (),
        slices=_read_slices(study, request, slices),
        slices_as_of=now,
    )


def _as_read(study: Study, now: datetime, request: Request, fixed: FixedReading) -> Reading:
    """Return the figures of the one reading. Those that are not stored come from the events until then."""
    experiment, caps = as_if_stopped(study.experiment, fixed.instant), fixed.caps
    exposed = {number: UserGroup(sums) for number, sums in read_phases(experiment).items()}
    counting, slices_as_of = _as_of(study, fixed.sums), fixed.instant
    slices = _Slices(experiment, caps, fixed.instant, "mature", is_computed=True)
    if not has_events(experiment, now):
        slices_as_of = study.experiment.counted_by(now)
        slices = _Slices(study.experiment, caps, slices_as_of, "mature")
    mature = _mature_users(study, counting)
    return Reading(
        exposed=exposed,
        counting=counting,
        facts=Facts(caps, mature, steps=_steps(study, counting), never_received=_never_received(study, exposed)),
        quantiles=[fixed.quantiles_over(numbers) for numbers in study.splits],
        read_at=fixed.instant,
        open_until=fixed.open_until,
        days=_days(study, fixed.days(study.phases), fixed.instant, counting) if request.has_days else (),
        ages=_ages(read_all_ages(experiment, study.metric_indexes, fixed.instant, caps)) if request.has_ages else (),
        slices=_read_slices(study, request, slices),
        slices_as_of=slices_as_of,
    )


def _kept(study: Study, readings: Iterable[PlannedReading]) -> Mapping[tuple[int, str], KeptUsers]:
    """Return the users of each reading at the planned size, for the goals that it is about."""
    kept = {}
    for planned in readings:
        reading = planned.reading
        quantiles = [reading.quantiles_over(numbers) for numbers in study.splits]
        users = KeptUsers(reading.instant, _as_of(study, reading.sums), quantiles)
        of_span = (index for index, definition in enumerate(study.definitions) if definition.span == planned.span)
        kept.update({(index, planned.variant): users for index in of_span})
    return kept


def _of_draft(study: Study, request: Request) -> Reading:
    return Reading(
        exposed={},
        counting={},
        facts=Facts(never_received=_never_received(study, {})),
        events_of_unknown_variants=read_unknown_variants(study.experiment),
        audit=DataAudit(0, NO_EXPOSURES, NOBODY_UNEXPOSED) if request.has_assignment_audit else None,
    )


def _facts(study: Study, sums: MatureSums, caps: Caps, exposed: ByPhase, mature: ByPhase) -> Facts:
    of_metrics = _mature_users(study, mature)
    return Facts(
        caps=caps,
        mature=of_metrics,
        waiting=_waiting(study, sums, pooled(exposed, study.phases).users, of_metrics) if of_metrics else {},
        steps=_steps(study, mature if study.maturity == "mature" else exposed),
        never_received=_never_received(study, exposed),
    )


def _steps(study: Study, by_phase: ByPhase) -> Steps:
    """Return the users who passed each step of a funnel, by the index of the metric and by variant key."""
    group = pooled(by_phase, study.phases)
    return {
        index: {
            key: [
                group.sums.get(step_number(index, step), {}).get(key, NOBODY).users
                for step in range(1, len(definition.steps) + 1)
            ]
            for key in group.users
        }
        for index, definition in enumerate(study.definitions)
        if definition.steps
    }


def _mature_users(study: Study, by_phase: ByPhase) -> MatureUsers:
    return {index: counted.users for index, counted in pooled(by_phase, study.phases).counted.items()}


def _days(
    study: Study, past: Iterable[tuple[date, SumsAsOf]], now: datetime, present: ByPhase
) -> list[tuple[date, ByPhase]]:
    """Return the users who counted at the end of each day. The last day is that of this moment, or of the end."""
    until = study.experiment.counted_by(now).astimezone(UTC).date()
    return [*((day, _as_of(study, sums)) for day, sums in past), (until, present)]


def _ages(days: Iterable[Mapping[int, MetricSums]]) -> list[tuple[int, ByPhase]]:
    """Return the sums over what users did on each day since their exposure. All users count whose day is over."""
    return [(day, {number: UserGroup(sums) for number, sums in by_phase.items()}) for day, by_phase in enumerate(days)]


def _as_of(study: Study, sums: SumsAsOf) -> ByPhase:
    """Return the users by phase, given the sums as of a moment."""
    spans = {index: definition.span for index, definition in enumerate(study.definitions) if definition.span}
    return {
        number: UserGroup(
            of_phase,
            {
                index: Counted(sums.mature.get(span, {}).get(number, {}), of_phase.get(index, {}))
                for index, span in spans.items()
            },
        )
        for number, of_phase in sums.by_phase.items()
    }


def _never_received(study: Study, by_phase: ByPhase) -> Mapping[int, Sequence[str]]:
    """Return the names that were never received, by the index of their metric.

    They are looked for only where some event of a metric may be missing.
    """
    sums = pool_groups(by_phase.values()).sums
    suspects = {
        index: definition
        for index, definition in enumerate(study.definitions)
        if not _has_all_events(definition, sums.get(index, {}).values())
    }
    names = read_never_received(study.experiment, suspects.values()) if suspects else set()
    return {index: sorted(definition.events & names) for index, definition in suspects.items()}


def _has_all_events(definition: Definition, by_variant: Iterable[ExactSums]) -> bool:
    """Return whether the sums show that every event of a metric has happened."""
    of_all = list(by_variant)
    if definition.steps:
        return any(sums.value for sums in of_all)
    has_denominator = definition.denominator is None or any(sums.denominator for sums in of_all)
    return has_denominator and any(sums.events for sums in of_all)


def _waiting(study: Study, sums: MatureSums, exposed: Mapping[str, int], mature: MatureUsers) -> WaitingUsers:
    """Return the users whose windows can still end; none after the end of counting."""
    ends_at = study.experiment.counting_ends_at
    if ends_at is not None and ends_at <= sums.end:
        return {}
    halves: dict[tuple[timedelta, str], datetime] = {}
    waiting: dict[int, dict[str, Waiting]] = {}
    for metric_index, counted_users in mature.items():
        span = study.definitions[metric_index].span or timedelta(0)
        for key, users in exposed.items():
            if number := users - counted_users.get(key, 0):
                if (span, key) not in halves:
                    halves[span, key] = sums.half_mature_at(span, study.phases, key)
                waiting.setdefault(metric_index, {})[key] = Waiting(number, halves[span, key])
    return waiting


@dataclass(frozen=True, slots=True)
class _Slices:
    """Where the slices come from, and who counts at which moment."""

    experiment: Experiment
    caps: Caps
    now: datetime
    maturity: Maturity
    is_computed: bool = False


def _read_slices(study: Study, request: Request, source: _Slices) -> Sequence[SlicePart]:
    if request.breakdown is None:
        return []
    parts = read_breakdown(
        source.experiment,
        request.breakdown,
        source.caps,
        study.phases,
        now=source.now,
        maturity=source.maturity,
        splits=study.splits,
        is_computed=source.is_computed,
    )
    return [_slice(study, part, source) for part in parts]


def _slice(study: Study, part: SliceSums, source: _Slices) -> SlicePart:
    everybody = {number: UserGroup(sums) for number, sums in part.sums.by_phase.items()}
    mature = _as_of(study, part.sums)
    by_phase = mature if source.maturity == "mature" else everybody
    facts = Facts(caps=source.caps, mature=_mature_users(study, mature), steps=_steps(study, by_phase))
    return SlicePart(part.value, part.is_rest, by_phase, facts, part.quantiles)
