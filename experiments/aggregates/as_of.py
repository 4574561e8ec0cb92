"""The sums as of a moment, computed from events and exposures, and the one reading of a fixed analysis."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.db.models import Count

from config.database.consistent_reads import read_consistently
from config.documents import Document
from config.timestamps import floor_to_second, format_timestamp, parse_timestamp
from experiments.aggregates.dialects import fetch, planned
from experiments.aggregates.history import Changes, Key, compute_changes, finished_days
from experiments.aggregates.metric_columns import Layout
from experiments.aggregates.quantiles import Quantiles, compute_quantiles, parse_quantiles, quantiles_document
from experiments.aggregates.statements import IN_ONE_PASS, TotalsQuery, exposed_users
from experiments.aggregates.update import percentile_cap
from experiments.aggregates.variant_sums import (
    EXPOSURES,
    Caps,
    Counted,
    Mature,
    Phases,
    SumsAsOf,
    VariantTotals,
    as_totals,
    counted,
    pool,
    read_phases,
    sum_up,
)
from experiments.design.phases import group_by_split
from experiments.metrics.definition import Definition, primary_of
from experiments.metrics.documents import definitions_of
from experiments.models import AggregateState, AnalysisMethod, Experiment
from experiments.models.locks import lock_aggregates
from experiments.stats.plans import split_size
from experiments.stats.types import Weight

_SECOND = timedelta(seconds=1)


def sums_as_of(experiment: Experiment, moment: datetime) -> SumsAsOf:
    """Return the sums as if the experiment had been stopped and read at a moment, caps included.

    This takes one pass over the events until then, and two more for each cap at a percentile. It writes nothing.
    """
    stopped = as_if_stopped(experiment, moment)
    return _sums_until_stop(stopped, _find_caps(stopped))


def as_if_stopped(experiment: Experiment, moment: datetime) -> Experiment:
    """Return a copy of the experiment that was stopped at a moment, unless the experiment stopped before.

    What is computed from events is then as of that moment.
    """
    stopped = copy(experiment)
    stopped.stopped_at = moment if experiment.stopped_at is None else min(moment, experiment.stopped_at)
    return stopped


def _sums_until_stop(stopped: Experiment, caps: Caps) -> SumsAsOf:
    assert stopped.stopped_at is not None  # noqa: S101 (see `as_if_stopped`)
    moment, query = stopped.stopped_at, TotalsQuery(stopped)
    metrics = [_of_mature(metric, moment, query) for metric in counted(stopped, caps)]
    rows = f"({query.totals(None)}) AS computed"
    by_phase: dict[int, dict[int, dict[str, VariantTotals]]] = {}
    with planned(**IN_ONE_PASS):
        summed = sum_up(rows, ["variant", "phase"], metrics, query.parameters)
    for (index, variant, phase), totals in summed.items():
        by_phase.setdefault(phase, {}).setdefault(index, {})[variant] = totals
    return SumsAsOf(by_phase, _count_mature(stopped, definitions_of(stopped), moment))


def _of_mature(metric: Counted, moment: datetime, query: TotalsQuery) -> Counted:
    """Return the metric such that the values of users count as 0 whose window is not over at the moment."""
    if metric.definition.span is None:
        return metric
    before = query.parameters.put(_end_of_mature(moment, metric.definition.span))

    def figure(name: str) -> str:
        return f"CASE WHEN exposed_at < {before} THEN {metric.figure(name)} ELSE 0 END"

    return replace(metric, figure=figure)


def _end_of_mature(moment: datetime, span: timedelta) -> datetime:
    """Return the first time of an exposure, in whole seconds, that is too late to be mature at the moment."""
    return floor_to_second(moment - span) + _SECOND


def _find_caps(stopped: Experiment) -> Caps:
    with planned(**IN_ONE_PASS):
        caps = {index: _find_cap(stopped, definition) for index, definition in enumerate(definitions_of(stopped))}
    return {index: cap for index, cap in caps.items() if cap is not None}


def _find_cap(stopped: Experiment, definition: Definition) -> float | None:
    if definition.cap_percentile is None:
        return definition.cap_value

    def select(what: str, then: str = "") -> float:
        query = TotalsQuery(stopped)
        query.definitions = [definition]
        value = Layout([definition]).figure(0, "y")
        rows = f"(SELECT {value} AS value FROM ({query.totals(None)}) AS computed) AS valued WHERE value <> 0"  # noqa: S608
        [[selected]] = fetch(f"SELECT {what} FROM {rows} {then}", query.parameters)  # noqa: S608 (no data)
        return float(selected)

    number = int(select("COUNT(*)"))
    return percentile_cap(
        definition.cap_percentile, number, lambda rank: select("value", f"ORDER BY value DESC LIMIT 1 OFFSET {rank}")
    )


def _count_mature(stopped: Experiment, definitions: Sequence[Definition], moment: datetime) -> Mature:
    spans = {definition.span for definition in definitions if definition.span is not None}
    counts = {span: _count_exposed_before(stopped, _end_of_mature(moment, span)) for span in spans}
    return {span: by_phase for span, by_phase in counts.items() if by_phase}


def _count_exposed_before(stopped: Experiment, before: datetime) -> Mapping[int, Mapping[str, int]]:
    exposed = exposed_users(stopped).filter(exposed_at__lt=before).order_by()
    counts: dict[int, dict[str, int]] = {}
    for phase, variant, users in exposed.values_list("phase", "variant").annotate(users=Count("user_id")):
        counts.setdefault(phase, {})[variant] = users
    return counts


# the reading of a fixed analysis


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

    The first call after the instant stores it, in a transaction of its own or the caller's, and it never changes
    afterwards. An experiment that stops before has none, even if the stop was dated back after the reading.
    """
    stored = AggregateState.objects.filter(experiment=experiment).values_list("reading", flat=True).first()
    if stored:
        reading = _parse(stored)
        return reading if experiment.stopped_at is None or reading.instant <= experiment.stopped_at else None
    if find_instant(experiment, at) is None or not Experiment.objects.measured_by_events().filter(pk=experiment.pk):
        return None
    # One pass over the events takes a while, so it comes before the lock.
    with read_consistently():
        computed = _compute_reading(Experiment.objects.get(pk=experiment.pk), at)
    return computed and _store_first(computed, experiment, at)


