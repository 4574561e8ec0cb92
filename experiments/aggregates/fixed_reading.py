"""The one reading of a fixed analysis: the sums as of the instant at which every variant had its planned users."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db import transaction

from config.database.consistent_reads import read_consistently
from config.documents import Document
from config.timestamps import floor_to_second, format_timestamp, parse_timestamp
from experiments.aggregates.as_of import as_if_stopped, find_caps, sums_until_stop
from experiments.aggregates.changed_users import has_changes
from experiments.aggregates.dialects import Parameters, dialect
from experiments.aggregates.history import Changes, Key, compute_changes, finished_days
from experiments.aggregates.marks import usable_mark
from experiments.aggregates.quantiles import Quantiles, compute_quantiles, parse_quantiles, quantiles_document
from experiments.aggregates.ranks import find_by_rank
from experiments.aggregates.statements import exposed_users
from experiments.aggregates.variant_sums import (
    EXPOSURES,
    Caps,
    Phases,
    SumsAsOf,
    VariantTotals,
    as_totals,
    pool,
    read_phases,
)
from experiments.design.phases import group_by_split
from experiments.metrics.definition import Definition, primary_of
from experiments.metrics.documents import definitions_of
from experiments.models import AggregateState, AnalysisMethod, Experiment
from experiments.models.locks import lock_aggregates
from experiments.stats.plans import split_size
from experiments.stats.types import Weight

_EPOCH, _SECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(seconds=1)
FOR_LATE_EVENTS = timedelta(days=1)
"""How long results stay open after a stop or a reading, because clients may send events late."""


@dataclass(frozen=True, slots=True)
class FixedReading:
    """The one reading of a fixed analysis, as of the instant at which every variant had its planned mature users.

    `changes` lead day by day to the sums, and `caps` are those of all these sums. `quantiles` are by the numbers of the
    phases: those of each split together, and each one alone.
    """

    instant: datetime
    sums: SumsAsOf
    quantiles: Mapping[frozenset[int], Quantiles]
    caps: Caps = field(default_factory=dict)
    changes: Changes = field(default_factory=dict)
    open_until: datetime | None = None
    """Until when events and exposures that arrive late change the reading; None once it is final."""

    def quantiles_over(self, phases: Collection[int]) -> Quantiles:
        """Return the quantiles over these phases, of which some may have begun after the reading."""
        begun = frozenset[int]().union(*self.quantiles)
        return self.quantiles.get(begun & set(phases), {})

    def days(self, phases: Phases = None) -> Iterator[tuple[date, SumsAsOf]]:
        """Yield each day that was over at the reading, with the sums over the users of these phases as of its end."""
        return finished_days(self.changes, self.instant, phases)


def fixed_reading(experiment: Experiment, at: datetime) -> FixedReading | None:
    """Return the reading of a fixed analysis, or None until its instant. `at` is the present moment.

    Readers first call `experiments.exposures.up_to_date.bring_up_to_date`.

    The first call after the instant stores it, in a transaction of its own or the caller's. Events and exposures until
    the instant that arrive later change it for one more day: clients send late, and imports come in parts. A result
    must not depend on whether somebody looked between two of them. Afterwards, it never changes. An experiment that
    stops before the instant has no reading, even if the stop was dated back after the reading.
    """
    stored = AggregateState.objects.filter(experiment=experiment).values_list("reading", flat=True).first()
    is_due = _is_due(stored, experiment, at) if stored else find_instant(experiment, at) is not None
    if not is_due or not Experiment.objects.measured_by_events().filter(pk=experiment.pk).exists():
        return _in_force(stored, experiment)
    # One pass over the events takes a while, so it comes before the lock.
    with read_consistently():
        computed = _compute(Experiment.objects.get(pk=experiment.pk), at)
    return _store(computed, experiment, at, replaced=stored)


def forget_open_reading(state: AggregateState) -> None:
    """Delete a reading that late events can still change, because the data of a user go. The next reader computes it.

    The caller holds the lock of the state.
    """
    AggregateState.objects.filter(pk=state.pk, reading__openUntil__isnull=False).update(reading=None)


def _is_due(stored: Document, experiment: Experiment, at: datetime) -> bool:
    """Return whether a stored reading is to be computed again."""
    if "openUntil" not in stored:
        return False
    mark = usable_mark(stored["mark"])
    is_over = at >= parse_timestamp(stored["openUntil"])
    return is_over or mark is None or has_changes(experiment, mark, until=parse_timestamp(stored["instant"]))


def _in_force(stored: Document | None, experiment: Experiment) -> FixedReading | None:
    reading = _parse(stored) if stored else None
    is_void = reading and experiment.stopped_at is not None and reading.instant > experiment.stopped_at
    return None if is_void else reading


def _compute(experiment: Experiment, at: datetime) -> tuple[FixedReading, str] | None:
    """Return the reading with the mark of what it covers at least."""
    instant = find_instant(experiment, at)
    if instant is None:
        return None
    mark = AggregateState.objects.values_list("mark", flat=True).get(experiment=experiment)
    stopped = as_if_stopped(experiment, instant)
    caps = find_caps(stopped)
    sums, changes = sums_until_stop(stopped, caps), compute_changes(stopped, caps)
    return FixedReading(instant, sums, _quantiles_as_of(experiment, instant), caps, changes), mark


def _store(
    computed: tuple[FixedReading, str] | None, experiment: Experiment, at: datetime, *, replaced: Document | None
) -> FixedReading | None:
    """Store a reading instead of another one, and return it, or the one that another reader has stored meanwhile.

    The answer is None if the experiment was stopped meanwhile as of a moment before the reading.
    """
    with transaction.atomic():
        [state] = lock_aggregates([experiment.pk])
        current = Experiment.objects.get(pk=experiment.pk)
        if state.reading == replaced:
            if computed is None or find_instant(current, at) != computed[0].instant:
                computed = _compute(current, at)
            if computed is not None:
                reading, mark = computed
                until = parse_timestamp(replaced["openUntil"]) if replaced else at + FOR_LATE_EVENTS
                state.reading = _document(replace(reading, open_until=until if at < until else None), mark)
                state.save(update_fields=["reading"])
        return _in_force(state.reading, current)


def _quantiles_as_of(experiment: Experiment, instant: datetime) -> Mapping[frozenset[int], Quantiles]:
    stopped = as_if_stopped(experiment, instant)
    starts = [parse_timestamp(phase["startedAt"]) for phase in experiment.phases]
    begun = [number for number, start in enumerate(starts, start=1) if start <= instant]
    sets = [*group_by_split(experiment.phases, begun), *([number] for number in begun)]
    return {frozenset(phases): compute_quantiles(stopped, instant, phases) for phases in sets}


def find_instant(experiment: Experiment, at: datetime) -> datetime | None:
    """Return the instant at which every variant had its planned number of users who are mature for the primary metric.

    None where there is no fixed plan, or where `at` or the stop comes first. The sums must be up to date.
    """
    primary = primary_of(definitions_of(experiment))
    planned_users = planned_by_variant(experiment)
    if primary is None or not planned_users or not _has_enough_users(experiment, planned_users):
        return None
    instants = [_nth_mature(experiment, primary, variant, number) for variant, number in planned_users.items()]
    reached = [instant for instant in instants if instant is not None]
    end = at if experiment.stopped_at is None else min(at, experiment.stopped_at)
    return max(reached) if len(reached) == len(instants) and max(reached) <= end else None


def _has_enough_users(experiment: Experiment, planned_users: Mapping[str, int]) -> bool:
    """Return whether the sums have the planned numbers of users, which takes less time than ordering the exposures."""
    exposed = pool(read_phases(experiment)).get(EXPOSURES, {})
    return all(variant in exposed and exposed[variant].users >= users for variant, users in planned_users.items())


def planned_by_variant(experiment: Experiment) -> Mapping[str, int]:
    """Return the planned number of users of each variant by the weights of the start; empty without a fixed plan."""
    size = (experiment.registration or {}).get("plannedSampleSize")
    if experiment.analysis != AnalysisMethod.FIXED or not size:
        return {}
    variants = experiment.phases[0]["variants"] if experiment.phases else experiment.variants
    return split_size(size, [Weight(variant["key"], variant["weight"]) for variant in variants])


def _nth_mature(experiment: Experiment, primary: Definition, variant: str, number: int) -> datetime | None:
    """Return the moment at which a variant had this number of mature users."""
    exposed, parameters = exposed_users(experiment).filter(variant=variant), Parameters()
    rows = parameters.put_all(*exposed.values("exposed_at").order_by().query.sql_with_params())
    earliness = f"-{dialect().microseconds.format('exposed_at')}"
    found = find_by_rank(earliness, f"({rows}) AS exposed", parameters, number - 1)
    if found is None:
        return None
    moment = _EPOCH - timedelta(microseconds=int(found))
    return moment if primary.span is None else floor_to_second(moment) + primary.span


# as JSON


def _document(reading: FixedReading, mark: str) -> Document:
    is_open = {"openUntil": format_timestamp(reading.open_until), "mark": mark} if reading.open_until else {}
    return {
        **is_open,
        "instant": format_timestamp(reading.instant),
        "sums": [
            {"phase": phase, "metric": index, "variant": variant, **_texts(totals)}
            for phase, by_metric in reading.sums.by_phase.items()
            for index, by_variant in by_metric.items()
            for variant, totals in by_variant.items()
        ],
        "mature": [
            {"seconds": span // _SECOND, "phase": phase, "variant": variant, "users": users}
            for span, by_phase in reading.sums.mature.items()
            for phase, by_variant in by_phase.items()
            for variant, users in by_variant.items()
        ],
        "quantiles": [
            {"phases": sorted(phases), "metrics": quantiles_document(quantiles)}
            for phases, quantiles in reading.quantiles.items()
        ],
        "caps": {str(index): cap for index, cap in reading.caps.items()},
        "changes": [
            {**_label(label), "variant": variant, "phase": phase, "day": day.isoformat(), **_texts(totals)}
            for (label, variant, phase, day), totals in reading.changes.items()
        ],
    }


def _label(label: int | timedelta) -> Mapping[str, int]:
    return {"seconds": label // _SECOND} if isinstance(label, timedelta) else {"metric": label}


def _texts(totals: VariantTotals) -> Mapping[str, Any]:
    """Return the sums by name, exact ones as texts, without zeros."""
    return {
        name: str(value) if isinstance(value, Decimal) else value for name, value in totals.document().items() if value
    }


def _parse(document: Mapping[str, Any]) -> FixedReading:
    by_phase: dict[int, dict[int, dict[str, VariantTotals]]] = {}
    for row in document["sums"]:
        phase, index, variant = (row[name] for name in ("phase", "metric", "variant"))
        sums = {name: value for name, value in row.items() if name not in ("phase", "metric", "variant")}
        by_phase.setdefault(phase, {}).setdefault(index, {})[variant] = as_totals(**sums)
    mature: dict[timedelta, dict[int, dict[str, int]]] = {}
    for row in document["mature"]:
        by_variant = mature.setdefault(row["seconds"] * _SECOND, {}).setdefault(row["phase"], {})
        by_variant[row["variant"]] = row["users"]
    quantiles = {frozenset(row["phases"]): parse_quantiles(row["metrics"]) for row in document["quantiles"]}
    caps = {int(index): cap for index, cap in document.get("caps", {}).items()}
    changes = dict(map(_parse_change, document.get("changes", ())))
    instant, until = parse_timestamp(document["instant"]), document.get("openUntil")
    sums_then = SumsAsOf(by_phase, mature)
    return FixedReading(instant, sums_then, quantiles, caps, changes, until and parse_timestamp(until))


def _parse_change(row: Mapping[str, Any]) -> tuple[Key, VariantTotals]:
    sums = dict(row)
    label = sums.pop("metric") if "metric" in sums else sums.pop("seconds") * _SECOND
    key = label, sums.pop("variant"), sums.pop("phase"), date.fromisoformat(sums.pop("day"))
    return key, as_totals(**sums)
