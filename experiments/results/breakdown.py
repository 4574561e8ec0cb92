"""Sums over users by the values of one of their attributes, as it was recorded at the exposure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import orjson
from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Value

from config.database.planning import IN_ONE_PASS, planned
from experiments.models import EXPOSURE, Experiment, Exposure, UserValue
from experiments.results.expressions import PlaceInList, Scalar
from experiments.results.maturity import Maturity, boundaries_of
from experiments.results.quantiles import Quantiles, compute_groups, has_quantiles
from experiments.results.sums import Caps, ExactSums, MetricSums, Phases, SumsAsOf, pool, sum_values, summing_of
from experiments.results.values import (
    computed_values,
    in_several_variants,
    source_of,
    stored_exposures,
    stored_values,
    with_exposures,
)
from experiments.stats.types import Quantile

MAX_VALUES = 20
_MAX_EXACT = 2.0**53

_PLACE = "place"
"""The place of a user's value in a list of values; after its end where no value was recorded, else NULL."""


@dataclass(frozen=True, slots=True)
class Slice:
    """The users with one value of the attribute; None where no value was recorded. `is_rest` means all other values.

    `sums` has the sums over the users who count, by phase, and the numbers of those who are mature for metrics with a
    window, whether others count or not (see `maturity`). `quantiles` are those over the phases of each split.
    """

    value: str | bool | float | None
    is_rest: bool
    sums: SumsAsOf
    quantiles: Sequence[Quantiles] = ()

    @property
    def totals(self) -> MetricSums:
        """Return the sums of all phases together."""
        return pool(self.sums.by_phase)

    @property
    def users(self) -> int:
        return sum(sums.users for sums in self.totals.get(EXPOSURE, {}).values())


def read_breakdown(
    experiment: Experiment,
    attribute: str,
    caps: Caps,
    phases: Phases = None,
    most: int = MAX_VALUES,
    now: datetime | None = None,
    maturity: Maturity = "mature",
    *,
    splits: Sequence[Collection[int]] = (),
    is_computed: bool = False,
) -> list[Slice]:
    """Return the sums of the users of these phases by attribute value, the most frequent first, and the rest last.

    `caps` are those in force (see `sums.read_caps`); at most `most` values have a slice of their own. Metrics with a
    window count the users who are mature at a moment, or everybody, by `maturity` or if there is no moment. Each metric
    that is a quantile takes statements for each of the `splits` of phases, which read events; frozen results have none.
    If `is_computed`, everything comes from events, and not from stored values: of an experiment as if it had been
    stopped at the moment (see `values.as_if_stopped`).
    """
    boundaries = {} if now is None else boundaries_of(experiment, now, source_of(experiment).definitions.values())
    limits = boundaries if maturity == "mature" else {}
    own = _frequent_values(experiment, attribute, phases, most)
    place = PlaceInList(F("own_exposure__attributes"), Value(attribute), own)
    reader = _computed if is_computed else _stored
    by_place: dict[int | None, dict[int, dict[int, dict[str, ExactSums]]]] = {}
    with planned(**IN_ONE_PASS) if is_computed else nullcontext():
        users, values = reader(experiment, phases, limits)
        exposed = _count_users(experiment, users, attribute, own, boundaries)
        placed = with_exposures(values, experiment).annotate(**{_PLACE: place})
        summed = sum_values(placed, summing_of(experiment, caps), (_PLACE, "phase"))
    mature: dict[int | None, dict[timedelta, dict[int, dict[str, int]]]] = {}
    for (at, phase, variant), (sums, counts) in exposed.items():
        by_place.setdefault(at, {}).setdefault(phase, {}).setdefault(EXPOSURE, {})[variant] = sums
        for span, number in counts.items():
            mature.setdefault(at, {}).setdefault(span, {}).setdefault(phase, {})[variant] = number
    for (number, variant, at, phase), sums in summed.items():
        by_place.setdefault(at, {}).setdefault(phase, {}).setdefault(number, {})[variant] = sums
    quantiles: Sequence[Mapping[int | None, Quantiles]] = ()
    if by_place and has_quantiles(experiment) and (is_computed or experiment.frozen_at is None):
        moment = now if maturity == "mature" else None
        quantiles = [_quantiles(experiment, moment, users, attribute, own, split) for split in splits]
    slices = [
        Slice(
            value=_parse(own[at]) if at is not None and at < len(own) else None,
            is_rest=at is None,
            sums=SumsAsOf(sums, mature.get(at, {})),
            quantiles=[of_split.get(at, {}) for of_split in quantiles],
        )
        for at, sums in by_place.items()
    ]
    return sorted(slices, key=lambda part: (part.is_rest, -part.users, str(part.value)))