def _compute_reading(experiment: Experiment, at: datetime) -> FixedReading | None:
    instant = find_instant(experiment, at)
    if instant is None:
        return None
    stopped = as_if_stopped(experiment, instant)
    caps = _find_caps(stopped)
    sums, changes = _sums_until_stop(stopped, caps), compute_changes(stopped, caps)
    return FixedReading(instant, sums, _quantiles_as_of(experiment, instant), caps, changes)


def _store_first(computed: FixedReading, experiment: Experiment, at: datetime) -> FixedReading | None:
    """Store a reading and return it, or the one that another reader has stored meanwhile.

    The answer is None if the experiment was stopped meanwhile as of a moment before the reading.
    """
    with transaction.atomic():
        [state] = lock_aggregates([experiment.pk])
        current = Experiment.objects.get(pk=experiment.pk)
        if not state.reading:
            is_same = find_instant(current, at) == computed.instant
            if first := computed if is_same else _compute_reading(current, at):
                state.reading = _document(first)
                state.save(update_fields=["reading"])
        return _parse(state.reading) if state.reading else None


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
    exposed = exposed_users(experiment).filter(variant=variant).order_by("exposed_at")
    moment = exposed.values_list("exposed_at", flat=True)[number - 1 : number].first()
    return moment if moment is None or primary.span is None else floor_to_second(moment) + primary.span


# as JSON


def _document(reading: FixedReading) -> Document:
    return {
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
    return FixedReading(parse_timestamp(document["instant"]), SumsAsOf(by_phase, mature), quantiles, caps, changes)


def _parse_change(row: Mapping[str, Any]) -> tuple[Key, VariantTotals]:
    sums = dict(row)
    label = sums.pop("metric") if "metric" in sums else sums.pop("seconds") * _SECOND
    key = label, sums.pop("variant"), sums.pop("phase"), date.fromisoformat(sums.pop("day"))
    return key, as_totals(**sums)
