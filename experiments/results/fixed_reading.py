"""The one reading of a fixed analysis: the sums as of the instant at which every variant had its planned users.

It is not before the shortest run is over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Count, F, QuerySet

from config.database.commit_order import is_watermark_of_this_database
from config.database.engines import is_distributed
from config.database.planning import IN_ONE_PASS, planned
from config.database.transactions import read_consistently
from config.documents import Document
from config.timestamps import floor_to_second, format_timestamp, parse_timestamp
from experiments.metrics.definition import Definition, definitions_of, primary_of
from experiments.models import EXPOSURE, AnalysisMethod, Experiment, Exposure, ResultState
from experiments.models.locks import lock_results
from experiments.models.phases import group_by_split
from experiments.models.plan import remaining_run
from experiments.results.caps import find_by_rank, find_cap
from experiments.results.changed_users import has_changes
from experiments.results.expressions import Microseconds
from experiments.results.quantiles import Quantiles, compute_quantiles, parse_quantiles, quantiles_as_json
from experiments.results.series import Changes, Key, compute_changes, finished_days
from experiments.results.sums import (
    Caps,
    ExactSums,
    Phases,
    SumsAsOf,
    exact_sums,
    pool,
    read_phases,
    sum_values,
    summing_of,
)
from experiments.results.values import (
    as_if_stopped,
    computed_values,
    exposed_users,
    in_several_variants,
    source_of,
)
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


def fixed_reading(experiment: Experiment, now: datetime) -> FixedReading | None:
    """Return the reading of a fixed analysis, or None until its instant.

    Readers first call `results.refresh.bring_up_to_date`.

    The first call after the instant stores it, in a transaction of its own or the caller's. Events and exposures until
    the instant that arrive later change it for one more day: clients send late, and imports come in parts. A result
    must not depend on whether somebody looked between two of them. Afterwards, it never changes. An experiment that
    stops before the instant has no reading, even if the stop was dated back after the reading.
    """
    stored = ResultState.objects.filter(experiment=experiment).values_list("reading", flat=True).first()
    is_due = _is_due(stored, experiment, now) if stored else find_instant(experiment, now) is not None
    if not is_due or not Experiment.objects.measured_by_events().filter(pk=experiment.pk).exists():
        return _in_force(stored, experiment)
    # One pass over the events takes a while, so it comes before the lock.
    with read_consistently():
        computed = _compute(Experiment.objects.get(pk=experiment.pk), now)
    return _store(computed, experiment, now, replaced=stored)


def forget_open_reading(state: ResultState) -> None:
    """Delete a reading that late events can still change, because the data of a user go. The next reader computes it.

    The caller holds the lock of the state.
    """
    ResultState.objects.filter(pk=state.pk, reading__openUntil__isnull=False).update(reading=None)


def _is_due(stored: Document, experiment: Experiment, now: datetime) -> bool:
    """Return whether a stored reading is to be computed again."""
    if "openUntil" not in stored:
        return False
    watermark, is_over = stored["watermark"], now >= parse_timestamp(stored["openUntil"])
    if is_over or not is_watermark_of_this_database(watermark):
        return True
    return has_changes(experiment, watermark, until=parse_timestamp(stored["instant"]))


def _in_force(stored: Document | None, experiment: Experiment) -> FixedReading | None:
    reading = _parse(stored) if stored else None
    is_void = reading and experiment.stopped_at is not None and reading.instant > experiment.stopped_at
    return None if is_void else reading


def _compute(experiment: Experiment, now: datetime) -> tuple[FixedReading, str] | None:
    """Return the reading with the watermark of what it covers at least."""
    instant = find_instant(experiment, now)
    if instant is None:
        return None
    watermark = ResultState.objects.values_list("watermark", flat=True).get(experiment=experiment)
    stopped = as_if_stopped(experiment, instant)
    with planned(**IN_ONE_PASS):
        caps = find_caps(stopped)
        sums, changes = sums_until_stop(stopped, caps), compute_changes(stopped, caps)
    return FixedReading(instant, sums, _quantiles_as_of(experiment, instant), caps, changes), watermark


def _store(
    computed: tuple[FixedReading, str] | None, experiment: Experiment, now: datetime, *, replaced: Document | None
) -> FixedReading | None:
    """Store a reading instead of another one, and return it, or the one that another reader has stored meanwhile.

    The answer is None if the experiment was stopped meanwhile as of a moment before the reading.
    """
    with transaction.atomic():
        [state] = lock_results([experiment.pk])
        stored = ResultState.objects.values_list("reading", flat=True).get(pk=state.pk)
        current = Experiment.objects.get(pk=experiment.pk)
        if stored == replaced:
            if computed is None or find_instant(current, now) != computed[0].instant:
                computed = _compute(current, now)
            if computed is not None:
                reading, watermark = computed
                until = parse_timestamp(replaced["openUntil"]) if replaced else now + FOR_LATE_EVENTS
                stored = _as_json(replace(reading, open_until=until if now < until else None), watermark)
                ResultState.objects.filter(pk=state.pk).update(reading=stored)
        return _in_force(stored, current)


# the sums as of a moment, from events alone


def find_caps(stopped: Experiment) -> Caps:
    """Return the caps as of the stop. Each one at a percentile takes two passes over the events of its metric."""
    source = source_of(stopped)
    found = {
        number: find_cap(definition, computed_values(source.of_metrics([number])))
        for number, definition in source.definitions.items()
    }
    return {number: float(cap) for number, cap in found.items() if cap is not None}


def sums_until_stop(stopped: Experiment, caps: Caps) -> SumsAsOf:
    """Return the sums at the stop. Users whose window is not over then have values of 0."""
    assert stopped.stopped_at is not None  # noqa: S101 (see `as_if_stopped`)
    source = source_of(stopped)
    spans = {definition.span for definition in source.definitions.values() if definition.span is not None}
    boundaries = {span: floor_to_second(stopped.stopped_at - span) + _SECOND for span in spans}
    values = computed_values(replace(source, mature_by=boundaries))
    by_phase: dict[int, dict[int, dict[str, ExactSums]]] = {}
    exposed = source.exposures.values_list("phase", "variant")
    several = Count("user_id", filter=in_several_variants(stopped))
    for phase, variant, users, in_several in exposed.annotate(users=Count("user_id"), several=several):
        sums = ExactSums(users=users, in_several_variants=in_several)
        by_phase.setdefault(phase, {}).setdefault(EXPOSURE, {})[variant] = sums
    for (number, variant, phase), sums in sum_values(values, summing_of(stopped, caps), ("phase",)).items():
        by_phase.setdefault(phase, {}).setdefault(number, {})[variant] = sums
    counts = {span: _count_users(exposed.filter(exposed_at__lt=before)) for span, before in boundaries.items()}
    return SumsAsOf(by_phase, {span: by_phase for span, by_phase in counts.items() if by_phase})


def _count_users(exposed: QuerySet[Exposure, Any]) -> Mapping[int, Mapping[str, int]]:
    counts: dict[int, dict[str, int]] = {}
    for phase, variant, users in exposed.annotate(users=Count("user_id")):
        counts.setdefault(phase, {})[variant] = users
    return counts


def _quantiles_as_of(experiment: Experiment, instant: datetime) -> Mapping[frozenset[int], Quantiles]:
    stopped = as_if_stopped(experiment, instant)
    starts = [parse_timestamp(phase["startedAt"]) for phase in experiment.phases]
    begun = [number for number, start in enumerate(starts, start=1) if start <= instant]
    sets = [*group_by_split(experiment.phases, begun), *([number] for number in begun)]
    return {frozenset(phases): compute_quantiles(stopped, instant, phases) for phases in sets}


def find_instant(experiment: Experiment, now: datetime) -> datetime | None:
    """Return the instant at which every variant had its planned number of users who are mature for the primary metric.

    It is not before the shortest run is over. None where there is no fixed plan, or where `now` or the stop comes
    first. The sums must be up to date.
    """
    primary = primary_of(definitions_of(experiment))
    planned_users = planned_by_variant(experiment)
    if primary is None or not planned_users or not _has_enough_users(experiment, planned_users):
        return None
    instants = [_nth_mature(experiment, primary, variant, number) for variant, number in planned_users.items()]
    reached = [instant for instant in instants if instant is not None]
    if len(reached) < len(instants):
        return None
    end = now if experiment.stopped_at is None else min(now, experiment.stopped_at)
    instant = max(*reached, end + remaining_run(experiment, end))
    return instant if instant <= end else None


def _has_enough_users(experiment: Experiment, planned_users: Mapping[str, int]) -> bool:
    """Return whether the sums have the planned numbers of users, which takes less time than ordering the exposures."""
    exposed = pool(read_phases(experiment)).get(EXPOSURE, {})
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
    moment = _nth_exposure(exposed_users(experiment).filter(variant=variant), number)
    if moment is None or primary.span is None:
        return moment
    return floor_to_second(moment) + primary.span


def _nth_exposure(exposures: QuerySet[Exposure], number: int) -> datetime | None:
    if not is_distributed():
        return next(
            iter(exposures.order_by("exposed_at").values_list("exposed_at", flat=True)[number - 1 : number]), None
        )
    earliness = -Microseconds(F("exposed_at"))
    found = find_by_rank(exposures.annotate(earliness=earliness), "earliness", number - 1)
    return None if found is None else _EPOCH - timedelta(microseconds=int(found))


# as JSON


def _as_json(reading: FixedReading, watermark: str) -> Document:
    is_open = {"openUntil": format_timestamp(reading.open_until), "watermark": watermark} if reading.open_until else {}
    return {
        **is_open,
        "instant": format_timestamp(reading.instant),
        "sums": [
            {"phase": phase, "metric": number, "variant": variant, **sums.as_json()}
            for phase, by_metric in reading.sums.by_phase.items()
            for number, by_variant in by_metric.items()
            for variant, sums in by_variant.items()
        ],
        "mature": [
            {"seconds": span // _SECOND, "phase": phase, "variant": variant, "users": users}
            for span, by_phase in reading.sums.mature.items()
            for phase, by_variant in by_phase.items()
            for variant, users in by_variant.items()
        ],
        "quantiles": [
            {"phases": sorted(phases), "metrics": quantiles_as_json(quantiles)}
            for phases, quantiles in reading.quantiles.items()
        ],
        "caps": {str(number): cap for number, cap in reading.caps.items()},
        "changes": [
            {**_label(label), "variant": variant, "phase": phase, "day": day.isoformat(), **sums.as_json()}
            for (label, variant, phase, day), sums in reading.changes.items()
        ],
    }


def _label(label: int | timedelta) -> Mapping[str, int]:
    return {"seconds": label // _SECOND} if isinstance(label, timedelta) else {"metric": label}


def _parse(document: Mapping[str, Any]) -> FixedReading:
    by_phase: dict[int, dict[int, dict[str, ExactSums]]] = {}
    for row in document["sums"]:
        phase, number, variant = (row[name] for name in ("phase", "metric", "variant"))
        sums = {name: value for name, value in row.items() if name not in ("phase", "metric", "variant")}
        by_phase.setdefault(phase, {}).setdefault(number, {})[variant] = exact_sums(**sums)
    mature: dict[timedelta, dict[int, dict[str, int]]] = {}
    for row in document["mature"]:
        by_variant = mature.setdefault(row["seconds"] * _SECOND, {}).setdefault(row["phase"], {})
        by_variant[row["variant"]] = row["users"]
    quantiles = {frozenset(row["phases"]): parse_quantiles(row["metrics"]) for row in document["quantiles"]}
    caps = {int(number): cap for number, cap in document["caps"].items()}
    changes = dict(map(_parse_change, document["changes"]))
    instant, until = parse_timestamp(document["instant"]), document.get("openUntil")
    sums_then = SumsAsOf(by_phase, mature)
    return FixedReading(instant, sums_then, quantiles, caps, changes, until and parse_timestamp(until))


def _parse_change(row: Mapping[str, Any]) -> tuple[Key, ExactSums]:
    sums = dict(row)
    label = sums.pop("metric") if "metric" in sums else sums.pop("seconds") * _SECOND
    key = label, sums.pop("variant"), sums.pop("phase"), date.fromisoformat(sums.pop("day"))
    return key, exact_sums(**sums)