def _frequent_values(experiment: Experiment, attribute: str, phases: Phases, most: int) -> list[str]:
    """Return the most frequent values as JSON, at most so many."""
    exposures = _of_phases(source_of(experiment).exposures, phases)
    valued = exposures.values(value=Scalar(F("attributes"), Value(attribute))).filter(value__isnull=False)
    return [*valued.annotate(users=Count("user_id")).order_by("-users", "value").values_list("value", flat=True)[:most]]


def _of_phases(rows: QuerySet[Any], phases: Phases) -> Any:
    return rows if phases is None else rows.filter(phase__in=sorted(phases))


def _stored(
    experiment: Experiment, phases: Phases, limits: Mapping[timedelta, datetime]
) -> tuple[QuerySet[Exposure], QuerySet[UserValue]]:
    """Return the exposures of the users, and the stored values that count."""
    source = source_of(experiment)
    values = _of_phases(stored_values(experiment), phases).exclude(metric=EXPOSURE)
    counts = Q(metric__in=[number for number in source.definitions if source.definitions[number].span not in limits])
    for span, boundary in limits.items():
        last_day = stored_values(experiment).filter(metric=EXPOSURE, day=boundary.date(), exposed_at__lt=boundary)
        # By the user, so that Citus has each worker ask for its own.
        is_before = Exists(last_day.filter(user_id=OuterRef("user_id")))
        is_mature = Q(day__lt=boundary.date()) | Q(is_before, day=boundary.date())
        of_span = [number for number, definition in source.definitions.items() if definition.span == span]
        counts |= Q(metric__in=of_span) & is_mature
    return _of_phases(stored_exposures(experiment), phases), values.filter(counts)


def _computed(
    experiment: Experiment, phases: Phases, limits: Mapping[timedelta, datetime]
) -> tuple[QuerySet[Exposure], QuerySet[UserValue]]:
    """Return the same from exposures and events alone."""
    source = source_of(experiment)
    source = replace(source, exposures=_of_phases(source.exposures, phases), mature_by=limits or None)
    return source.exposures, computed_values(source)


_Counts = Mapping[tuple[int | None, int, str], tuple[ExactSums, Mapping[timedelta, int]]]
"""The users by place, phase and variant, and the numbers of mature ones by span."""


def _count_users(
    experiment: Experiment,
    users: QuerySet[Exposure],
    attribute: str,
    own: Sequence[str],
    boundaries: Mapping[timedelta, datetime],
) -> _Counts:
    placed = _placed(users, attribute, own)
    mature = {f"mature_{index}": Q(exposed_at__lt=boundary) for index, boundary in enumerate(boundaries.values())}
    rows = placed.values_list(_PLACE, "phase", "variant").annotate(
        users=Count("user_id"),
        several=Count("user_id", filter=in_several_variants(experiment)),
        **{name: Count("user_id", filter=is_mature) for name, is_mature in mature.items()},
    )
    return {
        (at, phase, variant): (
            ExactSums(users=number, in_several_variants=several),
            dict(zip(boundaries, counts, strict=True)),
        )
        for at, phase, variant, number, several, *counts in rows
    }


def _placed(users: QuerySet[Exposure], attribute: str, own: Sequence[str]) -> QuerySet[Exposure]:
    return users.annotate(**{_PLACE: PlaceInList(F("attributes"), Value(attribute), own)})


def _quantiles(
    experiment: Experiment,
    now: datetime | None,
    users: QuerySet[Exposure],
    attribute: str,
    own: Sequence[str],
    split: Collection[int],
) -> Mapping[int | None, Quantiles]:
    """Return the quantiles over the users of the phases of a split, by slice."""
    quantiles: dict[int | None, dict[int, dict[str, Quantile]]] = {}
    placed = _placed(users.filter(phase__in=sorted(split)), attribute, own)
    for group in compute_groups(experiment, now, placed, [_PLACE]):
        at, variant = group.key
        quantiles.setdefault(at, {}).setdefault(group.metric, {})[variant] = group.quantile
    return quantiles


def _parse(value: str) -> str | bool | float:
    """Return the value of this JSON. 1 and 1.0 are equal, and PostgreSQL returns either of them."""
    parsed: str | bool | float = orjson.loads(value)
    return int(parsed) if isinstance(parsed, float) and abs(parsed) < _MAX_EXACT and parsed.is_integer() else parsed
